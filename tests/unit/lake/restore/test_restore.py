"""A topic restored from its backup is record for record what it was, once, whenever the restore is cut off."""

from __future__ import annotations

import dataclasses
import datetime as dt
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import LyrebirdError, SettingsError, Terminal
from include.lake.backfill.planning import LakeStore
from include.lake.backfill.selection import Days
from include.lake.message import Message
from include.lake.reading.log_ranges import MessageBatch
from include.lake.restore.copying import TransactionLimits, copy
from include.lake.restore.manifest import KEEPS_ALL, begin, check_target
from include.lake.restore.offset_map import new_offset
from include.lake.restore.plan import RestoreAsked, RestorePlan
from include.lake.restore.planning import make_plan
from include.lake.restore.result import RestoreResult
from include.log.ports import LogWriter, TopicSpec
from include.store.memory import MemoryStore
from tests.unit.lake.restore.restore_harness import DAY_MS, NOON_MS, Died, RestoreHarness


def filled(folder: Path) -> RestoreHarness:
    world = RestoreHarness(folder)
    for number in range(4):
        world.send(9, 0, day=number)
        world.send(3, 0, commit=False)
        world.send(5, 1, day=number)
        world.flush()
    return world


@pytest.fixture
def world(tmp_path: Path) -> RestoreHarness:
    return filled(tmp_path)


class Dying:
    """A writer whose process ends before or after its n-th durable step."""

    def __init__(self, inner: LogWriter, left: list[int]) -> None:
        self._inner, self._left = inner, left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _step(self) -> None:
        self._left[0] -= 1
        if self._left[0] == 0:
            raise Died

    def next_offsets(self) -> dict[tuple[str, int], int]:
        self._step()
        found = self._inner.next_offsets()
        self._step()
        return found

    def commit(self, group: str | None = None, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
        self._step()
        self._inner.commit(group, offsets)
        self._step()

    def close(self) -> None:
        """Not: it is gone, and the next writer of its id fences it."""


def check_map(world: RestoreHarness, restored: RestoreResult, source_records: dict[int, list[Any]]) -> None:
    """Every old record's offset leads to a record with the same bytes."""
    for partition, old in source_records.items():
        new = {each.offset: each for each in world.records("copy", partition)}
        found = restored.maps[partition]
        assert len(new) == len(old) == found.totals.records
        for each in old:
            at = new_offset(world.store, restored.restore.folder, found.parts, each.offset)
            assert at is not None
            assert at[1]
            assert (new[at[0]].key, new[at[0]].value) == (each.key, each.value)
        assert new_offset(world.store, restored.restore.folder, found.parts, old[-1].offset + 1) is None


@pytest.mark.parametrize("most", [1, 4, 7, 1000])
def test_every_record_comes_back_as_it_was_in_its_partition(world: RestoreHarness, most: int) -> None:
    restored = world.restore(most=most)
    for partition in (0, 1):
        assert world.content("copy", partition) == world.content("events", partition)
    assert restored.totals.records == 56
    assert (restored.totals.redated, restored.totals.left_out) == (0, 0)
    check_map(world, restored, {p: world.records("events", p) for p in (0, 1)})


def test_it_needs_nothing_of_the_old_topic(world: RestoreHarness) -> None:
    source, before = world.source, [world.content("events", p) for p in (0, 1)]
    world.memory.admin().delete("events")
    with pytest.raises(SettingsError, match="how many partitions it had must be told"):
        world.restore(source=source)
    with pytest.raises(SettingsError, match="another number of partitions"):
        world.restore(source=source, partitions=1)
    world.restore(source=source, partitions=3)
    assert [world.content("copy", p) for p in (0, 1, 2)] == [*before, []]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=4), st.lists(st.integers(1, 12), min_size=1, max_size=3))
