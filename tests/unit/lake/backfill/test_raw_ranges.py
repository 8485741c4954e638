"""The raw copy gives what Kafka gave, from any offset to any other, and nothing that is not as committed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.backfill.plan import RawObject
from include.lake.backfill.raw_ranges import RawRanges, check_source
from include.lake.definition import LakeGroup
from include.lake.message import Message
from include.lake.protocol.object_key import ObjectKey
from include.lake.reading.log_ranges import PortRanges
from include.lake.writing.driver import Driver
from include.store.memory import MemoryStore
from tests.support.lake.backfill_harness import BackfillHarness, version
from tests.support.lake.harness import GROUP

HEADERS = (("trace", b"1"), ("trace", None), ("", b""))


def made(folder: Path, sizes: tuple[int, ...] = (5, 7, 3)) -> BackfillHarness:
    """A cut of the raw copy for each size; of the first only what compaction left."""
    world = BackfillHarness(folder, version(1, "at"))
    world.make("events")
    for number, size in enumerate(sizes):
        writer = world.memory.writer("w")
        writer.begin()
        for place in range(size):
            key = None if place % 3 == 0 else b"%d" % (place % 2)
            writer.append(
                "events", key, b"v%d" % place if place % 4 else None, headers=HEADERS[: place % 4], partition=0
            )
        writer.commit()
        if number == 0 and size:
            world.memory.compact("events")
        world.store_all(world.driver)
    return world


def raw(world: BackfillHarness, first: int, until: int, store: MemoryStore | None = None) -> RawRanges:
    return RawRanges(store or world.store, world.topic_key(prefix="raw"), 0, first, until)


def messages(ranges: Any, first: int, until: int) -> list[Message]:
    return [message for batch in ranges.batches("events", 0, first, until) for message in batch.messages]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.data())
def test_any_range_of_the_raw_copy_has_the_messages_of_the_log(sizes: list[int], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = made(Path(folder), tuple(sizes))
        log = PortRanges(world.memory.reader(), world.memory.admin())
        end = log.edges("events", 0)[1]
        first = data.draw(st.integers(0, end - 1))
        until = data.draw(st.integers(first + 1, end))
        found = raw(world, first, until)
        assert messages(found, first, until) == messages(log, first, until)
        # A cut of it, after another one: the object may be held already.
        middle = data.draw(st.integers(first, until))
        assert messages(found, middle, until) == messages(log, middle, until)
        assert messages(found, first, middle) == messages(log, first, middle)
        assert found.topic_id("events") == log.topic_id("events")
        assert found.topic_id("other") == ""


def test_a_copy_that_does_not_reach_is_refused(tmp_path: Path) -> None:
    world = made(tmp_path)
    end = world.memory.reader().end_offsets("events")[0]
    with pytest.raises(Terminal, match="does not reach over this range"):
        raw(world, 0, end + 1)
    with pytest.raises(Terminal, match="does not reach"):
        raw(world, end + 1, end + 2)
    with pytest.raises(Terminal, match="another partition"):
        raw(world, 0, end).edges("events", 1)


def test_what_kafka_had_lost_is_told(tmp_path: Path) -> None:
    world = BackfillHarness(tmp_path, version(1, "at"))
    world.make("events")
    for _ in range(2):
        world.events("events", 10, 0)
        world.memory.truncate("events", 0, world.memory.reader().end_offsets("events")[0] - 5)
        world.store_all(world.driver)
    assert raw(world, 0, 22).gaps(0, 22) == [(0, 6), (11, 17)]
    assert raw(world, 0, 22).gaps(3, 12) == [(3, 6), (11, 12)]


@pytest.mark.parametrize("change", ["flipped", "shorter", "gone"])
def test_an_object_that_is_not_as_committed_is_not_used(tmp_path: Path, change: str) -> None:
    world = made(tmp_path)
    key = next(info.key for info in world.store.list("raw/events/"))
    found = world.store.get(key)
    assert found is not None
    source = RawObject(0, key, found.info.size_bytes, (found.info.metadata or {})["sha256"], 1)
    check_source(world.store, source)
    world.store.delete(key)
    if change != "gone":
        body = found.body[:-1] + (b"" if change == "shorter" else bytes([found.body[-1] ^ 1]))
        world.store.put(key, body, metadata={} if change == "flipped" else found.info.metadata)
    if change != "flipped":
        # A flipped byte shows when the object is read.
        with pytest.raises(Terminal, match="raw object is"):
            check_source(world.store, source)
    with pytest.raises(Terminal, match=r"raw object is.*audit chain --deep"):
        messages(raw(world, 0, 5), 0, 5)


def test_a_copy_that_keeps_no_headers_is_refused(tmp_path: Path) -> None:
    world = BackfillHarness(tmp_path, version(1, "at"))
    rule = {"topics": "*", "format": {"sequence": {"layout": "message_pack"}}}
    other = LakeGroup.model_validate(GROUP.model_dump(mode="json", exclude_unset=True) | {"rules": [rule]})
    world.groups["raw"] = other
    world.driver = Driver("raw", other, world, world.store, world, world.clock, world, "here")
    world.make("events")
    world.events("events", 3, 0)
    world.store_all(world.driver)
    with pytest.raises(Terminal, match="does not keep all of its records"):
        messages(raw(world, 0, 3), 0, 3)
    # What such a group sets aside is whole, and is given as it came.
    world.send("events", [None, b"x"])
    world.store_all(world.driver)
    keys = [info.key for info in world.store.list("raw/events/") if ObjectKey.parse(info.key, "raw").refused]
    assert len(keys) == 1


def test_what_a_backup_set_aside_is_given_without_the_reason(tmp_path: Path) -> None:
    from include.lake.backfill.raw_ranges import _as_it_came
    from include.lake.writing.cut_files import REFUSED_HEADER

    came = Message(5, b"k", None, (("a", b"1"),))
    aside = came._replace(headers=(*came.headers, (REFUSED_HEADER, b"why")))
    assert _as_it_came(aside) == came
    with pytest.raises(Terminal, match="does not say why"):
        _as_it_came(came)


def test_an_object_is_fetched_once_for_cuts_that_follow_on_each_other(tmp_path: Path) -> None:
    world = made(tmp_path)
    fetched: list[str] = []

    class Counting(MemoryStore):
        def get(self, key: str) -> Any:
            if key.startswith("raw/events/"):
                fetched.append(key)
            return super().get(key)

        def list(self, prefix: str, *, start_after: str = "") -> Iterator[Any]:
            return world.store.list(prefix, start_after=start_after)

    store = Counting()
    store._objects, store._lock = world.store._objects, world.store._lock
    found = raw(world, 0, 5, store)
    for first in range(5):
        messages(found, first, first + 1)
    assert len(fetched) == 1
