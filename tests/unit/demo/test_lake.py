"""What the demo's summary says of the lake."""

from __future__ import annotations

from collections.abc import Callable

from demo.lake import stored, told_of
from demo.part_summary import PartSummary, together
from include.clock import ManualClock
from include.lake.incidents.diagnosis import Diagnosis
from include.lake.inspect.status import GroupStatus, PartitionState, PartitionStatus

TOPIC = "cdc.shop.shop.orders"
HEADER = "lake raw, committed up to (partition: offset)"


def raw(*partitions: PartitionStatus, away: bool = False) -> list[GroupStatus]:
    troubles = (Diagnosis("store away", "the store is away.", "Start it."),) if away else ()
    return [GroupStatus("raw", "lake_backup", troubles, partitions)]


def at(offset: int, end: int, partition: int = 0, state: PartitionState = "open", todo: str = "") -> PartitionStatus:
    return PartitionStatus(TOPIC, "id", partition, state, todo, 1, offset, end)


def looks(*found: list[GroupStatus]) -> Callable[[], list[GroupStatus]]:
    """One after the other, the last again and again."""
    left = list(found)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_it_waits_until_what_was_there_is_stored_and_not_for_what_comes_later() -> None:
    clock = ManualClock(0)
    told = stored(looks(raw(away=True), raw(at(3, 9)), raw(away=True), raw(at(8, 20)), raw(at(9, 30))), clock, 60)
    assert told == PartSummary((HEADER, f"  {TOPIC}  0: 9"), {"committed": {"raw": {TOPIC: {"0": 9}}}}, True)
    assert clock.monotonic_s() == 4


def test_what_is_still_open_at_the_end_is_named_and_not_good() -> None:
    told = stored(looks(raw(at(3, 9), at(5, 5, 1))), ManualClock(0), 10)
    assert not told.good
    assert told.lines == (HEADER, f"  {TOPIC}  0: 3 (6 open), 1: 5")


def test_what_stands_in_the_way_is_said_with_what_to_do() -> None:
    lost = at(9, 9, state="lost", todo="Raise the topic's retention.")
    told = told_of(raw(lost), {("raw", TOPIC, 0): 9})
    assert not told.good
    assert told.lines == (HEADER, f"  {TOPIC}  0: 9 (lost: Raise the topic's retention.)")
    away = stored(looks(raw(away=True)), ManualClock(0), 10)
    assert not away.good
    assert away.lines == ("lake raw: the store is away. Start it.", "lake raw: no topic was found")


def test_topics_that_are_gone_are_left_out() -> None:
    told = told_of(raw(at(9, 9), at(4, 4, 1, "gone", "Nothing.")), {("raw", TOPIC, 0): 9})
    assert told.good
    assert told.lines == (HEADER, f"  {TOPIC}  0: 9")


def test_what_closings_say_is_put_together_in_their_order() -> None:
    both = together([PartSummary(("a",), {"x": 1}, good=True), PartSummary(("b",), {"y": 2}, good=False)])
    assert both == PartSummary(("a", "b"), {"x": 1, "y": 2}, good=False)
