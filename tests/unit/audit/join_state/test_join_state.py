"""The audit of a join's state: what the inputs say of rows is what buckets hold; what its report tells."""

from __future__ import annotations

import pytest

from include.audit.join_state.report import StateReport
from include.audit.join_state.rows import HeldRow, RecordedRow, held_rows, stood
from include.join.algorithm.row import Row, incomplete_key, row_key
from include.log.ports import Record
from include.record.key import partition_of
from include.record.version import to_header
from tests.support.joins.histories import History
from tests.unit.join.test_avro_rows import AvroRun, set_up

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("grouped", [False, True])
def test_rows_that_records_bring_are_the_rows_that_buckets_hold(grouped: bool) -> None:
    compared = 0
    for seed in range(400):
        history = History(seed, grouped=grouped)
        if any(history.floors):
            # What floors remove is taken out by the caller.
            continue
        setup = set_up(history)
        run = AvroRun(setup)
        run.to_the_end()
        newest: dict[tuple[int, bytes], RecordedRow] = {}
        for i, reader in enumerate(setup.readers):
            for partition, log in enumerate(history.logs[i]):
                for offset, record in enumerate(log):
                    key, value = run.encoded(i, record)
                    row = stood(Record(f"t{i}", partition, offset, key, value, (to_header(record.version),)), reader)
                    assert row.key == key
                    other = newest.get((i, key))
                    if other is None or other.version < row.version:
                        newest[i, key] = row
        wanted = {(r.slot, r.key, r.join_key, r.version, r.digest) for r in newest.values() if r.live}
        kept = [row for bucket, state in enumerate(run.states) for row in held("rows", bucket, state, len(run.states))]
        assert {(r.slot, r.key, r.join_key, r.version, r.digest) for r in kept} == wanted, seed
        found = [row for bucket, state in enumerate(run.firsts) for row in held("whereabouts", bucket, state, 3)]
        located = {each[:4] for each in wanted if history.located[each[0]]}
        assert {(r.slot, r.key, r.join_key, r.version) for r in found} == located, seed
        compared += len(wanted) + len(located)
    assert compared > 400


def held(stage: str, bucket: int, state: dict[bytes, bytes], buckets: int) -> list[HeldRow]:
    return list(held_rows(stage, bucket, state.items(), buckets))


def test_a_row_in_another_bucket_than_its_own_is_not_at_home() -> None:
    key, row = row_key(b"join", 1, b"primary"), Row(7, 3, b"body").to_bytes()
    home = partition_of(b"join", 4)
    (there,) = held("rows", home, {key: row}, 4)
    assert there.home
    assert (there.slot, there.key, there.join_key, there.version) == (1, b"primary", b"join", 7)
    (elsewhere,) = held("rows", (home + 1) % 4, {key: row}, 4)
    assert not elsewhere.home
    assert there._replace(home=False) == elsewhere


def test_a_mark_is_told_of_only_where_it_is_misplaced() -> None:
    mark = incomplete_key(b"join")
    home = partition_of(b"join", 4)
    assert held("rows", home, {mark: b""}, 4) == []
    (wrong,) = held("rows", (home + 1) % 4, {mark: b""}, 4)
    assert (wrong.slot, wrong.join_key, wrong.home) == (-1, b"join", False)


def test_what_cannot_be_read_has_no_key() -> None:
    reader = set_up(History(1)).readers[0]
    assert stood(Record("t0", 0, 5, b"k", b"\x01junk", (to_header(3),)), reader).key is None
    assert stood(Record("t0", 0, 5, None, None, (to_header(3),)), reader).key is None


def test_a_report_names_rows_and_the_next_command() -> None:
    at = "2026-11-24T02:00:00Z"
    some = tuple(f"rows of input 0, key {n}" for n in range(20))
    wrong = StateReport(
        "sales", "2026-11-24T02:00:00Z", {"shop": "0-1-7"}, 4, 90, 88, {"missing": 30}, {"missing": some}
    )
    lines = wrong.lines()
    assert lines[0] == "state of sales: 30 missing"
    assert lines[1] == "  the inputs have 90 rows for it, 4 buckets hold 88"
    assert lines[-2:] == ["missing: … and 10 more", "next: lyrebird join rebuild sales"]
    assert wrong.to_json()["findings"] == 30
    clean = StateReport("sales", at, {}, 4, 90, 90, {}, {}, ("shop.odd",), 2)
    assert clean.clean
    assert clean.lines()[2:] == ["  not covered: shop.odd", "  2 records of inputs cannot be read and are not judged"]
