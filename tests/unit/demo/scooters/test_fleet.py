"""A fleet writes its tracks and its truth to the log; the next one goes on behind it."""

from __future__ import annotations

import threading

import orjson
import pytest

from demo.scooters.fleet import LOCKS, TRACKS, Fleet, begin_of, make_topics, on_the_air, truth_in
from demo.scooters.plan import DISORDER_US, FleetPlan
from demo.scooters.truth import statuses
from include.clock import ManualClock
from include.errors import Transient
from include.log.memory import MemoryLog

pytestmark = pytest.mark.unit
DAY = 86_400_000_000
NOW = 20_000 * DAY + DAY // 2


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def log(clock: ManualClock) -> MemoryLog:
    log = MemoryLog(clock)
    make_topics(log.admin())
    return log


def flown(log: MemoryLog, clock: ManualClock, prefix: str, minutes: int = 90, *, ends: bool = True) -> None:
    writer = log.writer("scooters")
    begin = begin_of(log.reader(), clock.now_us())
    fleet = Fleet(writer, FleetPlan(1, begin, 40, prefix), prefix, begin, clock)
    fleet.begin()
    for _ in range(minutes):
        clock.sleep(1.0)
        fleet.step()
    if ends:
        fleet.end()


def test_a_minute_of_the_fleet_takes_a_second_and_begins_half_an_hour_before_the_midnight_before_last(
    log: MemoryLog, clock: ManualClock
) -> None:
    flown(log, clock, "f1-", 90)
    ends = log.reader().end_offsets(TRACKS)
    records = [record for p, end in ends.items() for record in log.reader().read(TRACKS, p, 0, end)]
    tracks = [orjson.loads(record.value or b"") for record in records]
    times = [track["at"] * 1_000 for track in tracks]
    begin = 19_999 * DAY - 1_800_000_000
    assert min(times) == begin
    assert begin + 88 * 60_000_000 < max(times) <= begin + 90 * 60_000_000
    assert tracks[0].keys() == {"device", "rider", "at", "battery", "lat", "lon"}
    assert {*orjson.loads(next(iter(log.reader().read(LOCKS, 0, 0, 1))).value or b"")} == {"device", "at", "locked"}


def test_the_truth_holds_for_all_fleets_that_have_ended_and_the_next_one_begins_behind(
    log: MemoryLog, clock: ManualClock
) -> None:
    flown(log, clock, "f1-")
    first = truth_in(log.reader())
    flown(log, clock, "f2-", ends=False)
    cut = truth_in(log.reader())
    assert cut.until == first.until
    assert cut.cut_short == {"f2-"}
    flown(log, clock, "f3-")
    truth = truth_in(log.reader())
    assert truth.runs == 3
    assert {each.device[:3] for each in truth.silences} == {"f1-", "f3-"}
    assert truth.cut_short == {"f2-"}
    assert truth.until is not None
    assert first.until is not None
    assert truth.until > first.until + 170 * 60_000_000
    known = statuses(truth.silences, truth.until)
    # None of the first fleet's scooters has sent anything since.
    assert {each.device for each in known if each.status == "offline"} >= {f"f1-{n}" for n in range(40)}
    assert truth.late


def test_the_fleets_time_never_passes_the_clock(log: MemoryLog, clock: ManualClock) -> None:
    writer = log.writer("scooters")
    begin = clock.now_us() - 60_000_000
    fleet = Fleet(writer, FleetPlan(1, begin, 40, "f1-"), "f1-", begin, clock)
    fleet.begin()
    for _ in range(5):
        clock.sleep(30.0)
        fleet.step()
    fleet.end()
    truth = truth_in(log.reader())
    assert clock.now_us() - 30_000_000 < (truth.until or 0) + DISORDER_US + 1 <= clock.now_us()


def test_what_stops_a_fleet_is_raised_where_the_block_ends() -> None:
    class Broken:
        def run(self, stop: threading.Event) -> None:
            raise Transient("the log is away")

    with pytest.raises(Transient, match="away"), on_the_air(Broken()):  # type: ignore[arg-type]
        pass
