"""Which partition names are over, and what came too late for one that was."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.lake.dates.event_hours import CalendarPeriod
from include.lake.dates.finalised import CommittedTimes, PartitionProgress, came_late, finished, passed
from include.lake.parsing.zones import zone

HOUR = 3_600_000
NOON = 1_714_564_800_000  # 2024-05-01T12:00Z
TEN, ELEVEN = ("dt=2024-05-01", "hr=10"), ("dt=2024-05-01", "hr=11")
ALL = [TEN, ELEVEN]


def partition(
    *commits: tuple[int, int, int], head: int | None = 500, end: int = 1000, at: int = NOON
) -> PartitionProgress:
    return PartitionProgress(head, end, at, [CommittedTimes(*commit) for commit in commits])


def over(*partitions: PartitionProgress, lateness_s: int = 0, now_ms: int = NOON + 12 * HOUR) -> list[tuple[str, ...]]:
    return finished(ALL, partitions, "UTC", lateness_s, now_ms)


def test_an_hour_is_over_when_records_of_the_next_one_are_committed() -> None:
    assert over(partition((10, NOON - HOUR, NOON))) == [TEN]
    assert over(partition((10, NOON, NOON + 5))) == ALL


def test_an_hour_is_over_at_its_last_instant_and_not_a_millisecond_before() -> None:
    assert over(partition((2, NOON - HOUR - 1, NOON - HOUR - 1))) == []
    assert over(partition((2, NOON - HOUR, NOON - HOUR))) == [TEN]


def test_lateness_keeps_hours_open() -> None:
    assert over(partition((9, NOON, NOON)), lateness_s=1) == [TEN]
    assert over(partition((9, NOON + 1000, NOON + 1000)), lateness_s=1) == ALL


def test_a_single_future_timestamp_finishes_nothing() -> None:
    old, future = NOON - 5 * HOUR, NOON + 48 * HOUR
    assert over(partition((10, old, old), (1, future, future))) == []
    assert over(partition((10, old, future))) == []
    assert over(partition((1, future, future))) == []


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100), st.integers(0, 50)), max_size=5), st.integers(1, 4))
@settings(max_examples=50)
def test_passed_time_needs_as_many_records_as_are_declared(raw: list[tuple[int, int, int]], witnesses: int) -> None:
    commits = [CommittedTimes(n, low, low if n == 1 else low + more) for n, low, more in raw]
    # The least that the records can be: one at the greatest time, all others at the least.
    times = sorted(t for n, low, high in commits for t in [high, *[low] * (n - 1)])
    expected = times[-witnesses] if len(times) >= witnesses else None
    assert passed(PartitionProgress(1, 2, 0, commits), 10_000, witnesses) == expected


def test_no_timestamp_passes_the_present() -> None:
    assert passed(partition((5, NOON + HOUR, NOON + HOUR)), NOON) == NOON


def test_the_slowest_partition_decides() -> None:
    ahead, behind = partition((9, NOON, NOON)), partition((9, NOON - 3 * HOUR, NOON - 3 * HOUR))
    assert over(ahead) == ALL
    assert over(ahead, behind) == []


def test_a_partition_with_nothing_committed_holds_all_back() -> None:
    ahead = partition((9, NOON, NOON))
    assert over(ahead, partition(head=None)) == []
    assert over(ahead, partition((0, 0, 0))) == []
    assert over() == []


def test_a_partition_read_to_its_end_has_passed_that_moment() -> None:
    ahead = partition((9, NOON, NOON))
    assert over(ahead, partition((9, 0, 0), head=1000, at=NOON)) == ALL
    assert over(ahead, partition((9, 0, 0), head=1000, at=NOON - 1)) == [TEN]
    assert over(ahead, partition((9, 0, 0), head=999, at=NOON)) == []


def test_a_partition_that_never_had_a_record_holds_nothing_back() -> None:
    assert over(partition((9, NOON, NOON)), partition(head=None, end=0)) == ALL


def test_names_without_a_date_and_hours_that_never_were_are_never_over() -> None:
    names = [("country=de",), ("offset=0",), ("dt=2024-03-31", "hr=02")]
    assert finished(names, [partition((9, NOON, NOON))], "Europe/Berlin", 0, NOON) == []


def test_an_hour_that_happens_twice_waits_for_its_second_end() -> None:
    twice, before = ("dt=2024-10-27", "hr=02"), ("dt=2024-10-27", "hr=01")
    first_end = 1_729_990_800_000  # 2024-10-27T01:00Z, when Berlin's clocks go from 03:00 back to 02:00

    def ended(at_ms: int) -> list[tuple[str, ...]]:
        return finished([twice, before], [partition((9, at_ms, at_ms))], "Europe/Berlin", 0, at_ms)

    assert ended(first_end) == [before]
    assert ended(first_end + HOUR - 1) == [before]
    assert ended(first_end + HOUR) == [before, twice]


def test_names_come_once_and_sorted() -> None:
    names = [("dt=2024-05-01", "hr=10", "country=fr"), TEN, TEN, ("dt=2024-04-30",)]
    assert finished(names, [partition((9, NOON, NOON))], "UTC", 0, NOON) == [("dt=2024-04-30",), TEN, names[0]]


@pytest.mark.parametrize(
    "name", ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo"]
)
@settings(max_examples=20)
@given(now=st.integers(1_130_000_000, 1_730_000_000), lateness_h=st.integers(0, 3))
def test_what_is_over_gets_no_more_records(name: str, now: int, lateness_h: int) -> None:
    """The oracle: no instant from the passed time on, less the lateness, falls into a name that is over."""
    where = zone(name)

    def names_of(second: int) -> tuple[str, ...]:
        local = dt.datetime.fromtimestamp(second, dt.UTC).astimezone(where)
        return (f"dt={local.date()}", f"hr={local.hour:02}")

    open_from = now - lateness_h * 3600
    coming = {names_of(open_from + step * 900) for step in range(4 * 30)}
    gone = {names_of(open_from - step * 900) for step in range(1, 4 * 30)}
    progress = partition((2, now * 1000, now * 1000))
    ended = set(finished(coming | gone, [progress], name, lateness_h * 3600, now * 1000))
    assert not ended & coming
    assert ended == {each for each in gone if _end_s(each, name) <= open_from}
    assert gone - coming - {names_of(open_from - 1)} <= ended


def _end_s(names: tuple[str, ...], name: str) -> int:
    period = CalendarPeriod.of(names)
    end = period.end_ms(name) if period else None
    assert end is not None
    return end // 1000


def test_what_came_late_is_told_by_offsets() -> None:
    heads = {0: 1000, 1: 50}
    assert not came_late(heads, 0, 999)
    assert came_late(heads, 0, 1000)
    assert came_late(heads, 1, 50)
    assert came_late(heads, 2, 0)
