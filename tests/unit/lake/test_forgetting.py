"""A topic forgets its oldest cuts: nobody reads them, nothing begins anew, and it goes on after a crash at any step."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from include.audit.chain.audit import audit_chain
from include.errors import Fenced, Terminal
from include.lake.backfill.planning import LakeStore
from include.lake.backfill.promotion import promote
from include.lake.backfill.selection import BackfillSelection
from include.lake.finalising.scan import gather
from include.lake.forgetting import MissingCuts, TopicForgetting, forget, plan_forgetting
from include.lake.inspect.listing import Dates, list_topic
from include.lake.inspect.locate import find_record
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.generations import note_heads, require_current, take_over
from include.lake.protocol.pointer import ReadersPointer, change_pointer, read_pointer
from include.lake.protocol.read_cuts import read_cuts
from include.lake.restore.plan import RestoreAsked
from include.lake.restore.planning import make_plan
from include.store.memory import MemoryStore
from tests.support.lake.backfill_harness import BackfillHarness, days, version

RIGHT = version(1, "made")
DAYS = 9
MAY_6 = dt.date(2024, 5, 6)
ALL = Dates(dt.date(2024, 4, 1), dt.date(2024, 6, 1))


class Crash(BaseException):
    """The process is gone."""


class Crashing(MemoryStore):
    """Dies at the n-th write or delete, before or after it; counts them."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner._clock)
        self._objects = inner._objects
        self.left: int | None = None
        self.after = False
        self.calls = 0

    def _step(self, do: Any) -> Any:
        self.calls += 1
        if self.left is None:
            return do()
        self.left -= 1
        if self.left == 0:
            if self.after:
                do()
            raise Crash
        # Threads that were on their way end with the process.
        if self.left < 0:
            raise Crash
        return do()

    def put_if_match(self, *given: Any, **named: Any) -> Any:
        return self._step(lambda: MemoryStore.put_if_match(self, *given, **named))

    def delete(self, key: str) -> None:
        self._step(lambda: MemoryStore.delete(self, key))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BackfillHarness:
    monkeypatch.setattr("include.lake.protocol.chain.SUMMARY_COMMITS", 3)
    made = BackfillHarness(tmp_path, RIGHT)
    made.store._clock = made.clock
    made.make("events", 2)
    for day in range(DAYS):
        for partition in (0, 1):
            made.events("events", 4, day, partition)
        made.store_all()
    assert clean(made)
    return made


def clean(world: BackfillHarness) -> bool:
    report = audit_chain(world.store, world.groups, "events", world.clock.now_us())
    assert [each.line() for each in report.findings] == []
    return True


def planned(world: BackfillHarness, day: dt.date = MAY_6) -> TopicForgetting:
    return plan_forgetting(world.store, world.topic_key(), day)


def listed(world: BackfillHarness, prefix: str = "by_date") -> list[tuple[int, int]]:
    return sorted((each.partition, each.first) for each in list_topic(world.store, prefix, "events", ALL))


def keys(world: BackfillHarness) -> list[str]:
    return [each.key for each in world.store.list("by_date/")]


def test_a_plan_writes_nothing_and_names_what_goes(world: BackfillHarness) -> None:
    before = keys(world)
    plan = planned(world)
    assert keys(world) == before
    # Records of 1 to 5 May: five cuts of four records and a marker of their transaction in each partition.
    assert [(each.partition, each.before, each.floor, each.cuts, each.records) for each in plan.partitions] == [
        (0, 0, 25, 5, 20),
        (1, 0, 25, 5, 20),
    ]
    assert "partition 1: offsets 0 to 24, 20 records, 5 objects" in plan.lines()[1]
    assert planned(world, dt.date(2024, 5, 1)).nothing


