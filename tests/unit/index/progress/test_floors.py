"""Floors of change topics: what a truncate removes is gone, what comes late stays gone, crashes change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Terminal
from include.index.bulk.sender import Delivery
from include.index.definition import IndexDefinition
from include.index.feed import Feed
from include.index.outcome import TaskOutcome
from include.index.progress.document import IndexProgress
from include.index.progress.floors import Floors
from include.index.server.memory import MemoryIndex
from include.index.states import States, feed_of
from include.index.task import IndexTask, raw_of
from include.log import topics
from include.log.control import ControlKind, ControlRecord
from include.log.memory import MemoryLog, MemoryRegistry
from include.record.codec import frame
from include.record.version import to_header
from include.settings.connections import Cluster

TOPIC, NAME = "cdc.shop.db.orders", "orders-v1"
CONTROL = topics.control("shop")


class Harness:
    """A change topic, its control topic and an index."""

    def __init__(self) -> None:
        self.log, self.registry, self.index = MemoryLog(), MemoryRegistry(), MemoryIndex()
        self.index.create(NAME, {})
        for name in (TOPIC, CONTROL):
            self.log.admin().ensure(topics.document_spec(name, 1))
        self.writer = self.log.writer("w")
        self.schema = self.registry.register("v", {"type": "object"}, language="JSON")
        self.removed: list[int] = []
        self.read = 0
        raw = {"application": "a", "topic": TOPIC, "entity": "order", "mapping": "m.json", "key": "text"}
        self.definition = IndexDefinition.model_validate({**raw, "value": "change"})
        self.progress = IndexProgress(TOPIC)

    def change(self, key: str, version: int, op: str = "c", after: Mapping[str, Any] | None = None) -> None:
        envelope = b'{"op":"%b","after":%b}' % (op.encode(), b"null" if op == "d" else b'{"v":%d}' % version)
        self._write(TOPIC, key.encode(), frame(self.schema, envelope), version)
        if op == "d":
            self._write(TOPIC, key.encode(), None, version)

    def control(self, kind: ControlKind, floor: int, table: str = "orders") -> None:
        said = ControlRecord(kind, "db", table, floor)
        self._write(CONTROL, said.key(), said.value(), floor)

    def feed(self, progress: IndexProgress) -> Feed:
        return feed_of(Cluster(name="c", type="t"), self.definition, TOPIC, progress)

    def look(self) -> None:
        floors = Floors(self.index, NAME, self.log.reader(), ManualClock(), self.removed.append)
        self.progress = floors.look(self.progress, self.feed)

    def batch(self, start: int | None = None) -> TaskOutcome:
        self.look()
        end = self.log.reader().end_offsets(TOPIC)[0]
        records = self.log.reader().read(TOPIC, 0, self.read if start is None else start, end)
        self.read = end
        send = lambda data: self.index.bulk(NAME, data)  # noqa: E731
        task = IndexTask(
            states={TOPIC: States(self.feed(self.progress), self.registry)},
            delivery=Delivery(send, ManualClock(), index=NAME, bulk_bytes=10_000, patience_s=5),
            window_bytes=100,
        )
        return task.run(map(raw_of, records))

    def living(self) -> set[str]:
        self.index.refresh(NAME)
        return {i for i, found in self.index.visible(NAME).items() if not found.deleted}

    def _write(self, topic: str, key: bytes, value: bytes | None, version: int) -> None:
        self.writer.begin()
        self.writer.append(topic, key, value, headers=[to_header(version)], partition=0)
        self.writer.commit()


def test_a_change_is_indexed_by_its_newer_image_and_a_delete_and_its_tombstone_delete_once() -> None:
    world = Harness()
    world.change("a", 1)
    world.change("b", 2)
    world.batch()
    world.change("a", 3, "d")
    out = world.batch()
    assert world.living() == {"b"}
    found = world.index.get(NAME, "b")
    assert found is not None
    assert found.source["order"] == {"v": 2}
    assert (out.total("deleted"), out.total("stale"), out.total("folded")) in {(1, 1, 0), (1, 0, 1)}


def test_a_truncate_removes_what_is_there_and_what_comes_late_and_nothing_newer() -> None:
    world = Harness()
    for n, key in enumerate("abc", 1):
        world.change(key, n)
    world.batch()
    world.control("truncate", 10)
    world.change("d", 11)
    world.change("a", 12)
    world.batch()
    assert world.living() == {"a", "d"}
    assert world.removed == [3]
    assert world.progress.floors == {"db.orders": 10}
    world.change("e", 9)
    assert world.batch().total("stale") == 1
    assert world.living() == {"a", "d"}


def test_rows_below_the_floor_that_come_in_the_same_batch_are_superseded() -> None:
    world = Harness()
    world.change("a", 1)
    world.control("gap", 5)
    out = world.batch()
    assert out.total("stale") == 1
    assert world.living() == set()


def test_a_tombstone_of_a_floor_is_older_than_every_row_that_lives() -> None:
    world = Harness()
    world.change("a", 9)
    world.batch()
    world.control("truncate", 10)
    world.look()
    found = world.index.get(NAME, "a")
    assert found is not None
    assert (found.deleted, found.version) == (True, 9)
    world.change("a", 10)
    world.batch()
    assert world.living() == {"a"}


def test_a_crash_before_the_floor_is_kept_does_the_same_again_and_a_replay_from_the_beginning_brings_nothing_back() -> (
    None
):
    world = Harness()
    for n, key in enumerate("abc", 1):
        world.change(key, n)
    world.batch()
    world.control("drop", 10)
    before = world.progress
    world.look()
    world.progress = before
    world.look()
    assert world.removed == [3, 0]
    world.batch(start=0)
    assert world.living() == set()


def test_other_tables_and_schema_changes_remove_nothing() -> None:
    world = Harness()
    world.change("a", 1)
    world.batch()
    world.control("truncate", 10, table="lines")
    world.control("schema", 0)
    world.look()
    assert world.living() == {"a"}
    assert world.progress.floors == {}
    assert world.progress.control_acked == world.log.reader().end_offsets(CONTROL)


def test_what_cannot_be_understood_of_a_control_topic_stops_the_stage() -> None:
    world = Harness()
    world._write(CONTROL, b"k", b"{", 1)
    with pytest.raises(Terminal, match="nobody knows which rows live"):
        world.look()


def test_a_writer_behind_our_back_is_found_out_and_not_fought_for_ever() -> None:
    world = Harness()
    metadata = b'{"doc_id":"x","topic":"cdc.shop.db.orders","partition":0,"offset":0,"version":1,"deleted":false}'
    line = b'{"index":{"_id":"x","version":99,"version_type":"external"}}\n{"order":{},"metadata":%b}\n' % metadata
    world.index.bulk(NAME, line)
    world.control("truncate", 10)
    with pytest.raises(Terminal, match="Somebody else writes"):
        world.look()


def test_only_change_topics_have_floors() -> None:
    world = Harness()
    floors = Floors(world.index, NAME, MemoryLog().reader(), ManualClock(), world.removed.append)
    assert floors.look(IndexProgress("docs"), world.feed) == IndexProgress("docs")
    assert floors.look(IndexProgress(TOPIC), world.feed) == IndexProgress(TOPIC)
