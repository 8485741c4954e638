"""What is told of a join while it runs: once for each thing, and no longer when it is over."""

from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.join.incidents import JoinIncidents
from tests.support.run_folder import MemoryRunFolder

pytestmark = pytest.mark.unit


def opened(kept: MemoryRunFolder, clock: ManualClock) -> JoinIncidents:
    return JoinIncidents("sales", "shop.sales", "join_shop", 60.0, kept, clock)


def test_an_incident_has_one_id_over_a_restart_and_ends() -> None:
    kept, clock = MemoryRunFolder(), ManualClock(5_000_000_000)
    incidents = opened(kept, clock)
    incidents.after_batch({}, 3, None)
    (first,) = incidents.open()
    assert first["kind"] == "incomplete"
    assert first["text"].startswith("3 join keys of shop.sales lack outputs")
    clock.advance(10)
    later = opened(kept, clock)
    later.after_batch({}, 4, None)
    (again,) = later.open()
    assert again["id"] == first["id"]
    assert again["text"].startswith("4 join keys")
    later.after_batch({}, 0, None)
    assert later.open() == []


def test_records_set_aside_are_counted_until_none_has_come_for_an_hour() -> None:
    kept, clock = MemoryRunFolder(), ManualClock(5_000_000_000)
    incidents = opened(kept, clock)
    incidents.after_batch({"a": 2, "b": 0}, 0, None)
    incidents.after_batch({"a": 5}, 0, None)
    (found,) = incidents.open()
    assert "7 records of a could not be read" in found["text"]
    clock.advance(3601)
    incidents.after_batch({}, 0, None)
    assert incidents.open() == []


def test_a_delay_is_told_of_while_it_lasts() -> None:
    kept, clock = MemoryRunFolder(), ManualClock(5_000_000_000)
    incidents = opened(kept, clock)
    incidents.after_batch({}, 0, clock.now_us() - 59_000_000)
    assert incidents.open() == []
    incidents.after_batch({}, 0, clock.now_us() - 61_000_000)
    (found,) = incidents.open()
    incidents.after_batch({}, 0, clock.now_us() - 70_000_000)
    # A batch that tells nothing of it changes nothing.
    incidents.after_batch({}, 0, None)
    assert incidents.open() == [found]
    incidents.after_batch({}, 0, clock.now_us())
    assert incidents.open() == []