def test_what_is_forgotten_is_read_by_nobody_and_all_else_as_before(world: BackfillHarness) -> None:
    before = listed(world)
    forget(world.store, world.store, planned(world))
    kept = [each for each in before if each[1] >= 25]
    assert listed(world) == kept
    topic, pointer = world.topic_key(), world.pointer()
    assert [cut.commit.first for cut in read_cuts(world.store, topic, pointer, 0)] == [
        first for p, first in kept if not p
    ]
    assert find_record(world.store, topic, 0, 24).state == "forgotten"
    assert find_record(world.store, topic, 0, 25).state == "stored"
    gathered = gather(world.store, "by_date", "events")
    assert gathered.open == {f"2024-05-0{day}": {(f"dt=2024-05-0{day}",)} for day in range(6, 10)}
    assert gathered.heads[topic.topic_id] == {0: 45, 1: 45}
    assert not [key for key in keys(world) if "dt=2024-05-05" in key]
    assert clean(world)
    assert planned(world).nothing


def test_commits_go_in_whole_thousands_and_the_chain_never_begins_anew(world: BackfillHarness) -> None:
    forget(world.store, world.store, planned(world))
    chain = ChainKey(world.topic_key(), 1, 0)
    # Summaries have three commits each here; floors lie at the sixth.
    assert not list(world.store.list(chain.commit(0)))
    assert [cut.first for cut in Chain(world.store, chain, start=25).commits()] == [15, 20, 25, 30, 35, 40]
    assert not list(world.store.list(chain.summary(0)))
    # All of it is old some day: the last commits stay, and writers go on behind them.
    forget(world.store, world.store, planned(world, dt.date(2025, 1, 1)))
    assert listed(world) == []
    assert Chain(world.store, chain).head().next == 45
    again = world.partitioned(world.group)
    for partition in (0, 1):
        world.events("events", 4, DAYS, partition)
    world.store_all(world.driver, again)
    assert listed(world) == [(0, 45), (1, 45)]
    assert gather(world.store, "by_date", "events").heads[world.topic_key().topic_id] == {0: 50, 1: 50}
    assert clean(world)


def test_all_forgotten_is_told_as_committed_up_to_there(world: BackfillHarness) -> None:
    forget(world.store, world.store, planned(world, dt.date(2025, 1, 1)))
    gathered = gather(world.store, "by_date", "events")
    assert gathered.heads[world.topic_key().topic_id] == {0: 45, 1: 45}
    assert gathered.open == {}
    assert clean(world)


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_write_is_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    monkeypatch.setattr("include.lake.forgetting._AT_ONCE", 1)
    monkeypatch.setattr("include.lake.protocol.chain.SUMMARY_COMMITS", 3)
    made = BackfillHarness(tmp_path, RIGHT)
    made.make("events")
    for day in range(8):
        made.events("events", 2, day)
        made.store_all()
    assert clean(made)
    whole = dict(made.store._objects)
    forget(made.store, made.store, planned(made))
    wanted, read = set(made.store._objects), made.read()
    for number in range(1, 100):
        made.store._objects.clear()
        made.store._objects.update(whole)
        store = Crashing(made.store)
        store.left, store.after = number, after
        try:
            forget(store, store, planned(made))
        except Crash:
            assert clean(made)
            if made.pointer().floors:
                assert made.read() == read
        else:
            assert number > 12
            break
        forget(made.store, made.store, planned(made))
        assert set(made.store._objects) == wanted
        assert made.read() == read
        assert clean(made)
    else:
        pytest.fail("it never ends")


def test_marks_go_with_the_last_object_of_their_date(world: BackfillHarness) -> None:
    for day in (5, 6):
        world.store.put(f"by_date/events/dt=2024-05-0{day}/_SUCCESS", b"{}")
    forget(world.store, world.store, planned(world))
    assert [key for key in keys(world) if key.endswith("_SUCCESS")] == ["by_date/events/dt=2024-05-06/_SUCCESS"]


