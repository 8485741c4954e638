"""A fleet's truth is what the offline detector finds in what the fleet sends."""

from __future__ import annotations

from collections import defaultdict

import pytest

from demo.scooters.plan import DISORDER_US, PARTITIONS, TIMEOUT_US, FleetPlan, LockEvent, ScooterTrack, Silence
from demo.scooters.truth import Known, statuses
from include.eventtime.jobs.offline import Offline, OfflineSettings
from include.eventtime.replay import ElementLine as Element
from include.eventtime.replay import IdleNotice, ReplayLine, interleaved, replay

pytestmark = pytest.mark.unit
HOUR = 3_600_000_000
BEGIN = 500_000 * HOUR - HOUR


def sent(plan: FleetPlan, hours: float, step: int = 15_000_000) -> list[ScooterTrack | LockEvent]:
    found = list(plan.until(BEGIN))
    for now in range(BEGIN + step, BEGIN + round(hours * HOUR) + 1, step):
        found += plan.until(now)
    return [*found, *plan.rest()]


def lines(tracks: list[ScooterTrack]) -> list[ReplayLine]:
    offsets: dict[int, int] = defaultdict(int)
    found = []
    for number, track in enumerate(tracks, 1):
        said = Element(partition=track.partition, offset=offsets[track.partition], key=track.device, time=0, value={})
        offsets[track.partition] += 1
        found.append(ReplayLine(number, said, track.time))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_detector_says_what_the_fleet_knows_and_planted_tracks_alone_are_late(seed: int) -> None:
    plan = FleetPlan(seed, BEGIN, 60)
    tracks = [each for each in sent(plan, 5) if isinstance(each, ScooterTrack)]
    made = replay(Offline(OfflineSettings()), interleaved(lines(tracks), seed), bound_us=DISORDER_US)
    told = {
        Known(str(each.value["device"]), each.value["at"], each.value["status"], each.value["last_seen"])
        for each in made.emitted
        if each.output == "events" and each.moment.time < max(plan.last.values()) - DISORDER_US
    }
    known = statuses([*plan.silences, *(Silence(*each, None) for each in plan.last.items())], max(plan.last.values()))
    assert told == {each for each in known if each.at < max(plan.last.values()) - DISORDER_US}
    assert {each.status for each in told} == {"offline", "online"}
    planted = {(each.device, each.time) for each in tracks if each.late}
    assert len(planted) > 10
    assert {
        (each.line.said.key, each.line.time) for each in made.late if not isinstance(each.line.said, IdleNotice)
    } == planted


def test_silences_of_just_the_timeout_and_little_more_are_among_them() -> None:
    plan = FleetPlan(1, BEGIN, 100)
    tracks = [each for each in sent(plan, 10) if isinstance(each, ScooterTrack) and not each.late]
    times: dict[str, list[int]] = defaultdict(list)
    for track in tracks:
        times[track.device].append(track.time)
    gaps = {
        later - time for each in times.values() for time, later in zip(sorted(each), sorted(each)[1:], strict=False)
    }
    assert {TIMEOUT_US, TIMEOUT_US + 7_000_000} < gaps


def test_partitions_differ_in_speed_and_the_first_one_is_idle_for_ten_minutes_an_hour() -> None:
    tracks = [each for each in sent(FleetPlan(2, BEGIN, 100), 2) if isinstance(each, ScooterTrack) and not each.late]
    count = [sum(each.partition == partition for each in tracks) for partition in range(PARTITIONS)]
    assert count == sorted(count, reverse=True)
    assert count[0] > 2 * count[3]
    minutes = {(each.time - BEGIN) // 60_000_000 % 60 for each in tracks if each.partition == 0}
    assert minutes == {*range(20), *range(30, 60)}


def test_one_seed_gives_one_fleet_however_often_it_is_asked() -> None:
    assert sent(FleetPlan(3, BEGIN, 20), 2) == sent(FleetPlan(3, BEGIN, 20), 2, 1_000_000)
    assert sent(FleetPlan(3, BEGIN, 20), 2) != sent(FleetPlan(4, BEGIN, 20), 2)


def test_a_ride_goes_on_until_the_scooter_is_locked() -> None:
    places: dict[str, set[tuple[float, float]]] = defaultdict(set)
    locked: dict[str, bool] = {}
    moved = 0
    for each in sorted(sent(FleetPlan(5, BEGIN, 50), 8), key=lambda each: each.time):
        if isinstance(each, LockEvent):
            locked[each.device] = each.locked
            places[each.device].clear()
        elif locked.get(each.device):
            places[each.device].add((each.lat, each.lon))
            moved += len(places[each.device]) == 2
    # Only the stolen ones move.
    assert 0 < moved < sum(locked.values()) * 2