def test_whatever_cuts_it_off_each_record_is_there_once(deaths: list[int], sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = filled(Path(folder))
        for number, steps in enumerate(deaths):
            kafka = world.kafka(partial(Dying, left=[steps]))
            try:
                world.restore(kafka=kafka, most=sizes[number % len(sizes)])
            except Died:
                continue
        restored = world.restore(most=sizes[-1])
        for partition in (0, 1):
            assert world.content("copy", partition) == world.content("events", partition)
        check_map(world, restored, {p: world.records("events", p) for p in (0, 1)})
        assert restored.totals.records == 56


class DyingStore(MemoryStore):
    """A bucket whose user is gone before or after its n-th write below `_restore`."""

    left = 0

    def put(self, key: str, body: bytes, **more: Any) -> Any:
        return self._dying(key, lambda: super(DyingStore, self).put(key, body, **more))

    def put_if_absent(self, key: str, body: bytes, **more: Any) -> Any:
        return self._dying(key, lambda: super(DyingStore, self).put_if_absent(key, body, **more))

    def _dying(self, key: str, call: Any) -> Any:
        if "_restore" not in key:
            return call()
        self._step()
        found = call()
        self._step()
        return found

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Died


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_crash_around_any_write_to_the_bucket_loses_and_doubles_nothing(tmp_path: Path, steps: int) -> None:
    world = RestoreHarness(tmp_path)
    world.store = DyingStore()
    world.driver = world.started()
    world.send(12, 0)
    world.flush()
    world.store.left = steps
    with pytest.raises(Died):
        world.restore(most=3)
    restored = world.restore(most=5)
    assert world.content("copy", 0) == world.content("events", 0)
    check_map(world, restored, {0: world.records("events", 0)})


def test_one_that_was_asleep_does_no_harm(world: RestoreHarness) -> None:
    """It wakes with its records flushed and its map not written; another has gone on meanwhile."""
    asleep: list[LogWriter] = []

    class Sleeping(Dying):
        def next_offsets(self) -> dict[tuple[str, int], int]:
            found = self._inner.next_offsets()
            if not asleep:
                asleep.append(self._inner)
                whole.append(world.restore(most=4))
            return found

    whole: list[RestoreResult] = []
    with pytest.raises(LyrebirdError, match="taken over"):
        world.restore(kafka=world.kafka(lambda writer: Sleeping(writer, [0])))
    assert [world.content("copy", p) for p in (0, 1)] == [world.content("events", p) for p in (0, 1)]
    check_map(world, world.restore(), {p: world.records("events", p) for p in (0, 1)})
    assert world.restore().maps == whole[0].maps


def test_what_the_backup_got_later_is_no_part_of_one_that_has_begun(world: RestoreHarness) -> None:
    plan = make_plan(LakeStore(world.store), world.memory.admin(), world.source, RestoreAsked("events", "copy"))
    begin(LakeStore(world.store), world.memory.reader(), world.memory.admin(), plan)
    before = world.content("events", 0)
    world.send(9, 0)
    world.flush()
    restored = world.restore()
    assert world.content("copy", 0) == before
    assert restored.restore.resumed


def test_days_take_the_records_of_their_timestamps(world: RestoreHarness) -> None:
    days = Days(dt.date(2024, 5, 2), dt.date(2024, 5, 3))
    restored = world.restore(days=days)
    for partition in (0, 1):
        wanted = [r for r in world.content("events", partition) if 1 <= (r[3] - NOON_MS) // DAY_MS <= 2]
        assert world.content("copy", partition) == wanted
    assert restored.totals.records == 28
    other = world.restore("other", days=Days(dt.date(2024, 5, 1), dt.date(2024, 5, 1)), zone="Asia/Tokyo")
    assert other.totals.records == 14


def test_days_leave_out_what_lies_among_them(tmp_path: Path) -> None:
    world = RestoreHarness(tmp_path)
    for day in (0, 1, 0):
        world.send(2, 0, day=day)
    world.flush()
    restored = world.restore(days=Days(dt.date(2024, 5, 2), dt.date(2024, 5, 2)))
    assert (restored.totals.records, restored.totals.left_out) == (2, 4)
    assert "4 records of other days" in "\n".join(restored.lines())


def test_offsets_take_these_alone(world: RestoreHarness) -> None:
    world.restore(offsets={0: (5, 20)})
    wanted = [(r.key, r.value) for r in world.records("events", 0) if 5 <= r.offset < 20]
    assert [(r.key, r.value) for r in world.records("copy", 0)] == wanted
    assert world.records("copy", 1) == []
    with pytest.raises(Terminal, match="does not reach so far"):
        world.restore("other", offsets={0: (5, 1000)})
    with pytest.raises(Terminal, match="has nothing of this"):
        world.restore("other", offsets={7: (0, 1)})


def test_a_target_with_records_or_other_partitions_is_refused(world: RestoreHarness) -> None:
    with pytest.raises(Terminal, match="has records already"):
        world.restore("events")
    world.make("small", 1)
    with pytest.raises(Terminal, match="another number of partitions"):
        world.restore("small")
    world.make("empty", 2)
    world.restore("empty")
    assert world.content("empty", 0) == world.content("events", 0)
    with pytest.raises(Terminal, match="target of another restore"):
        world.restore("empty", offsets={0: (0, 5)})


def test_somebody_else_who_writes_to_the_target_is_found(world: RestoreHarness) -> None:
    left = [6]
    with pytest.raises(Died):
        world.restore(kafka=world.kafka(lambda writer: Dying(writer, left)))
    other = world.memory.writer("other")
    other.begin()
    other.append("copy", b"k", b"foreign", partition=0)
    other.commit()
    with pytest.raises(Terminal, match="somebody else writes"):
        world.restore()


def test_somebody_else_who_writes_meanwhile_is_found_before_anything_is_committed(world: RestoreHarness) -> None:
    class Crowded(Dying):
        def next_offsets(self) -> dict[tuple[str, int], int]:
            other = world.memory.writer("other")
            other.begin()
            other.append("copy", b"k", b"foreign", partition=0)
            other.commit()
            self._inner.append("copy", b"k", b"late", partition=0)
            return self._inner.next_offsets()

    with pytest.raises(Terminal, match="somebody else writes"):
        world.restore(kafka=world.kafka(lambda writer: Crowded(writer, [0])))
    assert [r.value for r in world.records("copy", 0)] == [b"foreign"]


def test_a_target_that_does_not_keep_its_records_is_told(world: RestoreHarness) -> None:
    class Retention(Dying):
        def commit(self, group: str | None = None, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
            self._inner.commit(group, offsets)
            world.memory.truncate("copy", 0, 3)

    with pytest.raises(Terminal, match="does not keep its records"):
        world.restore(kafka=world.kafka(lambda writer: Retention(writer, [0])))


def test_a_target_is_made_to_keep_all(world: RestoreHarness) -> None:
    made: list[TopicSpec] = []

    class Noted:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.memory.admin(), name)

        def ensure(self, spec: TopicSpec) -> Any:
            made.append(spec)
            return world.memory.admin().ensure(spec)

    world.restore(kafka=dataclasses.replace(world.kafka(), admin=Noted()))
    assert made == [TopicSpec("copy", 2, KEEPS_ALL)]
    assert (KEEPS_ALL["retention.ms"], KEEPS_ALL["cleanup.policy"]) == ("-1", "delete")


def test_a_plan_writes_nothing_and_is_read_as_it_was_written(world: RestoreHarness) -> None:
    before = [info.key for info in world.store.list("")], world.memory.admin().names()
    asked = RestoreAsked("events", "copy", days=Days(dt.date(2024, 5, 2), dt.date(2024, 5, 3)))
    plan = make_plan(LakeStore(world.store), world.memory.admin(), world.source, asked)
    assert check_target(LakeStore(world.store), world.memory.reader(), world.memory.admin(), plan) is None
    assert RestorePlan.parse(plan.to_bytes(), "k") == plan
    assert (plan.partitions, plan.objects) == (2, 4)
    assert ([info.key for info in world.store.list("")], world.memory.admin().names()) == before
    for body in (b"{}", plan.to_bytes().replace(b'"topic":"events"', b'"topic":7')):
        with pytest.raises(Terminal, match="cannot be read"):
            RestorePlan.parse(body, "k")


def test_a_raw_object_that_was_changed_ends_it_and_what_was_written_stands(world: RestoreHarness) -> None:
    keys = [i.key for i in world.store.list("raw/events/") if "/1_0_" in i.key]
    body = world.store.get(keys[-1])
    assert body is not None
    world.store.put(keys[-1], body.body[:-1] + b"?")
    with pytest.raises(Terminal, match="not as its commit says"):
        world.restore()
    world.store.put(keys[-1], body.body)
    world.restore()
    assert world.content("copy", 0) == world.content("events", 0)


def test_a_map_that_lost_an_object_is_told(world: RestoreHarness) -> None:
    restored = world.restore(most=4)
    world.store.delete(restored.maps[0].parts[1].key(restored.restore.folder))
    with pytest.raises(Terminal, match="has a hole"):
        world.restore()


def test_timestamps_that_no_client_can_write_are_counted(
    world: RestoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = [(0, -1), (1, 0), (1, -5), (2, NOON_MS), (1, NOON_MS)]

    class Odd:
        def __init__(self, *_arguments: Any) -> None:
            """Of any range."""

        def batches(self, _topic: str, partition: int, start: int, _until: int) -> list[MessageBatch]:
            found = [Message(at, b"k", b"v", (), ms, kind) for at, (kind, ms) in enumerate(odd)]  # type: ignore[arg-type]
            return [MessageBatch(found)] if partition == start == 0 else []

    monkeypatch.setattr("include.lake.restore.copying.RawRanges", Odd)
    restored = world.restore(offsets={0: (0, 5)})
    assert (restored.totals.redated, restored.totals.broker_dated) == (1, 1)
    now_ms = world.clock.now_us() // 1000
    assert [r.timestamp_ms for r in world.records("copy", 0)] == [-1, now_ms, -5, NOON_MS, NOON_MS]
    assert "1 records of 1970-01-01T00:00:00Z have the time of the restore" in "\n".join(restored.lines())
    assert "1 timestamps were the broker's" in "\n".join(restored.lines())


def test_a_header_name_that_kafkas_client_cannot_write_is_told_before_it_gets_it(world: RestoreHarness) -> None:
    writer = world.memory.writer("another")
    writer.begin()
    headers = (("a", b"1"), (b"\xff".decode("utf-8", "surrogateescape"), None))
    writer.append("events", b"k", b"v", headers=headers, partition=0, timestamp_ms=NOON_MS)
    writer.commit()
    world.flush()
    (odd,) = (each.offset for each in world.records("events", 0) if each.headers == headers)
    with pytest.raises(Terminal, match="header name that is not UTF-8") as refused:
        world.restore()
    assert (refused.value.details["partition"], refused.value.details["offset"]) == (0, odd)
    assert "--offsets 0:FROM-UNTIL" in refused.value.fix
    assert all(each.headers != headers for each in world.records("copy", 0))


def test_a_restore_tells_how_far_it_is(world: RestoreHarness) -> None:
    told: list[tuple[int, int]] = []
    bucket, kafka = LakeStore(world.store), world.kafka()
    plan = make_plan(bucket, kafka.admin, world.source, RestoreAsked("events", "copy"))
    restore = begin(bucket, kafka.reader, kafka.admin, plan)
    copy(bucket, kafka, restore, world.clock, lambda *how: told.append(how), TransactionLimits(10))
    assert told == sorted(told)
    assert told[-1] == (56, 56)