def test_what_a_backfill_made_is_forgotten_too_and_what_is_forgotten_is_not_made_again(world: BackfillHarness) -> None:
    world.by_date = world.partitioned(world.group)
    run = world.backfilled(
        BackfillSelection("by_date", "events", days=days("2024-05-01", "2024-05-07"), version=1, raw="raw")
    )
    promote(world.store, run, accept=True)
    assert clean(world)
    forget(world.store, world.store, planned(world))
    assert {each[1] for each in listed(world)} == {25, 30, 35, 40}
    assert not [key for key in keys(world) if "dt=2024-05-05" in key]
    assert clean(world)
    again = world.plan(
        BackfillSelection("by_date", "events", days=days("2024-05-01", "2024-05-07"), version=1, raw="raw")
    )
    assert {cut.first for cut in again.cuts} == {25, 30}
    with pytest.raises(Terminal, match="forgotten") as refused:
        world.plan(BackfillSelection("by_date", "events", offsets={0: (5, 30)}, version=1, raw="raw"))
    assert refused.value.details["kept_from"] == 25


def test_a_cut_that_is_not_old_keeps_all_behind_it(world: BackfillHarness) -> None:
    # A late record: of an old day behind newer ones.
    world.events("events", 2, 0)
    world.store_all()
    assert [each.floor for each in planned(world).partitions] == [25, 25]
    raw = plan_forgetting(world.store, world.topic_key(prefix="raw"), MAY_6)
    assert [each.cuts for each in raw.partitions] == [] or all(each.cuts < DAYS for each in raw.partitions)


def test_a_newer_revision_begins_at_the_heads_of_what_was_forgotten(world: BackfillHarness) -> None:
    forget(world.store, world.store, planned(world, dt.date(2025, 1, 1)))
    newer = world.partitioned(world.group.model_copy(update={"revision": 2}))
    world.events("events", 2, DAYS)
    world.store_all(world.driver, newer)
    assert listed(world) == [(0, 45)]
    assert clean(world)


def test_a_restore_takes_what_is_kept_and_refuses_what_is_not(world: BackfillHarness) -> None:
    raw = world.topic_key(prefix="raw")
    whole = plan_forgetting(world.store, raw, dt.date(2100, 1, 1))
    some = TopicForgetting(raw, MAY_6, tuple(replace(each, floor=25) for each in whole.partitions))
    forget(world.store, world.store, some)
    asked = RestoreAsked("events", "other")
    plan = make_plan(LakeStore(world.store), world.memory.admin(), raw, asked)
    assert plan.ranges == {0: (25, 45), 1: (25, 45)}
    with pytest.raises(Terminal, match="forgotten") as refused:
        make_plan(
            LakeStore(world.store), world.memory.admin(), raw, RestoreAsked("events", "other", offsets={0: (20, 30)})
        )
    assert refused.value.details["kept_from"] == 25
    with pytest.raises(Terminal, match="raw copy does not have all records"):
        world.plan(BackfillSelection("by_date", "events", offsets={0: (20, 30)}, version=1, raw="raw"))
    assert clean(world)


# What a lifecycle rule of the bucket takes.


def test_a_driver_notes_once_a_day_how_far_it_has_come(world: BackfillHarness) -> None:
    noted = world.pointer()
    # That was with the first cuts.
    assert noted.heads == {0: 5, 1: 5}
    world.clock.advance(86_400)
    for _ in range(3):
        world.clock.advance(6)
        world.by_date.step()
    assert (world.pointer().noted > noted.noted, world.pointer().heads) == (True, {0: 45, 1: 45})
    # An idle partition that lost its chain while nobody ran: the next driver tells, and stores nothing twice.
    chain = ChainKey(world.topic_key(), 1, 1)
    for key in [each.key for each in world.store.list(f"{chain}/")]:
        world.store.delete(key)
    again = world.partitioned(world.group)
    again.step("flush")
    ((tp, reason),) = again.planner.stopped.items()
    assert tp.partition == 1
    assert "commits are gone" in reason


