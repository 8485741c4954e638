"""What is told of a stream that copies topics: once for each thing, and no longer when it is over."""

from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.incidents.stream import StreamIncidents
from include.lake.tables.incidents import LAG, REFUSED
from tests.support.run_folder import MemoryRunFolder

pytestmark = pytest.mark.unit


def opened(folder: MemoryRunFolder, clock: ManualClock) -> StreamIncidents:
    return StreamIncidents("shop", "the tables of shop", folder, clock)


def test_records_set_aside_are_added_up_over_a_restart_until_none_has_come_for_an_hour() -> None:
    folder, clock = MemoryRunFolder(), ManualClock(5_000_000_000)
    incidents = opened(folder, clock)
    incidents.refused(REFUSED, 2, "a", "a.tables.dead")
    incidents.refused(REFUSED, 0, "b", "b.tables.dead")
    (first,) = incidents.open()
    later = opened(folder, clock)
    later.refused(REFUSED, 5, "a", "a.tables.dead")
    (found,) = later.open()
    assert found["id"] == first["id"] == "refused:shop:a:5000000000"
    assert found["text"].startswith("7 records of a could not be read and were set aside in a.tables.dead")
    assert found["fix"] == "lyrebird table status a"
    clock.advance(3601)
    assert later.open() == []


def test_a_delay_is_told_of_once_and_ends_with_it() -> None:
    clock = ManualClock(5_000_000_000)
    incidents = opened(MemoryRunFolder(), clock)
    committed_us = clock.now_us()
    clock.advance(59)
    incidents.lag(LAG, committed_us, 60.0)
    assert incidents.open() == []
    clock.advance(2)
    incidents.lag(LAG, committed_us, 60.0)
    (first,) = incidents.open()
    assert first["text"] == "the tables of shop: 61 s behind the sources, more than lag_alarm_s: 60 s"
    clock.advance(50)
    incidents.lag(LAG, committed_us, 60.0)
    incidents.lag(LAG, None, 60.0)
    assert incidents.open() == [first]
    incidents.lag(LAG, clock.now_us(), 60.0)
    assert incidents.open() == []


def test_records_set_aside_that_were_kept_before_there_was_one_form_end_after_an_hour_as_well() -> None:
    folder, clock = MemoryRunFolder(), ManualClock(3_600_000_000)
    entry = {"at_us": 1, "kind": "refused", "group": "shop", "text": "2 records", "fix": "look", "count": 2}
    folder.keep("incidents.json", {"open": {"refused:shop:a": {**entry, "newest_us": 5_000_000}}, "heard": {}})
    incidents = opened(folder, clock)
    assert [each["id"] for each in incidents.open()] == ["refused:shop:a:1"]
    clock.advance(5)
    assert incidents.open() == []
