"""The jobs that come along, by the platform's own algorithm."""

from __future__ import annotations

import random
from typing import Any

import pytest

from include.eventtime.jobs.battery import Battery
from include.eventtime.jobs.battery import BatterySettings as BatterySettings
from include.eventtime.jobs.locked import LockedSettings as LockedSettings
from include.eventtime.jobs.locked import MovedWhileLocked
from include.eventtime.jobs.offline import Offline
from include.eventtime.jobs.offline import OfflineSettings as OfflineSettings
from include.eventtime.jobs.sessions import Sessions
from include.eventtime.jobs.sessions import SessionSettings as SessionSettings
from include.eventtime.replay import ElementLine, ReplayLine, interleaved, replay

pytestmark = pytest.mark.unit

SECOND = 1_000_000
MINUTE = 60 * SECOND
HALF_PAST_FIVE = 17 * 3600 * SECOND + 30 * MINUTE


def lines_of(*tracks: tuple[Any, ...]) -> list[ReplayLine]:
    """(time, key[, value[, partition[, source]]]) of each."""
    offsets: dict[tuple[str, int], int] = {}
    found = []
    for number, (time, key, *more) in enumerate(tracks, 1):
        given: tuple[Any, ...] = (*more, *({}, 0, "tracks")[len(more) :])
        value, partition, source = given
        offset = offsets[source, partition] = offsets.get((source, partition), -1) + 1
        track = ElementLine(source=source, partition=partition, offset=offset, key=key, time=0, value=value)
        found.append(ReplayLine(number, track, time))
    return found


def offline(lines: list[ReplayLine], timeout: int = 30 * MINUTE, **how: Any) -> list[tuple[Any, ...]]:
    made = replay(
        Offline(OfflineSettings.model_validate({"timeout": f"{timeout}us"})), lines, bound_us=5 * SECOND, **how
    )
    assert (made.late, made.failed) == ([], [])
    events = [each.value for each in made.emitted if each.output == "events"]
    assert events == [each.value for each in made.emitted if each.output == "status"]
    return [(each["device"], each["status"], each["at"], each["last_seen"]) for each in events]


TRACKS = [HALF_PAST_FIVE + 15 * SECOND, HALF_PAST_FIVE + 20 * SECOND, HALF_PAST_FIVE + 25 * SECOND]
BACK = HALF_PAST_FIVE + 30 * MINUTE + 32 * SECOND
OFF = HALF_PAST_FIVE + 30 * MINUTE + 25 * SECOND
TABLE = [("s1", "offline", OFF, TRACKS[2]), ("s1", "online", BACK, TRACKS[2])]


def test_the_table_of_the_detector() -> None:
    assert offline(lines_of(*((time, "s1") for time in (*TRACKS, BACK)))) == TABLE


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
@pytest.mark.parametrize("others_s", [1, 7, 600])
def test_a_track_seven_seconds_after_the_timeout_is_seen_whatever_the_speed(batch: int, others_s: int) -> None:
    # Others go on in between, so that the watermark moves in steps of theirs, in batches of any length.
    others = range(HALF_PAST_FIVE, BACK + MINUTE, others_s * SECOND)
    all_tracks = sorted([*((time, "s1") for time in (*TRACKS, BACK)), *((time, "s2") for time in others)])
    found = offline(lines_of(*all_tracks), batch=batch)
    assert [each for each in found if each[0] == "s1"] == TABLE


def test_devices_over_partitions_of_unequal_speed_give_what_one_partition_gives() -> None:
    draw = random.Random(7)
    tracks = [(draw.randrange(4 * 3600) * SECOND, f"s{draw.randrange(5)}") for _ in range(400)]
    whole = offline(lines_of(*sorted(tracks)), 10 * MINUTE)
    assert len(whole) > 20
    spread = lines_of(*((time, key, {}, draw.randrange(4)) for time, key in sorted(tracks)))
    for seed in range(5):
        assert offline(interleaved(spread, seed), 10 * MINUTE, batch=seed * 10 + 1) == whole


def test_a_track_at_the_very_end_of_the_timeout_keeps_the_device_online() -> None:
    assert offline(lines_of((0, "s1"), (30 * MINUTE, "s1"), (60 * MINUTE, "s1"))) == []


def test_each_fall_of_a_battery_is_told_once() -> None:
    levels = [(0, 90), (60, 89), (120, 71), (180, 69), (240, 65), (300, 48), (360, 47), (900, 20), (1300, 1)]
    tracks = ((s * SECOND, "s1", {"battery": level}) for s, level in levels)
    made = replay(Battery(BatterySettings()), lines_of(*tracks, (1301 * SECOND, "s1", {})), bound_us=0)
    told = [(each.value["at"] // SECOND, each.value["level"], each.value["before"]) for each in made.emitted]
    assert told == [(180, 69, 90), (300, 48, 69)]


def test_a_locked_scooter_that_moves_is_told_of_once_in_each_lock() -> None:
    def at(s: int, lat: float) -> tuple[Any, ...]:
        return (s * SECOND, "s1", {"lat": lat, "lon": 13.4}, 0, "tracks")

    def lock(s: int, locked: bool) -> tuple[Any, ...]:
        return (s * SECOND, "s1", {"locked": locked}, 0, "locks")

    way = [at(0, 52.0), lock(10, True), at(20, 52.1), at(30, 52.1001), at(40, 52.2), at(50, 52.3), lock(60, False)]
    way += [at(70, 53.0), lock(80, True), at(90, 53.0), at(100, 53.1), at(110, 0.0)]
    for seed in range(5):
        made = replay(MovedWhileLocked(LockedSettings()), interleaved(lines_of(*way), seed), bound_us=0)
        assert [(each.value["at"] // SECOND, each.value["metres"]) for each in made.emitted] == [
            (40, 11_132),
            (100, 11_132),
        ]


def test_a_track_that_lacks_its_place_is_set_aside() -> None:
    lines = lines_of((0, "s1", {"locked": True}), (1, "s1", {"lat": 1.0}))
    made = replay(MovedWhileLocked(LockedSettings()), lines, bound_us=0)
    assert [(each.key, each.reason) for each in made.failed] == [("s1", "KeyError: 'lon'")]


def test_sessions_of_a_rider_are_counted_when_they_are_over() -> None:
    times = [0, 300, 900, 1501, 4000]
    made = replay(Sessions(SessionSettings()), lines_of(*((s * SECOND, "r1") for s in times)), bound_us=0)
    told = [tuple(each.value.values()) for each in made.emitted]
    assert told == [("r1", 1, 0, 900 * SECOND, 3), ("r1", 2, 1501 * SECOND, 1501 * SECOND, 1)]