def test_a_pointer_that_is_gone_is_named_and_nothing_begins_anew(world: BackfillHarness) -> None:
    topic = world.topic_key()
    live = take_over(world.store, topic, 1, 2, lambda chains: dict.fromkeys(chains, 0))
    before = keys(world)
    world.store.delete(topic.pointer)
    with pytest.raises(Terminal, match=r"pointer is gone.*lifecycle rule"):
        require_current(world.store, live)
    with pytest.raises(Terminal, match=r"pointer is gone, though the topic has chains.*lifecycle rule"):
        take_over(world.store, topic, 2, 2, lambda chains: dict.fromkeys(chains, 0))
    assert keys(world) == [key for key in before if key != topic.pointer]


def test_a_pointer_that_another_one_has_just_written_is_no_pointer_that_is_gone() -> None:
    class Late(MemoryStore):
        """Shows the pointer to whoever asks the second time."""

        asked = 0

        def get(self, key: str) -> Any:
            self.asked += key.endswith("/current")
            return None if self.asked == 1 else super().get(key)

    store, topic = Late(), TopicKey("raw", "events", "id")
    body = ReadersPointer().reserve("revision 1", "live").upgrade(1, {}).to_bytes()
    store.put(topic.pointer, body)
    assert take_over(store, topic, 1, 1, lambda chains: dict.fromkeys(chains, 0)).generation == 1


def test_commits_that_are_gone_while_a_driver_runs_stop_the_partition(world: BackfillHarness) -> None:
    chain = ChainKey(world.topic_key(), 1, 0)
    for key in [each.key for each in world.store.list(f"{chain}/")]:
        world.store.delete(key)
    world.events("events", 2, DAYS)
    world.by_date.step("flush")
    world.clock.advance(6)
    for _ in range(6):
        world.by_date.step("flush")
        world.clock.advance(0.5)
    (reason,) = set(world.by_date.planner.stopped.values())
    assert "a commit that stood there is gone: did a lifecycle rule take it?" in reason
    assert not list(world.store.list(f"{chain}/"))


def test_a_chain_that_ends_before_what_was_noted_is_named(world: BackfillHarness) -> None:
    topic = world.topic_key()
    live = take_over(world.store, topic, 1, 2, lambda chains: dict.fromkeys(chains, 0))
    note_heads(world.store, live, {0: 45, 1: 45}, "2024-05-10")
    note_heads(world.store, live, {0: 99}, "2024-05-10")
    assert world.pointer().heads == {0: 45, 1: 45}
    live = take_over(world.store, topic, 1, 2, lambda chains: dict.fromkeys(chains, 0))
    live.check_head(0, 45)
    with pytest.raises(Terminal, match=r"commits are gone.*lifecycle rule") as refused:
        live.check_head(0, 0)
    assert refused.value.details["reached"] == 45
    # A newer revision begins elsewhere: what was noted is not of it.
    newer = take_over(world.store, topic, 2, 2, lambda chains: dict.fromkeys(chains, 40))
    newer.check_head(0, 40)
    with pytest.raises(Fenced):
        require_current(world.store, live)
    note_heads(world.store, live, {0: 45}, "2024-05-11")
    assert world.pointer().heads == {}


def without_oldest(world: BackfillHarness, *partitions: int) -> None:
    """A rule took the first two cuts of these partitions, of 1 and 2 May: commits, summaries and data."""
    for partition in partitions:
        chain = ChainKey(world.topic_key(), 1, partition)
        for key in [each.key for each in world.store.list(f"{chain.of}/1/summary/{partition}/")]:
            world.store.delete(key)
        for first in (0, 5):
            for key in (chain.commit(first), chain.intent(first)):
                world.store.delete(key)
        for first in (0, 5):
            for each in [each.key for each in world.store.list("by_date/events/")]:
                if f"/1_{partition}_{first:020}." in each:
                    world.store.delete(each)


