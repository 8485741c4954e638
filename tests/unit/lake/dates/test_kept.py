"""What is kept of dates: void where it has to be, gone on with after a crash, right where something was forgotten."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.clock import ManualClock
from include.lake.dates.event_hours import CalendarPeriod
from include.lake.dates.finalised import PartitionProgress, passed
from include.lake.dates.kept import DateIndex, NamedTimes, latest
from include.lake.dates.reading import catch_up, partitions_of
from include.lake.finalising.mark import acknowledge, finalise_groups
from include.lake.finalising.report import together
from include.lake.finalising.scan import committed_times
from include.lake.forgetting import forget, plan_forgetting
from include.lake.inspect.listing import Dates, list_topic
from include.lake.protocol.pointer import PointerEntry, read_pointer
from include.store.memory import MemoryStore
from include.store.object_store import StoredObject
from tests.support.lake.dates.harness import DAY_MS, NOON, DatesHarness, hourly
from tests.support.lake.dying_store import Crash, DyingStore
from tests.support.lake.simulated_topic import GROUP, HOUR_MS, SimulatedTopic
from tests.unit.lake.dates.test_requests import MIDNIGHT_MS, run
from tests.unit.lake.finalising.test_crashes import late_world

MAY = Dates(dt.date(2024, 4, 20), dt.date(2024, 5, 20))
TIMES = st.builds(
    lambda day, hour, records, stamps: NamedTimes(
        CalendarPeriod(dt.date(2024, 3, day), hour), records, *sorted(stamps)
    ),
    st.integers(29, 31),
    st.integers(0, 4),
    st.integers(1, 3),
    st.tuples(*[st.integers(1_711_600_000_000, 1_712_000_000_000)] * 2),
)
FILTERED = st.builds(
    lambda records, stamps: NamedTimes(None, records, *sorted(stamps)),
    st.integers(1, 3),
    st.tuples(*[st.integers(1_711_600_000_000, 1_712_000_000_000)] * 2),
)


def test_a_date_that_is_forgotten_in_part_is_told_as_it_is_then(tmp_path: Path) -> None:
    world = DatesHarness(tmp_path, hourly(by="day"))
    world.at(NOON - DAY_MS, NOON - DAY_MS)
    world.at(NOON - DAY_MS, NOON)
    world.set_ms(NOON + 2 * DAY_MS)
    assert world.told() == ["dt=2024-04-30 finished 1", "dt=2024-05-01 finished 1"]
    assert world.told() == []
    plan = plan_forgetting(world.store, world.topic_key(), dt.date(2024, 5, 1))
    forget(world.store, world.store, plan)
    assert world.told() == ["dt=2024-04-30 replaced 2"]
    left = world.success("dt=2024-04-30")
    assert left is not None
    assert (left.objects, left.records) == (1, 1)
    assert world.told() == []


def test_the_index_of_what_is_forgotten_goes_with_the_next_sweep(tmp_path: Path) -> None:
    world = DatesHarness(tmp_path, hourly(by="day"))
    world.store._clock = world.clock
    for day in range(4):
        world.set_ms(NOON + day * DAY_MS)
        world.at(NOON + day * DAY_MS, NOON + day * DAY_MS)
        world.told()

    def days_after(day: int) -> list[str]:
        plan = plan_forgetting(world.store, world.topic_key(), dt.date(2024, 5, day))
        forget(world.store, world.store, plan)
        world.told()
        keys = (each.key.split("/index/")[1] for each in world.store.list("by_date/_chain/") if "/index/" in each.key)
        return sorted({key.partition("/")[0] for key in keys} - {"state"})

    assert days_after(2) == ["2024-05-01", "2024-05-02", "2024-05-03", "2024-05-04"]
    world.set_ms(NOON + 6 * DAY_MS)
    world.at(NOON + 6 * DAY_MS)
    world.told()
    assert days_after(3) == ["2024-05-02", "2024-05-03", "2024-05-04", "2024-05-07"]
    found = list_topic(world.store, "by_date", "events", MAY)
    assert [each.key.split("/")[2] for each in found] == ["dt=2024-05-03", "dt=2024-05-04", "dt=2024-05-07"]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("step", range(1, 4))
def test_after_a_crash_while_dates_settle_they_are_told_no_second_time(tmp_path: Path, step: int, before: bool) -> None:
    world = late_world(tmp_path)
    assert len(world.told()) == 2
    crashed = False
    try:
        assert world.told(DyingStore(world.store, step, before=before)) == []
    except Crash:
        crashed = True
    assert crashed is (step == 1)
    assert world.told() == []
    world.at(NOON - 5, kafka_ms=NOON + HOUR_MS)
    assert world.told() == ["dt=2024-05-01/hr=11 late 3"]


@pytest.mark.parametrize("grown", [0, 2])
def test_a_chain_that_began_anew_is_read_anew(grown: int) -> None:
    topic = SimulatedTopic(2, [MIDNIGHT_MS + number * HOUR_MS for number in range(1, 25)])
    run(topic, topic.ends_ms[-1])
    topic.life = "b"
    topic.ends_ms += [topic.ends_ms[-1] + 1] * grown
    found = list_topic(topic, "dates", "events", MAY)
    assert {each.sha256[0] for each in found} == {"b"}
    assert len(found) == 2 * (24 + grown)
    report = run(topic, topic.ends_ms[-1] + HOUR_MS)
    assert {date.change for date in report.dates if date.edition == 2} == {"replaced"}


def test_an_index_of_fewer_entries_is_kept_where_a_revision_took_over_at_its_ends_and_void_else() -> None:
    topic = SimulatedTopic(1, [MIDNIGHT_MS + number * HOUR_MS for number in range(1, 51)])
    pointer = read_pointer(topic, topic.key)
    index = DateIndex.read(topic, topic.key, pointer)
    catch_up(index, partitions_of(index))
    assert index.save()
    taken = pointer.reserve("revision 2", "live").upgrade(2, {0: 500})
    kept = DateIndex.read(topic, topic.key, taken)
    assert (kept.marks[0].next, kept.marks[0].whole, kept.complete) == (500, False, False)
    behind = pointer.reserve("revision 2", "live").upgrade(2, {0: 490})
    replaced = pointer.reserve("b", "backfill").promote(2, {0: ((0, 10),)}, replaces=1)
    other = type(pointer)((PointerEntry(1, {0: ((10, None),)}),), pointer.reserved)
    lower = DateIndex.read(topic, topic.key, pointer.forget({0: 100}))
    catch_up(lower, [0])
    lower.raise_floors()
    assert lower.save()
    for void in (behind, replaced, other, pointer, pointer.forget({0: 90})):
        assert DateIndex.read(topic, topic.key, void).marks == {}
    assert DateIndex.read(topic, topic.key, pointer.forget({0: 200})).marks != {}


def test_who_is_cut_off_while_all_is_read_goes_on_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("include.lake.dates.reading._MOST_FILES", 20)
    monkeypatch.setattr("include.lake.dates.reading._MOST_CUTS", 10)
    topic = SimulatedTopic(1, [MIDNIGHT_MS + number * HOUR_MS for number in range(1, 101)])
    index = DateIndex.read(topic, topic.key, read_pointer(topic, topic.key))
    saves = 0

    def save() -> None:
        nonlocal saves
        index.save()
        saves += 1
        if saves == 3:
            raise Crash

    with pytest.raises(Crash):
        catch_up(index, partitions_of(index), save=save)
    again = DateIndex.read(topic, topic.key, read_pointer(topic, topic.key))
    assert (again.marks[0].next, again.complete) == (600, False)
    topic.took()
    catch_up(again, partitions_of(again))
    assert topic.took()["GET"] <= 60
    assert again.complete
    assert sum(len(again.of_day(f"2024-05-0{day}")) for day in range(1, 6)) == 100


def test_of_two_who_read_at_once_one_is_kept_and_both_are_right(tmp_path: Path) -> None:
    world = late_world(tmp_path)
    inner: list[Any] = []

    class Meanwhile(DyingStore):
        def put_if_match(self, key: str, *given: Any, **named: Any) -> Any:
            if key.endswith("/index/state") and not inner:
                inner.extend(world.reports())
            return world.store.put_if_match(key, *given, **named)

    (outer,) = world.reports(Meanwhile(world.store, 0))
    told = [(date.folder, date.edition) for date in inner[0].dates]
    assert [(date.folder, date.edition) for date in outer.dates] == told
    assert len(told) == 2
    acknowledge(world.store, together([outer]))
    assert world.told() == []


def test_settled_dates_are_asked_for_no_more_and_a_dry_run_writes_nothing() -> None:
    topic = SimulatedTopic(1, [MIDNIGHT_MS + number * HOUR_MS for number in range(1, 25)])
    now_ms = topic.ends_ms[-1] + 700_000
    run(topic, now_ms)
    run(topic, now_ms)
    asked: list[str] = []

    def get(key: str) -> StoredObject | None:
        asked.append(key)
        return topic.get(key)

    class Asked(MemoryStore):
        def __getattribute__(self, name: str) -> Any:
            return get if name == "get" else getattr(topic, name)

    topic.took()
    (report,) = finalise_groups(Asked(), topic, {"dates": GROUP}, ManualClock(now_ms * 1000), dry_run=True)
    assert (report.dates, report.open) == ((), ())
    assert [key.rpartition("/")[2] for key in asked] == ["current", "state"]
    assert "PUT" not in topic.took()


@given(st.lists(st.lists(TIMES | FILTERED, max_size=6), max_size=6), st.sampled_from(["UTC", "Europe/Berlin"]))
def test_the_times_that_are_kept_tell_what_all_of_them_tell(parts: list[list[NamedTimes]], zone: str) -> None:
    kept: tuple[NamedTimes, ...] = ()
    for part in parts:
        kept = latest([*kept, *part])
    everything = [each for part in parts for each in part]

    def reached(times: Any) -> int | None:
        return passed(PartitionProgress(1, 2, 0, committed_times(times, zone)), 1 << 60)

    assert reached(kept) == reached(everything)
    assert len(kept) <= 3 + 3 * 15
