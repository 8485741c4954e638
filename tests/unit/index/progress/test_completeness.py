from __future__ import annotations

from dataclasses import replace

from include.index.progress.completeness import Completeness
from include.index.progress.document import IndexProgress
from include.log.ports import Record
from include.log.resolved import ResolvedRecord, ResolvedWriter
from tests.support.documents.topic import position

TOPIC = "docs"


def records(ends: list[dict[int, int]]) -> list[Record]:
    writer = ResolvedWriter("shop", None, {})
    found = []
    for n, changed in enumerate(ends, start=1):
        record, _ = writer.records(
            {(TOPIC, p): offset for p, offset in changed.items()}, version=n, position=position(n), now_us=n
        )
        found.append(Record(f"{TOPIC}.resolved", 0, n, record.key, record.value()))
    return found


def complete(progress: IndexProgress) -> str | None:
    return str(progress.complete.gtids) if progress.complete else None


def test_a_position_is_complete_once_all_of_its_offsets_are_acknowledged() -> None:
    found = Completeness(IndexProgress(TOPIC))
    assert found.on_records(records([{0: 5, 1: 5}, {0: 9}])) == []
    assert complete(found.apply(IndexProgress(TOPIC, acked={0: 5, 1: 4}))) is None
    assert complete(found.apply(IndexProgress(TOPIC, acked={0: 5, 1: 5}))) == "0-1-1"
    assert complete(found.apply(IndexProgress(TOPIC, acked={0: 9, 1: 5}))) == "0-1-2"


def test_a_restart_goes_on_from_the_progress_document_without_a_full_map() -> None:
    one, two, three = records([{0: 5, 1: 5}, {0: 9}, {1: 7}])
    first = Completeness(IndexProgress(TOPIC))
    first.on_records([one, two])
    kept = IndexProgress.from_json(first.apply(IndexProgress(TOPIC, acked={0: 5, 1: 5})).to_json())
    assert complete(kept) == "0-1-1"
    second = Completeness(kept)
    # The record read before the restart is complete now, and the next delta is understood.
    kept = second.apply(replace(kept, acked={0: 9, 1: 5}))
    assert complete(kept) == "0-1-2"
    second.on_records([two, three])
    assert complete(second.apply(replace(kept, acked={0: 9, 1: 7}))) == "0-1-3"


def test_a_hole_says_nothing_until_the_next_full_map() -> None:
    one, _lost, three = records([{0: 5, 1: 5}, {0: 9}, {0: 10}])
    found = Completeness(IndexProgress(TOPIC))
    found.on_records([one])
    found.on_records([three])
    assert complete(found.apply(IndexProgress(TOPIC, acked={0: 99, 1: 99}))) == "0-1-1"
    full = ResolvedRecord("shop", 4, 4, position(4), {(TOPIC, 0): 11, (TOPIC, 1): 5}, full=True)
    found.on_records([Record("docs.resolved", 0, 9, full.key, full.value())])
    assert complete(found.apply(IndexProgress(TOPIC, acked={0: 99, 1: 99}))) == "0-1-4"


def test_what_is_no_resolved_record_is_handed_back() -> None:
    found = Completeness(IndexProgress(TOPIC))
    bad = Record("docs.resolved", 0, 1, b"k", b"{}")
    assert [record for record, _ in found.on_records([bad, *records([{0: 1}])])] == [bad]
    assert complete(found.apply(IndexProgress(TOPIC, acked={0: 1}))) == "0-1-1"


def test_an_index_that_is_far_behind_keeps_a_bounded_number_of_positions_and_the_last() -> None:
    found = Completeness(IndexProgress(TOPIC))
    found.on_records(records([{0: n} for n in range(1, 5001)]))
    assert len(found._waiting) <= 1000
    assert complete(found.apply(IndexProgress(TOPIC, acked={0: 5000}))) == "0-1-5000"
