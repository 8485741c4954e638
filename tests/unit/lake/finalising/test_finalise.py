"""Dates that are over are marked and told; what comes late, or is made again, is told again."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from include.audit.chain import audit_chain
from include.clock import ManualClock
from include.errors import Transient
from include.lake.backfill.promotion import promote
from include.lake.definition import LakeGroup
from include.lake.finalising.finalise import acknowledge
from include.lake.finalising.report import asset_updates, refuse_errors, together
from include.lake.listing import Dates, list_topic
from include.log.ports import TopicSpec
from tests.unit.lake.backfill.backfill_world import asked, days
from tests.unit.lake.finalising.dates_world import DAY_MS, HOUR_MS, NOON, DatesWorld, hourly

ELEVEN, TWELVE = "dt=2024-05-01/hr=11", "dt=2024-05-01/hr=12"


@pytest.fixture
def world(tmp_path: Path) -> DatesWorld:
    return DatesWorld(tmp_path)


def both(world: DatesWorld, *times_ms: int) -> None:
    for partition in (0, 1):
        world.at(*times_ms, partition=partition, stored=False)
    world.stored_now()


def test_an_hour_is_over_when_all_partitions_have_passed_it_by_the_lateness(world: DatesWorld) -> None:
    world.set_ms(NOON + 5 * HOUR_MS)
    both(world, NOON - 1000, NOON - 999)
    both(world, NOON + 599_999, NOON + 599_999)
    # Records wait in the log: only what is committed tells.
    world.at(NOON + HOUR_MS, partition=0, stored=False)
    world.at(NOON + HOUR_MS, partition=1, stored=False)
    assert world.told() == []
    assert world.tell().open == ("dt=2024-05-01", ELEVEN, TWELVE)
    both(world, NOON + 600_000, NOON + 600_001)
    for partition in (0, 1):
        world.at(NOON + 600_002, partition=partition, stored=False)
    assert world.told() == [f"{ELEVEN} finished 1"]
    success = world.success(ELEVEN)
    assert success is not None
    assert (success.objects, success.records, success.announced) == (2, 4, True)
    assert world.told() == []


def test_a_partition_that_lags_holds_the_hour_back(world: DatesWorld) -> None:
    world.set_ms(NOON + 5 * HOUR_MS)
    both(world, NOON - 1000, NOON - 999)
    world.at(NOON + HOUR_MS, NOON + HOUR_MS, partition=0)
    world.at(NOON - 500, partition=1, stored=False)
    assert world.told() == []
    world.stored_now()
    assert world.told() == [f"{ELEVEN} finished 1", "dt=2024-05-01/hr=13 finished 1"]


def test_partitions_that_are_idle_or_never_had_a_record_hold_nothing_back(world: DatesWorld) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + 599_999)
    assert world.told() == []
    world.set_ms(NOON + 600_000)
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_a_partition_of_which_nothing_is_stored_holds_all_back_and_is_named(world: DatesWorld) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    world.at(NOON - 1000, partition=1, stored=False)
    report = world.tell()
    assert (report.dates, report.holding, report.passed_ms) == ((), (1,), None)
    assert "partition 1 waits" in report.lines()[0]


def test_a_truncated_log_finishes_nothing(world: DatesWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    monkeypatch.setattr(world, "edges", lambda spots: {spot: (0, 1) for spot in spots})
    assert world.tell().holding == (0, 1)


def test_a_log_that_does_not_tell_of_a_partition_finishes_nothing(
    world: DatesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    monkeypatch.setattr(world, "edges", lambda _spots: {})
    assert world.tell().holding == (0, 1)


def test_a_partition_that_retention_emptied_before_anything_was_stored_holds_nothing_back(
    world: DatesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    monkeypatch.setattr(world, "edges", lambda spots: {s: (0, 3) if s.partition == 0 else (7, 7) for s in spots})
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_a_partition_of_which_all_is_filtered_holds_nothing_back(tmp_path: Path) -> None:
    version = hourly()
    version["parser"]["drop"] = [{"field": "n", "one_of": list(range(3, 50))}]
    world = DatesWorld(tmp_path, version)
    world.set_ms(NOON + 5 * HOUR_MS)
    world.at(NOON - 1000, NOON - 999)
    world.at(NOON + HOUR_MS, NOON + HOUR_MS, partition=1)
    world.at(NOON + HOUR_MS, partition=1, stored=False)
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_a_backlog_of_old_records_moves_no_further_than_their_own_hour(world: DatesWorld) -> None:
    world.set_ms(NOON + 30 * DAY_MS)
    for partition in (0, 1):
        world.at(NOON - 1000, NOON - 999, partition=partition, kafka_ms=NOON + 30 * DAY_MS, stored=False)
    world.stored_now()
    for partition in (0, 1):
        world.at(NOON, partition=partition, kafka_ms=NOON + 30 * DAY_MS, stored=False)
    assert world.told() == []


def test_a_day_of_hours_is_over_with_its_last_hour(world: DatesWorld) -> None:
    world.set_ms(NOON + 2 * DAY_MS)
    both(world, NOON, NOON)
    assert world.told() == ["dt=2024-05-01 finished 1", f"{TWELVE} finished 1"]


def test_days_wait_for_the_end_of_the_day_in_their_zone(tmp_path: Path) -> None:
    world = DatesWorld(tmp_path, hourly(by="day", zone="America/New_York"), lateness_s=0)
    both(world, NOON, NOON)
    midnight = NOON + 16 * HOUR_MS
    world.set_ms(midnight - 1)
    assert world.told() == []
    world.set_ms(midnight)
    assert world.told() == ["dt=2024-05-01 finished 1"]


def test_an_hour_that_happens_twice_is_over_after_the_second_one(tmp_path: Path) -> None:
    world = DatesWorld(tmp_path, hourly(zone="Europe/Berlin"), lateness_s=0)
    first = int(dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC).timestamp() * 1000)
    world.set_ms(first + HOUR_MS // 2)
    both(world, first, first)
    assert world.told() == []
    world.set_ms(first + HOUR_MS + HOUR_MS // 2)
    assert world.told() == ["dt=2024-10-27/hr=02 finished 1"]


def test_records_that_come_late_mark_the_date_and_have_it_told_again(world: DatesWorld) -> None:
    both(world, NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    assert world.told() == [f"{ELEVEN} finished 1"]
    world.at(NOON - 5, kafka_ms=NOON + HOUR_MS)
    assert world.told() == [f"{ELEVEN} late 2"]
    late, success = world.late(ELEVEN), world.success(ELEVEN)
    assert late is not None
    assert success is not None
    assert late.objects == (f"by_date/events/{ELEVEN}/1_0_00000000000000000003.jsonl",)
    assert (late.edition, success.edition, success.records) == (2, 2, 5)
    assert world.told() == []
    world.at(NOON - 4, kafka_ms=NOON + HOUR_MS, partition=1)
    assert world.told() == [f"{ELEVEN} late 3"]


def test_a_new_partition_of_the_log_that_brings_old_records_is_late(world: DatesWorld) -> None:
    both(world, NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    assert world.told() == [f"{ELEVEN} finished 1"]
    partitions = world.memory._held.topic("events").partitions
    partitions.append(type(partitions[0])())
    world.clock.advance(6)
    world.at(NOON - 5, partition=2)
    assert world.told() == [f"{ELEVEN} late 2"]


def test_a_topic_made_anew_has_chains_of_its_own_and_what_it_brings_is_late(world: DatesWorld) -> None:
    both(world, NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    assert world.told() == [f"{ELEVEN} finished 1"]
    world.memory.admin().delete("events")
    assert world.told() == []
    world.memory.admin().ensure(TopicSpec("events", 1))
    world.clock.advance(6)
    world.at(NOON - 5)
    assert world.told() == [f"{ELEVEN} late 2"]


def test_the_dates_of_a_topic_that_is_gone_are_over_as_time_passes(world: DatesWorld) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.at(NOON, stored=False)
    world.set_ms(NOON + 2 * HOUR_MS)
    assert world.told() == []
    world.memory.admin().delete("events")
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_a_date_is_over_when_it_is_in_the_zones_of_all_versions_of_the_parser(tmp_path: Path) -> None:
    later = hourly(2, by="day", zone="America/New_York", from_offsets={0: 10**6, 1: 10**6})
    world = DatesWorld(tmp_path, hourly(by="day", zone="Asia/Tokyo"), later, lateness_s=0)
    both(world, NOON, NOON)
    world.set_ms(NOON + 16 * HOUR_MS - 1)
    assert world.told() == []
    world.set_ms(NOON + 16 * HOUR_MS)
    assert world.told() == ["dt=2024-05-01 finished 1"]


def test_records_that_were_all_refused_tell_no_time(world: DatesWorld) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + 2 * HOUR_MS)
    world.send("events", [b"no json", b"none"], partition=1)
    world.stored_now()
    world.send("events", [b"waits"], partition=1)
    assert world.tell().holding == (1,)
    world.stored_now()
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_a_date_that_a_promoted_backfill_replaced_is_told_again_and_others_are_not(tmp_path: Path) -> None:
    right = hourly(2, "made", by="day", from_offsets={0: 10**6, 1: 10**6})
    world = DatesWorld(tmp_path, hourly(by="day"), right)
    both(world, NOON - DAY_MS, NOON - DAY_MS)
    both(world, NOON, NOON)
    both(world, NOON + DAY_MS, NOON + DAY_MS)
    world.set_ms(NOON + 5 * DAY_MS)
    assert [each.split()[0] for each in world.told()] == ["dt=2024-04-30", "dt=2024-05-01", "dt=2024-05-02"]
    run = world.backfilled(asked(days=days("2024-04-30")))
    assert world.told() == []
    promote(world.store, run, accept=True)
    assert world.told() == ["dt=2024-04-30 replaced 2", "dt=2024-05-01 replaced 2"]
    emptied, grown = world.success("dt=2024-04-30"), world.success("dt=2024-05-01")
    assert emptied is not None
    assert grown is not None
    assert (emptied.records, grown.records) == (0, 8)
    assert world.told() == []
    assert world.late("dt=2024-04-30") is None


def test_an_upgrade_replaces_nothing(world: DatesWorld) -> None:
    both(world, NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    assert world.told() == [f"{ELEVEN} finished 1"]
    world.declare(world.group.model_copy(update={"revision": 2}))
    both(world, NOON, NOON)
    assert world.told() == []
    world.set_ms(NOON + 2 * HOUR_MS)
    assert world.told() == [f"{TWELVE} finished 1"]


def test_an_edition_is_told_until_it_is_acknowledged(world: DatesWorld) -> None:
    both(world, NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    first, second = world.tell(), world.tell()
    assert [date.new for date in (*first.dates, *second.dates)] == [True, False]
    assert asset_updates(together([first])) == asset_updates(together([second]))
    assert acknowledge(world.store, together([first])) == 1
    assert acknowledge(world.store, together([second])) == 0
    assert world.told() == []


def test_who_was_told_of_an_edition_before_is_told_of_the_next_one(world: DatesWorld) -> None:
    both(world, NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    before = world.tell()
    world.at(NOON - 5, kafka_ms=NOON + HOUR_MS)
    after = world.tell()
    assert acknowledge(world.store, together([before])) == 0
    assert [date.edition for date in after.dates] == [2]
    assert world.told() == [f"{ELEVEN} late 2"]


def test_a_dry_run_says_the_same_and_writes_nothing(world: DatesWorld) -> None:
    both(world, NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    dry = world.tell(dry_run=True)
    assert world.markers() == []
    assert world.tell() == dry
    assert world.markers() == [f"by_date/events/{ELEVEN}/_SUCCESS"]


def test_events_name_the_date_its_edition_and_why(world: DatesWorld) -> None:
    both(world, NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    (update,) = asset_updates(together([world.tell()]))
    assert update.uri == "lake://events/dt"
    assert {name: update.extra[name] for name in ("group", "date", "hour", "change", "edition", "records")} == {
        "group": "by_date",
        "date": "2024-05-01",
        "hour": 11,
        "change": "finished",
        "edition": 1,
        "records": 4,
    }


def test_markers_are_nothing_to_readers_and_to_the_audit(world: DatesWorld) -> None:
    both(world, NOON - 1000, NOON - 999)
    before = list_topic(world.store, "by_date", "events", Dates(dt.date(2024, 5, 1), dt.date(2024, 5, 1)))
    world.set_ms(NOON + HOUR_MS)
    world.told()
    world.at(NOON - 5, kafka_ms=NOON + HOUR_MS)
    world.told()
    assert len(world.markers()) == 2
    after = list_topic(world.store, "by_date", "events", Dates(dt.date(2024, 5, 1), dt.date(2024, 5, 1)))
    assert set(before) < set(after)
    assert audit_chain(world.store, world.groups, "events", world.clock.now_us()).findings == ()


def test_a_topic_that_cannot_be_read_is_told_and_the_others_go_on(world: DatesWorld) -> None:
    world.make("else", 1)
    world.declare(LakeGroup.model_validate({**world.group.model_dump(exclude_defaults=True), "topics": ["e*"]}))
    world.at(NOON - 1000, NOON - 999)
    world.at(NOON - 1000, NOON - 999, topic="else")
    world.set_ms(NOON + HOUR_MS)
    world.store.put(world.topic_key().pointer, b"spoiled")
    good, bad = sorted(world.reports(), key=lambda each: each.error)
    assert (good.topic, len(good.dates), bad.topic) == ("else", 1, "events")
    assert "cannot be read" in bad.lines()[0]
    with pytest.raises(Exception, match="the dates of 1 topic cannot be told"):
        refuse_errors(together([good, bad]))
    assert refuse_errors(together([good])) == 1


def test_a_log_that_is_away_is_no_reason_to_finish(world: DatesWorld) -> None:
    world.at(NOON - 1000, NOON - 999)
    world.dead = True
    with pytest.raises(Transient):
        world.tell()
    assert isinstance(world.clock, ManualClock)