def test_the_oldest_commits_that_are_gone_are_named_and_a_person_can_accept_that(world: BackfillHarness) -> None:
    without_oldest(world, 0, 1)
    with pytest.raises(Terminal, match=r"missing.*lifecycle rule.*lyrebird lake forget --accept-missing"):
        listed(world)
    plan = plan_forgetting(world.store, world.topic_key(), dt.date(2024, 5, 2), accept_missing=True)
    assert [(each.floor, each.gone, each.cuts) for each in plan.partitions] == [(10, 10, 0), (10, 10, 0)]
    assert "10 of the offsets are gone already" in plan.lines()[0]
    plan.require_whole("by_date")
    forget(world.store, world.store, plan)
    assert min(listed(world)) == (0, 10)
    assert clean(world)


def test_nothing_is_forgotten_where_commits_are_gone_that_may_be_young(world: BackfillHarness) -> None:
    before = keys(world)
    without_oldest(world, 0)
    left = keys(world)
    assert len(left) < len(before)
    # Also where the first cut that is left has old records alone: what came before it was stored on 11 May, too.
    for day in (dt.date(2024, 5, 2), MAY_6):
        plan = planned(world, day)
        assert plan.missing == (MissingCuts(0, 0, 10),)
        assert "partition 0: offsets 0 to 9 are missing" in plan.lines()[-1]
        with pytest.raises(Terminal, match="oldest commits are missing") as refused:
            plan.require_whole("by_date")
        named = {name: refused.value.details[name] for name in ("group", "topic", "partition", "first", "until")}
        assert named == {"group": "by_date", "topic": "events", "partition": 0, "first": 0, "until": 10}
        assert f"events --group by_date --before {day.isoformat()} --accept-missing`" in refused.value.fix
    # The other partition forgets what it has to.
    assert plan.floors == {1: 25}
    forget(world.store, world.store, plan)
    assert world.pointer().floors == {1: 25}
    assert [key for key in keys(world) if "/1_0_" in key] == [key for key in left if "/1_0_" in key]


def test_commits_that_are_gone_and_were_stored_before_the_day_are_forgotten(world: BackfillHarness) -> None:
    without_oldest(world, 0, 1)
    # All was stored on 11 May.
    plan = planned(world, dt.date(2024, 5, 13))
    assert [(each.floor, each.gone, each.cuts) for each in plan.partitions] == [(45, 10, 7), (45, 10, 7)]
    plan.require_whole("by_date")
    forget(world.store, world.store, plan)
    assert listed(world) == []
    assert clean(world)


def test_commits_that_only_a_summary_has_are_not_missed_below_the_floor(world: BackfillHarness) -> None:
    for partition in (0, 1):
        chain = ChainKey(world.topic_key(), 1, partition)
        for first in (0, 5):
            for key in (chain.commit(first), chain.intent(first)):
                world.store.delete(key)
    report = audit_chain(world.store, world.groups, "events", world.clock.now_us())
    assert {each.fault for each in report.findings} == {"commit missing"}
    forget(world.store, world.store, planned(world, dt.date(2024, 5, 3)))
    assert min(listed(world)) == (0, 10)
    assert clean(world)


def test_pointers_without_floors_are_written_as_ever() -> None:
    pointer = ReadersPointer().reserve("revision 1", "live").upgrade(1, {})
    assert b"floors" not in pointer.to_bytes()

    topic = TopicKey("raw", "events", "id")
    later = pointer.forget({0: 5, 1: 0}).sweep({0: 5}).note(1, {0: 9}, "2024-05-10")
    assert ReadersPointer.parse(later.to_bytes(), topic) == later
    assert later.floors == {0: 5}
    assert later.forget({0: 3}) == later
    store = MemoryStore()
    store.put(topic.pointer, pointer.to_bytes())
    change_pointer(store, topic, lambda now: now.forget({0: 5}))
    assert read_pointer(store, topic).generation_of(0, 4) is None
    assert read_pointer(store, topic).generation_of(0, 5) == 1
