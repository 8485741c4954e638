"""A bucket's work: floors before rows, limits, rows that are overtaken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from include.join.algorithm.row import Row, Touch
from include.join.bucket import Floor, JoinBucketResult, apply_work
from include.join.gathering import RecordWork
from tests.support.joins.histories import History, State

pytestmark = pytest.mark.unit


class Bucket(State):
    """A bucket in memory whose pointers count its versions."""

    version = 0

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()

    def commit(self, rows: Mapping[bytes, bytes | None], *, more: Mapping[str, int] | None = None) -> bytes:
        self.take(dict(rows))
        self.counts.update(more or {})
        self.version += 1
        return b"%d" % self.version


def inner_join() -> History:
    for seed in range(10_000):
        history = History(seed)
        if history.optional == (False, False) and not any(history.where):
            return history
    raise AssertionError


def row(version: int, value: int = 0) -> Row:
    return Row(version, 0, b"[1,%d,0]" % value)


def put(input: int, key: bytes, rank: int, version: int, value: int = 0) -> Touch:
    return Touch(b"\x011", rank, input, key, version, row(version, value))


def work(bucket: Bucket, *touches: Touch, floors: tuple[Floor, ...] = (), most: int = 100) -> JoinBucketResult:
    return apply_work(RecordWork([each.plain() for each in touches]), floors, bucket, inner_join().shape(most))


def said(result: JoinBucketResult) -> list[tuple[bytes, bytes | None, int]]:
    return [(each.key, each.value, each.version) for each in result.outputs]


def test_two_rows_that_meet_are_one_output_of_the_later_one_s_rank() -> None:
    result = work(Bucket(), put(0, b"a", 5, 1), put(1, b"b", 9, 1, value=1))
    assert said(result) == [(b"<a,b>", b"(0,1)", 19)]
    assert result.pointer == b"1"


def test_work_that_changes_nothing_leaves_the_pointer() -> None:
    assert work(Bucket(), Touch(b"\x011", 5, 0, b"a", 1, None)).pointer is None


def test_a_row_that_a_newer_version_has_overtaken_is_counted_and_does_nothing() -> None:
    bucket = Bucket()
    work(bucket, put(0, b"a", 5, 7), put(1, b"b", 6, 1))
    result = work(bucket, put(0, b"a", 10, 6, value=1), Touch(b"\x011", 11, 0, b"a", 6, None))
    assert (said(result), result.stale, result.pointer) == ([], 2, None)


def test_rows_below_a_floor_go_and_those_that_it_spares_are_written_again() -> None:
    bucket = Bucket()
    work(bucket, put(0, b"a", 1, 3), put(0, b"c", 2, 8), put(1, b"b", 3, 1))
    result = work(bucket, floors=(Floor(0, 5, 10),))
    assert said(result) == [(b"<a,b>", None, 20), (b"<c,b>", b"(0,0)", 21)]


def test_a_lower_floor_behind_a_greater_one_brings_nothing_back() -> None:
    bucket = Bucket()
    work(bucket, put(0, b"a", 1, 7), put(1, b"b", 3, 1))
    result = work(bucket, floors=(Floor(0, 10, 10), Floor(0, 5, 11)))
    assert said(result) == [(b"<a,b>", None, 20)]


def test_a_change_of_too_many_outputs_is_held_with_its_row_in_the_state() -> None:
    bucket = Bucket()
    work(bucket, *(put(1, b"b%d" % n, n, 1) for n in range(3)))
    result = work(bucket, put(0, b"a", 10, 1), most=2)
    ((held,), outputs) = (result.held, said(result))
    assert (held.key, held.rank, held.outputs, outputs) == (b"a", 10, 3, [])
    assert bucket.counts["incomplete"] == 1
    # What comes later and is small enough goes out.
    assert said(work(bucket, put(1, b"b0", 11, 2, value=1), most=2)) == [(b"<a,b0>", b"(0,1)", 23)]
