"""What the demo's summary says of the lake."""

from __future__ import annotations

from collections.abc import Callable

from include.clock import ManualClock
from include.errors import Transient
from include.lake.committed import CommittedOffset
from include.local.demo.lake import stored, told_of
from include.local.demo.told import Told, together


def looks(*found: list[CommittedOffset]) -> Callable[[], list[CommittedOffset]]:
    """One after the other, the last again and again; an empty one is a store that is away."""
    left = list(found)

    def look() -> list[CommittedOffset]:
        now = left.pop(0) if len(left) > 1 else left[0]
        if not now:
            raise Transient("the store is away", fix="Wait.")
        return now

    return look


def at(offset: int, end: int, partition: int = 0) -> CommittedOffset:
    return CommittedOffset("raw", "cdc.shop.shop.orders", partition, 1, offset, end)


def test_it_waits_until_what_was_there_is_stored_and_not_for_what_comes_later() -> None:
    clock = ManualClock(0)
    told = stored(looks([at(3, 9)], [], [at(8, 20)], [at(9, 30)]), clock, 60)
    assert told.good
    assert told.lines == ("lake raw: cdc.shop.shop.orders committed up to 0: 9",)
    assert told.values == {"committed": {"raw": {"cdc.shop.shop.orders": {"0": 9}}}}
    assert clock.monotonic_s() == 3


def test_what_is_still_open_at_the_end_is_named_and_not_good() -> None:
    told = stored(looks([at(3, 9), at(5, 5, 1)]), ManualClock(0), 10)
    assert not told.good
    assert told.lines == ("lake raw: cdc.shop.shop.orders committed up to 0: 3 (6 open), 1: 5",)


def test_a_lake_that_cannot_be_seen_or_has_nothing_is_not_good() -> None:
    told = stored(looks([]), ManualClock(0), 10)
    assert not told.good
    assert "the store is away" in told.lines[0]
    assert not told_of([], {}).good


def test_what_closings_say_is_put_together_in_their_order() -> None:
    both = together([Told(("a",), {"x": 1}, good=True), Told(("b",), {"y": 2}, good=False)])
    assert both == Told(("a", "b"), {"x": 1, "y": 2}, good=False)
