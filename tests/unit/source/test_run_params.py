"""What a person may ask of a source."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from include.errors import SettingsError, Terminal
from include.source.run_params import SnapshotMode, SnapshotRun, capture_application, refuse_unless_snapshotted


def asked(**params: Any) -> SnapshotRun:
    return SnapshotRun.from_params({"source": "shop", "tables": [], "mode": "auto", **params}, source=["shop", "other"])


def test_auto_asks_the_running_capture_and_else_starts_one() -> None:
    assert asked().way(capture_runs=True) == "request"
    assert asked().way(capture_runs=False) == "start"


@pytest.mark.parametrize(("mode", "runs"), [("request", False), ("start", True), ("anew", True)])
def test_a_mode_that_contradicts_what_runs_is_refused_with_the_fix(mode: str, runs: bool) -> None:
    with pytest.raises(Terminal, match="auto"):
        asked(mode=mode).way(capture_runs=runs)


@pytest.mark.parametrize("mode", get_args(SnapshotMode))
def test_every_mode_has_a_way(mode: str) -> None:
    assert asked(mode=mode).way(capture_runs=mode in {"auto", "request"}) in {"request", "start"}


@pytest.mark.parametrize(
    "params",
    [
        {"source": "nobody"},
        {"mode": "force"},
        {"tables": ["shop.orders,shop.users"]},
        {"tables": [" "]},
        {"tables": ["shop.orders", "shop.orders"]},
        {"where": "id > 7"},
        {"tables": ["orders"], "date_from": "2026-01-01"},
        {"tables": ["orders"], "date_column": "created"},
        {"tables": ["orders"], "date_column": "a` OR 1 OR `b", "date_from": "2026-01-01"},
        {"tables": ["orders"], "date_column": "created", "date_from": "1st of May"},
        {"tables": ["orders"], "date_column": "created", "date_from": "2026-01-02", "date_until": "2026-01-02"},
    ],
)
def test_a_wrong_name_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as error:
        asked(**params).plan_arguments()
    assert error.value.fix
    assert "params." in str(error.value)


def test_no_tables_means_all_and_says_so_by_their_absence() -> None:
    assert "--tables" not in asked().request_arguments("id")
    assert asked().start_arguments() == ["capture", "run", "--source", "shop", "--snapshot"]


def test_reading_all_anew_is_asked_for_by_its_mode_alone() -> None:
    assert "--anew" in asked(mode="anew").start_arguments()
    assert "--anew" not in asked(mode="start").start_arguments()


def test_tables_and_the_requests_id_reach_the_command() -> None:
    arguments = asked(tables=["shop.orders", "shop.users"]).request_arguments("run-1")
    assert arguments[:4] == ["capture", "snapshot", "--source", "shop"]
    assert arguments[4:] == ["--tables", "shop.orders,shop.users", "--id", "run-1", "--wait", "--timeout", "43200"]


def test_dates_and_a_condition_choose_rows_of_named_tables() -> None:
    dates = {"date_column": "created", "date_from": "2026-01-01", "date_until": "2026-02-01"}
    one = asked(tables=["orders"], where="a = 1 OR b = 2", rows_per_s=0, **dates)
    assert one.condition == "(a = 1 OR b = 2) AND (`created` >= '2026-01-01' AND `created` < '2026-02-01')"
    asks = ["--tables", "orders", "--where", one.condition, "--rows-per-s", "0"]
    assert one.request_arguments("r")[4:10] == asks
    assert one.plan_arguments() == ["capture", "snapshot", "--source", "shop", *asks, "--dry-run"]
    until = asked(tables=["orders"], date_column="created", date_until="2026-02-01")
    assert until.condition == "`created` < '2026-02-01'"


def test_a_plan_needs_no_capture_and_contradicts_none() -> None:
    for runs in (False, True):
        assert asked(plan=True, mode="start").way(capture_runs=runs) == "plan"


@pytest.mark.parametrize("choice", [{"tables": ["orders"], "where": "id > 7"}, {"rows_per_s": 5}])
def test_only_a_running_capture_reads_a_choice(choice: dict[str, Any]) -> None:
    assert asked(**choice).way(capture_runs=True) == "request"
    with pytest.raises(Terminal, match="source_replicate"):
        asked(**choice).way(capture_runs=False)


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("mode", get_args(SnapshotMode))
def test_while_capture_is_down_nothing_waits_for_it_and_each_mode_has_its_next_step(mode: str, runs: bool) -> None:
    with pytest.raises(Terminal, match="capture is down") as refused:
        asked(mode=mode).way(capture_runs=runs, down_owner="source_replicate|r7|capture|-1")
    own = mode in {"start", "anew"}
    assert "owner='source_replicate|r7|capture|-1'" in str(refused.value)
    assert ("Mark that run as failed" in refused.value.fix) == own
    assert ("lyrebird logs capture-shop" in refused.value.fix) != own
    assert "auto" not in refused.value.fix
    assert asked(mode=mode, plan=True).way(capture_runs=runs, down_owner="d|r|t|-1") == "plan"


def test_replication_without_a_snapshot_is_refused_by_naming_the_dag() -> None:
    refuse_unless_snapshotted("shop", {"snapshot": "done"})
    for status in ({"snapshot": "missing"}, {}):
        with pytest.raises(Terminal, match="source_snapshot"):
            refuse_unless_snapshotted("shop", status)


def test_a_capture_is_supervised_under_its_sources_name() -> None:
    assert capture_application("shop") == "capture-shop"
