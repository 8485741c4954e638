"""What is told of a stream that copies topics: once for each thing, and no longer when it is over."""

from __future__ import annotations

from typing import Any

import pytest

from include.clock import ManualClock
from include.metrics.stream_incidents import StreamIncidents

pytestmark = pytest.mark.unit


class Kept:
    """A run folder's files in memory."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, Any]] = {}

    def keep(self, name: str, value: dict[str, Any]) -> None:
        self.files[name] = value

    def kept(self, name: str) -> dict[str, Any]:
        return self.files.get(name, {})


def test_records_set_aside_are_added_up_over_a_restart_until_none_has_come_for_an_hour() -> None:
    kept, clock = Kept(), ManualClock(5_000_000_000)
    incidents = StreamIncidents("shop", "the tables of shop", 60.0, "lyrebird table status", kept, clock)
    incidents.refused("a", 2, "a.tables.dead", "lyrebird table status a")
    incidents.refused("b", 0, "b.tables.dead", "lyrebird table status b")
    incidents.save()
    (first,) = incidents.open()
    later = StreamIncidents("shop", "the tables of shop", 60.0, "lyrebird table status", kept, clock)
    later.refused("a", 5, "a.tables.dead", "lyrebird table status a")
    later.save()
    (found,) = later.open()
    assert found["id"] == first["id"]
    assert found["text"].startswith("7 records of a could not be read and were set aside in a.tables.dead")
    assert found["fix"] == "lyrebird table status a"
    clock.advance(3601)
    later.save()
    assert later.open() == []


def test_a_delay_is_told_of_once_and_ends_with_it() -> None:
    clock = ManualClock(5_000_000_000)
    incidents = StreamIncidents("shop", "the tables of shop", 60.0, "lyrebird table status", Kept(), clock)
    committed_us = clock.now_us()
    clock.advance(59)
    incidents.lag(committed_us)
    assert incidents.open() == []
    clock.advance(2)
    incidents.lag(committed_us)
    (first,) = incidents.open()
    assert first["text"] == "the tables of shop: 61 s behind the sources, more than lag_alarm_s: 60 s"
    clock.advance(50)
    incidents.lag(committed_us)
    incidents.lag(None)
    assert incidents.open() == [first]
    incidents.lag(clock.now_us())
    assert incidents.open() == []
