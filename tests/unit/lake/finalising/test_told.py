"""Dates that are over are marked and told; what comes late, or is made again, is told again."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from include.audit.chain.audit import audit_chain
from include.lake.backfill.promotion import promote
from include.lake.definition import LakeGroup
from include.lake.finalising.mark import acknowledge
from include.lake.finalising.report import asset_updates, refuse_errors, together
from include.lake.inspect.listing import Dates, list_topic
from include.log.ports import TopicSpec
from tests.support.lake.backfill_harness import asked, days
from tests.support.lake.dates.harness import DAY_MS, HOUR_MS, NOON, DatesHarness, hourly

ELEVEN, TWELVE = "dt=2024-05-01/hr=11", "dt=2024-05-01/hr=12"


@pytest.fixture
def world(tmp_path: Path) -> DatesHarness:
    return DatesHarness(tmp_path)


def test_records_that_come_late_mark_the_date_and_have_it_told_again(world: DatesHarness) -> None:
    world.both(NOON - 1000, NOON - 999)
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


def test_a_new_partition_of_the_log_that_brings_old_records_is_late(world: DatesHarness) -> None:
    world.both(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    assert world.told() == [f"{ELEVEN} finished 1"]
    partitions = world.memory._held.topic("events").partitions
    partitions.append(type(partitions[0])())
    world.clock.advance(6)
    world.at(NOON - 5, partition=2)
    assert world.told() == [f"{ELEVEN} late 2"]


def test_a_topic_made_anew_has_chains_of_its_own_and_what_it_brings_is_late(world: DatesHarness) -> None:
    world.both(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    assert world.told() == [f"{ELEVEN} finished 1"]
    world.memory.admin().delete("events")
    assert world.told() == []
    world.memory.admin().ensure(TopicSpec("events", 1))
    world.clock.advance(6)
    world.at(NOON - 5)
    assert world.told() == [f"{ELEVEN} late 2"]


def test_a_date_that_a_promoted_backfill_replaced_is_told_again_and_others_are_not(tmp_path: Path) -> None:
    right = hourly(2, "made", by="day", from_offsets={0: 10**6, 1: 10**6})
    world = DatesHarness(tmp_path, hourly(by="day"), right)
    world.both(NOON - DAY_MS, NOON - DAY_MS)
    world.both(NOON, NOON)
    world.both(NOON + DAY_MS, NOON + DAY_MS)
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


def test_an_upgrade_replaces_nothing(world: DatesHarness) -> None:
    world.both(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    assert world.told() == [f"{ELEVEN} finished 1"]
    world.declare(world.group.model_copy(update={"revision": 2}))
    world.both(NOON, NOON)
    assert world.told() == []
    world.set_ms(NOON + 2 * HOUR_MS)
    assert world.told() == [f"{TWELVE} finished 1"]


def test_an_edition_is_told_until_it_is_acknowledged(world: DatesHarness) -> None:
    world.both(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    first, second = world.tell(), world.tell()
    assert [date.new for date in (*first.dates, *second.dates)] == [True, False]
    assert asset_updates(together([first])) == asset_updates(together([second]))
    assert acknowledge(world.store, together([first])) == 1
    assert acknowledge(world.store, together([second])) == 0
    assert world.told() == []


def test_who_was_told_of_an_edition_before_is_told_of_the_next_one(world: DatesHarness) -> None:
    world.both(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    before = world.tell()
    world.at(NOON - 5, kafka_ms=NOON + HOUR_MS)
    after = world.tell()
    assert acknowledge(world.store, together([before])) == 0
    assert [date.edition for date in after.dates] == [2]
    assert world.told() == [f"{ELEVEN} late 2"]


def test_a_dry_run_says_the_same_and_writes_nothing(world: DatesHarness) -> None:
    world.both(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    dry = world.tell(dry_run=True)
    assert world.markers() == []
    assert world.tell() == dry
    assert world.markers() == [f"by_date/events/{ELEVEN}/_SUCCESS"]


def test_events_name_the_date_its_edition_and_why(world: DatesHarness) -> None:
    world.both(NOON - 1000, NOON - 999)
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


def test_markers_are_nothing_to_readers_and_to_the_audit(world: DatesHarness) -> None:
    world.both(NOON - 1000, NOON - 999)
    before = list_topic(world.store, "by_date", "events", Dates(dt.date(2024, 5, 1), dt.date(2024, 5, 1)))
    world.set_ms(NOON + HOUR_MS)
    world.told()
    world.at(NOON - 5, kafka_ms=NOON + HOUR_MS)
    world.told()
    assert len(world.markers()) == 2
    after = list_topic(world.store, "by_date", "events", Dates(dt.date(2024, 5, 1), dt.date(2024, 5, 1)))
    assert set(before) < set(after)
    assert audit_chain(world.store, world.groups, "events", world.clock.now_us()).findings == ()


def test_a_topic_that_cannot_be_read_is_told_and_the_others_go_on(world: DatesHarness) -> None:
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
