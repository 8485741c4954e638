"""Resolved records: what a writer says, and what a reader may believe."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.log.resolved import FULL_KEYS, PartitionEnds, ResolvedRecord, ResolvedView, ResolvedWriter
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition

HOUR_US = 3_600_000_000
Appended = list[tuple[bytes, bytes | None]]


def position(number: int) -> SourcePosition:
    return SourcePosition("mariadb", MariadbGtidSet({0: (1, number)}), BinlogPosition("bin.000001", number), number)


def say(
    writer: ResolvedWriter, number: int, changed: PartitionEnds, now_us: int = 0, sources: Collection[str] = ()
) -> tuple[ResolvedRecord, Appended]:
    return writer.records(changed, version=number, position=position(number), now_us=now_us, sources=sources)


def test_a_record_survives_its_bytes() -> None:
    record = ResolvedRecord(
        "shop", 3, 9, position(4), {("t", 0): 5, ("t", 11): 6}, True, ("shop.x",), {"xa": [1], "v": 2}
    )
    assert ResolvedRecord.parse(record.value()) == record
    assert record.key == b"shop/full-3"


def test_full_maps_share_a_few_keys_and_each_delta_has_its_own() -> None:
    def key(sequence: int, *, full: bool) -> bytes:
        return ResolvedRecord("s", sequence, 0, position(0), {}, full).key

    assert key(5, full=True) == key(5 + FULL_KEYS, full=True) != key(6, full=True)
    assert key(5, full=False) == b"s/delta-5" != key(5 + FULL_KEYS, full=False)


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"[]", b"{}", b'{"source": "s"}',
     ResolvedRecord("s", 1, 1, position(1), {}, True).value().replace(b"{}", b"[]", 1),
     ResolvedRecord("s", 1, 1, position(1), {}, True).value().replace(b"0-1-1", b"nonsense")],
)  # fmt: skip
def test_other_bytes_are_an_invalid_record(data: bytes) -> None:
    with pytest.raises(InvalidRecord, match="resolved"):
        ResolvedRecord.parse(data)


def test_changes_of_another_shape_are_an_invalid_record() -> None:
    wrong: list[Any] = [[], {"set": []}, {"put": {"tables": 1}}, {"gone": {"tables": {}}}, {"lost": 3}]
    for changes in wrong:
        record = ResolvedRecord("s", 2, 1, position(1), {}, full=False, changes=changes)
        data = record.value() if isinstance(changes, dict) else record.value().replace(b'"changes":{}', b'"changes":[]')
        with pytest.raises(InvalidRecord, match="resolved"):
            ResolvedRecord.parse(data)


def test_the_first_record_after_a_start_is_a_full_map() -> None:
    writer = ResolvedWriter("s", None, {("t", 0): 4})
    first, _ = say(writer, 1, {("t", 1): 2})
    second, _ = say(writer, 2, {("t", 1): 3})
    assert (first.full, first.sequence, first.next_offsets) == (True, 1, {("t", 0): 4, ("t", 1): 2})
    assert (second.full, second.sequence, second.next_offsets) == (False, 2, {("t", 1): 3})


def test_a_full_map_replaces_deltas_that_outweigh_it_and_removes_them() -> None:
    writer = ResolvedWriter("s", None, {("t", p): 0 for p in range(3)})
    say(writer, 1, {})
    kinds, removed = [], []
    for number in range(2, 8):
        record, appended = say(writer, number, {("t", 0): number})
        kinds.append(record.full)
        removed += [key for key, value in appended if value is None]
    # Three partitions: after three entries the fourth makes a full map.
    assert kinds == [False, False, False, True, False, False]
    assert removed == [b"s/delta-2", b"s/delta-3", b"s/delta-4"]


def test_a_full_map_comes_hourly_at_the_latest() -> None:
    writer = ResolvedWriter("s", None, {("t", p): 0 for p in range(99)})
    full = [say(writer, n, {}, now_us=now)[0].full for n, now in enumerate((0, HOUR_US - 1, HOUR_US, HOUR_US + 1), 1)]
    assert full == [True, False, True, False]


def test_a_restart_goes_on_with_the_sequence_and_removes_the_deltas_it_found() -> None:
    last = ResolvedRecord("s", 41, 7, position(7), {("t", 0): 5}, False)
    record, appended = say(ResolvedWriter("s", last, {("t", 0): 5}, deltas=[b"s/delta-40", b"s/delta-41"]), 8, {})
    assert (record.sequence, record.full, record.next_offsets) == (42, True, {("t", 0): 5})
    assert appended[1:] == [(b"s/delta-40", None), (b"s/delta-41", None)]


def test_a_reader_that_misses_a_record_knows_nothing_until_the_next_full_map() -> None:
    writer = ResolvedWriter("s", None, {("t", p): 0 for p in range(50)})
    said = [say(writer, n, {("t", 0): n}, now_us=HOUR_US if n == 5 else 0)[0] for n in range(1, 7)]
    view = ResolvedView()
    assert view.ends() is None
    heard = [view.on_record(r.value()) is not None for r in said if r.sequence != 3]
    #                1     2     4      5 (full) 6
    assert heard == [True, True, False, True, True]
    assert view.newest == said[-1]
    ends = view.ends()
    assert ends is not None
    assert ends["t", 0] == 6


def test_a_reader_that_begins_in_the_middle_waits_for_a_full_map() -> None:
    writer = ResolvedWriter("s", None, {("t", 0): 0, ("t", 1): 0})
    say(writer, 1, {})
    view = ResolvedView()
    delta, _ = say(writer, 2, {("t", 0): 1})
    assert view.on_record(delta.value()) is None
    assert (view.newest, view.ends()) == (delta, None)


def test_repetitions_and_tombstones_change_nothing() -> None:
    writer = ResolvedWriter("s", None, {})
    first, _ = say(writer, 1, {("t", 0): 1})
    second, _ = say(writer, 2, {("t", 0): 2})
    view = ResolvedView()
    assert [view.on_record(each) is not None for each in (first.value(), second.value())] == [True, True]
    assert [view.on_record(each) for each in (first.value(), None, second.value())] == [None, None, None]
    assert view.ends() == {("t", 0): 2}


steps = st.lists(
    st.tuples(st.dictionaries(st.integers(0, 5), st.integers(1, 3), max_size=4), st.booleans(), st.booleans()),
    max_size=25,
)


@given(steps)
def test_whatever_is_lost_or_restarted_a_reader_believes_only_what_is_so(
    found: list[tuple[dict[int, int], bool, bool]],
) -> None:
    """Each step: records per partition, whether the writer restarts after it, whether the reader misses it."""
    ends: dict[tuple[str, int], int] = {}
    writer = ResolvedWriter("s", None, {})
    view = ResolvedView()
    for number, (more, restarts, missed) in enumerate(found, 1):
        changed = {("t", p): ends.get(("t", p), 0) + count for p, count in more.items()}
        ends |= changed
        record, _ = say(writer, number, changed)
        assert record.sequence == number
        if restarts:
            writer = ResolvedWriter("s", record, ends)
        if not missed and view.on_record(record.value()) is not None:
            assert view.ends() == ends
        elif not missed:
            assert view.ends() is None


fields = st.dictionaries(
    st.sampled_from("abc"),
    st.one_of(
        st.integers(0, 2),
        st.none(),
        st.lists(st.integers(0, 2)),
        st.dictionaries(st.sampled_from("xyz"), st.none() | st.integers(0, 2)),
    ),
)


@given(st.lists(fields, min_size=1, max_size=8))
def test_a_reader_knows_the_whole_state_though_a_delta_tells_only_what_changed(states: list[dict[str, Any]]) -> None:
    writer, view = ResolvedWriter("s", None, {}), ResolvedView()
    for number, state in enumerate(states, 1):
        record, _ = writer.records({}, version=number, position=position(number), now_us=0, state=state)
        view.on_record(record.value())
        assert view.newest is not None
        assert view.newest.state == state == record.state


def test_deltas_of_before_with_their_whole_state_are_read() -> None:
    view = ResolvedView()
    view.on_record(ResolvedRecord("s", 1, 1, position(1), {}, full=True, state={"a": 1, "b": 2}).value())
    view.on_record(ResolvedRecord("s", 2, 2, position(2), {}, full=False, state={"a": 3}).value())
    assert view.newest is not None
    assert view.newest.state == {"a": 3}


def test_a_topic_of_several_sources_has_a_sequence_and_ends_of_each() -> None:
    both = ("depot", "shop")
    writers = {source: ResolvedWriter(source, None, {("t", 0): 0, ("t", 1): 0}) for source in both}
    view = ResolvedView()
    for number, source in enumerate(("shop", "shop", "depot", "shop"), 1):
        record, _ = say(writers[source], number, {("t", 0): number}, sources=both)
        assert ResolvedRecord.parse(record.value()) == record
        assert view.on_record(record.value()) is not None
        assert (view.ends() is None) == (number < 3), "of all of them only when each is known"
    assert [view.of(source).sequence for source in both] == [1, 3]  # type: ignore[union-attr]
    assert (view.ends("shop"), view.ends("depot")) == ({("t", 0): 4, ("t", 1): 0}, {("t", 0): 3, ("t", 1): 0})
    assert view.ends() == {("t", 0): 4, ("t", 1): 0}
    assert view.newest is not None
    assert view.newest.key == b"shop/delta-3"


def test_a_record_that_one_source_missed_leaves_the_others_known() -> None:
    both = ("depot", "shop")
    shop, depot = (ResolvedWriter(each, None, {("t", p): 0 for p in range(9)}) for each in reversed(both))
    view = ResolvedView()
    for writer in (shop, depot):
        view.on_record(say(writer, 1, {}, sources=both)[0].value())
    say(shop, 2, {("t", 0): 7})
    assert view.on_record(say(shop, 3, {("t", 1): 7}, sources=both)[0].value()) is None
    assert view.on_record(say(depot, 4, {("t", 1): 7}, sources=both)[0].value()) is not None
    assert (view.ends("shop"), view.ends()) == (None, None)


def test_a_source_that_left_is_forgotten_and_the_sequence_goes_on_with_the_next_one() -> None:
    before, _ = say(ResolvedWriter("shop", None, {("t", 0): 4}), 1, {})
    after, _ = say(ResolvedWriter("depot", before, {("t", 0): 5}), 2, {})
    view = ResolvedView()
    assert [view.on_record(each.value()) is not None for each in (before, after)] == [True, True]
    assert (after.sequence, view.sources(), view.of("shop"), view.ends()) == (2, ("depot",), None, {("t", 0): 5})
