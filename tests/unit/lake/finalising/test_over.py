"""Dates are over when all partitions have passed them, and not before."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from include.errors import Transient
from tests.support.lake.dates.harness import DAY_MS, HOUR_MS, NOON, DatesHarness, hourly

ELEVEN, TWELVE = "dt=2024-05-01/hr=11", "dt=2024-05-01/hr=12"


@pytest.fixture
def world(tmp_path: Path) -> DatesHarness:
    return DatesHarness(tmp_path)


def test_an_hour_is_over_when_all_partitions_have_passed_it_by_the_lateness(world: DatesHarness) -> None:
    world.set_ms(NOON + 5 * HOUR_MS)
    world.both(NOON - 1000, NOON - 999)
    world.both(NOON + 599_999, NOON + 599_999)
    # Records wait in the log: only what is committed tells.
    world.at(NOON + HOUR_MS, partition=0, stored=False)
    world.at(NOON + HOUR_MS, partition=1, stored=False)
    assert world.told() == []
    assert world.tell().open == ("dt=2024-05-01", ELEVEN, TWELVE)
    world.both(NOON + 600_000, NOON + 600_001)
    for partition in (0, 1):
        world.at(NOON + 600_002, partition=partition, stored=False)
    assert world.told() == [f"{ELEVEN} finished 1"]
    success = world.success(ELEVEN)
    assert success is not None
    assert (success.objects, success.records, success.announced) == (2, 4, True)
    assert world.told() == []


def test_a_partition_that_lags_holds_the_hour_back(world: DatesHarness) -> None:
    world.set_ms(NOON + 5 * HOUR_MS)
    world.both(NOON - 1000, NOON - 999)
    world.at(NOON + HOUR_MS, NOON + HOUR_MS, partition=0)
    world.at(NOON - 500, partition=1, stored=False)
    assert world.told() == []
    world.stored_now()
    assert world.told() == [f"{ELEVEN} finished 1", "dt=2024-05-01/hr=13 finished 1"]


def test_partitions_that_are_idle_or_never_had_a_record_hold_nothing_back(world: DatesHarness) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + 599_999)
    assert world.told() == []
    world.set_ms(NOON + 600_000)
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_a_partition_of_which_nothing_is_stored_holds_all_back_and_is_named(world: DatesHarness) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    world.at(NOON - 1000, partition=1, stored=False)
    report = world.tell()
    assert (report.dates, report.holding, report.passed_ms) == ((), (1,), None)
    assert "partition 1 waits" in report.lines()[0]


def test_a_truncated_log_finishes_nothing(world: DatesHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    monkeypatch.setattr(world, "edges", lambda tps: {tp: (0, 1) for tp in tps})
    assert world.tell().holding == (0, 1)


def test_a_log_that_does_not_tell_of_a_partition_finishes_nothing(
    world: DatesHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    monkeypatch.setattr(world, "edges", lambda _spots: {})
    assert world.tell().holding == (0, 1)


def test_a_partition_that_retention_emptied_before_anything_was_stored_holds_nothing_back(
    world: DatesHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    monkeypatch.setattr(world, "edges", lambda tps: {s: (0, 3) if s.partition == 0 else (7, 7) for s in tps})
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_a_partition_of_which_all_is_filtered_holds_nothing_back(tmp_path: Path) -> None:
    version = hourly()
    version["parser"]["drop"] = [{"field": "n", "one_of": list(range(3, 50))}]
    world = DatesHarness(tmp_path, version)
    world.set_ms(NOON + 5 * HOUR_MS)
    world.at(NOON - 1000, NOON - 999)
    world.at(NOON + HOUR_MS, NOON + HOUR_MS, partition=1)
    world.at(NOON + HOUR_MS, partition=1, stored=False)
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_a_backlog_of_old_records_moves_no_further_than_their_own_hour(world: DatesHarness) -> None:
    world.set_ms(NOON + 30 * DAY_MS)
    for partition in (0, 1):
        world.at(NOON - 1000, NOON - 999, partition=partition, kafka_ms=NOON + 30 * DAY_MS, stored=False)
    world.stored_now()
    for partition in (0, 1):
        world.at(NOON, partition=partition, kafka_ms=NOON + 30 * DAY_MS, stored=False)
    assert world.told() == []


def test_a_day_of_hours_is_over_with_its_last_hour(world: DatesHarness) -> None:
    world.set_ms(NOON + 2 * DAY_MS)
    world.both(NOON, NOON)
    assert world.told() == ["dt=2024-05-01 finished 1", f"{TWELVE} finished 1"]


def test_days_wait_for_the_end_of_the_day_in_their_zone(tmp_path: Path) -> None:
    world = DatesHarness(tmp_path, hourly(by="day", zone="America/New_York"), lateness_s=0)
    world.both(NOON, NOON)
    midnight = NOON + 16 * HOUR_MS
    world.set_ms(midnight - 1)
    assert world.told() == []
    world.set_ms(midnight)
    assert world.told() == ["dt=2024-05-01 finished 1"]


def test_an_hour_that_happens_twice_is_over_after_the_second_one(tmp_path: Path) -> None:
    world = DatesHarness(tmp_path, hourly(zone="Europe/Berlin"), lateness_s=0)
    first = int(dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC).timestamp() * 1000)
    world.set_ms(first + HOUR_MS // 2)
    world.both(first, first)
    assert world.told() == []
    world.set_ms(first + HOUR_MS + HOUR_MS // 2)
    assert world.told() == ["dt=2024-10-27/hr=02 finished 1"]


def test_the_dates_of_a_topic_that_is_gone_are_over_as_time_passes(world: DatesHarness) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.at(NOON, stored=False)
    world.set_ms(NOON + 2 * HOUR_MS)
    assert world.told() == []
    world.memory.admin().delete("events")
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_a_date_is_over_when_it_is_in_the_zones_of_all_versions_of_the_parser(tmp_path: Path) -> None:
    later = hourly(2, by="day", zone="America/New_York", from_offsets={0: 10**6, 1: 10**6})
    world = DatesHarness(tmp_path, hourly(by="day", zone="Asia/Tokyo"), later, lateness_s=0)
    world.both(NOON, NOON)
    world.set_ms(NOON + 16 * HOUR_MS - 1)
    assert world.told() == []
    world.set_ms(NOON + 16 * HOUR_MS)
    assert world.told() == ["dt=2024-05-01 finished 1"]


def test_records_that_were_all_refused_tell_no_time(world: DatesHarness) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + 2 * HOUR_MS)
    world.send("events", [b"no json", b"none"], partition=1)
    world.stored_now()
    world.send("events", [b"waits"], partition=1)
    assert world.tell().holding == (1,)
    world.stored_now()
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_a_log_that_is_away_is_no_reason_to_finish(world: DatesHarness) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.dead = True
    with pytest.raises(Transient):
        world.tell()
