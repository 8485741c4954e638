from pathlib import Path

import pytest

from include.errors import Transient
from tests.bench.join import flink
from tests.bench.join.flink import FlinkPeer, joins_of

ABSTRACT = """== Abstract Syntax Tree ==
LogicalProject(id0=[$0], k=[$1])
+- LogicalJoin(condition=[=($1, $16)], joinType=[inner])

"""
AT_ONCE = """== Optimized Physical Plan ==
MultiJoin(commonJoinKey=[k], joinTypes=[INNER, INNER])

== Optimized Execution Plan ==
Sink(table=[default_catalog.many.joined], fields=[id0, k])
+- Calc(select=[id AS id0, k])
   +- MultiJoin(commonJoinKey=[k], joinTypes=[INNER, INNER], joinConditions=[(k = k0), (k = k1)])
      :- Exchange(distribution=[hash[k]])
"""
IN_A_CHAIN = """== Optimized Execution Plan ==
Sink(table=[default_catalog.many.joined], fields=[id0, k])
+- Join(joinType=[InnerJoin], where=[(k = k1)])
   :- Join(joinType=[InnerJoin], where=[(k = k0)])
"""
WITHOUT_KEY = "== Optimized Execution Plan ==\n+- MultiJoin(commonJoinKey=[], joinTypes=[INNER, INNER])"


@pytest.mark.parametrize(
    ("plan", "joins"),
    [
        (ABSTRACT + AT_ONCE, ["MultiJoin(commonJoinKey=[k]"]),
        (ABSTRACT + IN_A_CHAIN, ["Join(", "Join("]),
        (ABSTRACT + WITHOUT_KEY, ["MultiJoin(commonJoinKey=[]"]),
        (ABSTRACT, []),
    ],
)
def test_joins_are_those_of_the_plan_that_is_run(plan: str, joins: list[str]) -> None:
    assert joins_of(plan) == joins


def test_figure_is_the_median_round_and_ours_a_multiple_of_it() -> None:
    peer = FlinkPeer(400_000, Path())
    peer.rounds = [{"rows": 120.0, "cpu_s": each} for each in (1.0, 3.0, 4.0)]
    assert peer.rows_a_cpu_s == 40.0
    assert peer.times(30.0) == 0.75


def test_no_figure_is_told_once_a_round_failed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    asked = []

    def unreachable(clock: object) -> Path:
        asked.append(clock)
        raise Transient("apache-flink could not be had", fix="Check the network.", system="PyPI")

    monkeypatch.setattr(flink, "_installed", unreachable)
    peer = FlinkPeer(400_000, Path())
    peer.rounds = [{"rows": 120.0, "cpu_s": 3.0}]
    peer.round()
    peer.round()
    assert (peer.rows_a_cpu_s, peer.times(30.0), len(asked)) == (None, None, 1)
    assert peer.told()["failed"] == "apache-flink could not be had (system='PyPI'). Check the network."
    assert "apache-flink could not be had" in capsys.readouterr().err
