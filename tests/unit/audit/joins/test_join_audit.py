"""The audit of joins: its SQL is the join's own meaning, its sides read both forms of inputs, its report tells."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Any

import pytest

from include.audit.history import StoredRun
from include.audit.history_rows import rows_of
from include.audit.joins.cut import JoinCut
from include.audit.joins.report import JoinReport
from include.audit.joins.sides import InputSide, OutputSide
from include.audit.joins.sql import expected_sql
from include.audit.nothing import NothingJudged, exit_status
from include.join.algorithm.versions import vector_to_header
from include.join.config.check import CheckedJoin
from include.join.config.inputs import Input
from include.log.ports import Record
from include.record.codec import Decoder
from include.record.version import to_header
from tests.support.joins.histories import History
from tests.unit.join.test_avro_rows import AvroRun, set_up

pytestmark = pytest.mark.unit


def report(**found: int) -> JoinReport:
    keys = {kind: tuple(f"{kind}{n}" for n in range(min(count, 20))) for kind, count in found.items()}
    return JoinReport("sales", "shop.sales", "2026-11-23T02:00:00Z", {"shop": "0-1-7"}, 10, 9, found, keys)


def test_a_report_names_what_is_wrong_and_the_next_command() -> None:
    wrong = report(missing=2, stale=30)
    assert wrong.findings == 32
    lines = wrong.lines()
    assert lines[0] == "audit sales: 2 missing, 30 stale"
    assert "missing: missing1" in lines
    assert "stale: … and 10 more" in lines
    assert lines[-1] == "next: lyrebird audit join sales --repair"
    clean = report()
    assert clean.clean
    assert clean.lines()[0] == "audit sales: clean"
    assert not clean.next_command
    told = {"audits": {"sales": wrong.to_json(), "other": clean.to_json()}}
    other, row = rows_of("join", StoredRun("run", 0, told))
    assert (row.clean, row.said, row.position) == (False, "2 missing, 30 stale", "shop 0-1-7")
    assert row.details[0] == "missing: missing0, missing1"
    assert (other.clean, other.said) == (True, "clean: 10 outputs")


def test_a_join_whose_inputs_have_no_record_yet_has_judged_nothing() -> None:
    at = JoinCut({("a", 0): 0, ("control", 0): 4}, {("shop.sales", 0): 0}, None, {}, ())
    assert at.records(["a"]) == 0
    assert replace(at, inputs={("a", 0): 3}).records(["a"]) == 3
    assert replace(at, output={("shop.sales", 0): 2}).records(["a"]) == 2
    empty = replace(report(), expected=0, held=0)
    nothing = empty.or_nothing
    assert isinstance(nothing, NothingJudged)
    assert (nothing.what, nothing.topic, nothing.clean, exit_status([nothing])) == ("sales", "shop.sales", False, 4)
    (row,) = rows_of("join", StoredRun("run", 0, {"audits": {"sales": nothing.to_json()}}))
    assert (row.said, row.clean, row.nothing) == ("nothing to judge yet", False, True)
    # Inputs of which nothing joins were judged: the topic must hold nothing.
    judged = replace(empty, records=3)
    assert judged.or_nothing is judged
    assert (exit_status([judged]), exit_status([report(extra=1)])) == (0, 1)
    assert report(extra=1).or_nothing == report(extra=1)


def test_a_part_of_the_outputs_into_which_none_falls_is_not_clean() -> None:
    part = replace(report(), expected=0, held=0, records=90, sample=16)
    assert (part.verdict, part.clean, part.next_command, exit_status([part])) == ("incomplete", False, "", 0)
    assert part.or_nothing is part
    assert part.lines()[0] == "audit sales (one of 16 outputs): incomplete"
    assert "  no output of either side falls into this part: nothing was compared" in part.lines()
    (row,) = rows_of("join", StoredRun("run", 0, {"audits": {"sales": part.to_json()}}))
    assert (row.clean, row.incomplete, row.said) == (False, True, "incomplete: 0 outputs")
    assert row.details == ("no output of either side falls into this part: nothing was compared",)
    # All that the join reads makes no output, and the topic holds none: that was compared.
    assert replace(part, sample=1).clean
    assert replace(part, held=1, found={"extra": 1}).verdict == "findings"


@pytest.mark.parametrize("grouped", [False, True])
def test_what_sql_says_of_the_inputs_is_what_the_join_has_written(grouped: bool) -> None:
    """The whole audit on SQLite: both sides read records, SQL joins, and the texts are equal."""
    for seed in range(80):
        history = History(seed, grouped=grouped)
        if any(history.floors):
            # What floors remove is taken out by the caller.
            continue
        made, wanted = audited(history)
        assert made == wanted, seed


def audited(history: History) -> tuple[dict[str, str], dict[str, str]]:
    """(held, expected): key → shown. Versions may differ: an output that shows the same is not written again."""
    setup = set_up(history)
    run = AvroRun(setup)
    run.to_the_end()
    inputs = tuple(
        Input(f"t{i}", schema, history.located[i]) for i, schema in zip(history.inputs, setup.newest, strict=True)
    )
    checked = CheckedJoin(setup.join, inputs, setup.plan, setup.output, ())
    schemas: dict[int, Any] = {**setup.schemas, 1: setup.output.key, 2: setup.output.value}
    decoder = Decoder(schemas.__getitem__)
    database = sqlite3.connect(":memory:")
    sides = [InputSide(checked, i, decoder) for i in history.inputs]
    for i, side in enumerate(sides):
        database.execute(f"CREATE TABLE input_{i} (key BLOB, version INT, join_key TEXT, grouped TEXT, shown TEXT)")
        newest: dict[bytes, Any] = {}
        for partition, log in enumerate(history.logs[i]):
            for offset, record in enumerate(log):
                key, value = run.encoded(i, record)
                row = side.row(Record(f"t{i}", partition, offset, key, value, (to_header(record.version),)))
                assert row.key is not None
                if row.key not in newest or newest[row.key].version < row.version:
                    newest[row.key] = row
        rows = [(r.key, r.version, r.join_key, r.grouped, r.shown) for r in newest.values() if r.live]
        database.executemany(f"INSERT INTO input_{i} VALUES (?, ?, ?, ?, ?)", rows)
    sql = expected_sql(history.optional, [side.absent() for side in sides]).replace("AS STRING", "AS TEXT")
    expected = {key: shown for key, _, shown in database.execute(sql)}
    outputs, held = OutputSide(checked, decoder), dict[str, tuple[int, Any]]()
    for output in run.outputs:
        headers = (to_header(output.version), vector_to_header(output.vector))
        found = outputs.row(Record("out", 0, 0, output.key, output.value, headers))
        if found.version > held.get(found.key, (-1, None))[0]:
            held[found.key] = found.version, found.shown if found.live else None
    return {key: each for key, (_, each) in held.items() if each is not None}, expected
