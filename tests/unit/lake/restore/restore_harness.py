"""A backup in a bucket and a log in memory, and restores of it, cut off wherever a test likes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from include.lake.backfill.planning import LakeStore
from include.lake.protocol.chain_key import TopicKey
from include.lake.restore.copying import RestoreLog, TransactionLimits, copy
from include.lake.restore.groups import committed_of, translate
from include.lake.restore.manifest import begin
from include.lake.restore.plan import RestoreAsked
from include.lake.restore.planning import make_plan
from include.lake.restore.result import RestoreResult
from include.lake.restore.schema_ids import SchemaIds
from include.log.ports import LogWriter, Record, SchemaRegistry
from include.store.object_store import ObjectStore
from tests.support.lake.harness import LakeHarness

__all__ = ["NOON_MS", "Died", "RestoreHarness"]

NOON_MS = 1_714_564_800_000  # 2024-05-01T12:00Z
DAY_MS = 86_400_000
HEADERS = (("trace", b"1"), ("trace", None), ("", b""))


class Died(Exception):
    """The process is gone."""


class RestoreHarness(LakeHarness):
    """`events` has records with every shape, aborted ones among them."""

    def __init__(self, folder: Path, partitions: int = 2) -> None:
        super().__init__(folder)
        self.make("events", partitions)
        self.numbers = 0

    def send(self, count: int, partition: int = 0, day: int = 0, commit: bool = True) -> None:
        writer = self.memory.writer("w")
        writer.begin()
        for _ in range(count):
            self.numbers += 1
            number = self.numbers
            writer.append(
                "events",
                b"k%d" % (number % 5) if number % 3 else None,
                b"v%d" % number if number % 4 else None if number % 8 else b"",
                headers=HEADERS[: number % 4],
                partition=partition,
                timestamp_ms=NOON_MS + day * DAY_MS + number,
            )
        if commit:
            writer.commit()
        else:
            writer.abort()

    def flush(self) -> None:
        self.clock.advance(6)
        for _ in range(6):
            self.driver.step("flush")
            self.clock.advance(0.5)
        assert not [each.error for each in self.outcomes if each.error]

    @property
    def source(self) -> TopicKey:
        info = self.memory.admin().describe("events")
        assert info is not None
        return TopicKey("raw", "events", info.named_id)

    def records(self, topic: str, partition: int) -> list[Record]:
        reader = self.memory.reader()
        begin_at, end = reader.begin_offsets(topic)[partition], reader.end_offsets(topic)[partition]
        return list(reader.read(topic, partition, begin_at, end))

    def content(self, topic: str, partition: int) -> list[tuple[Any, ...]]:
        return [(r.key, r.value, tuple(r.headers), r.timestamp_ms) for r in self.records(topic, partition)]

    def kafka(self, opened: Callable[[LogWriter], LogWriter] = lambda writer: writer) -> RestoreLog:
        return RestoreLog(
            self.memory.reader(),
            self.memory.admin(),
            lambda transactional_id: opened(self.memory.writer(transactional_id)),
        )

    def restore(
        self,
        target: str = "copy",
        *,
        source: TopicKey | None = None,
        kafka: RestoreLog | None = None,
        store: ObjectStore | None = None,
        most: int = 7,
        partitions: int | None = None,
        groups: tuple[str, ...] = (),
        registry: SchemaRegistry | None = None,
        **asked: Any,
    ) -> RestoreResult:
        """Begin it or go on with it, and carry it out, in transactions of at most so many records."""
        bucket, kafka = LakeStore(store or self.store), kafka or self.kafka()
        source = source or self.source
        plan = make_plan(bucket, kafka.admin, source, RestoreAsked("events", target, **asked), partitions)
        committed = committed_of(kafka, source, groups)
        restore = begin(bucket, kafka.reader, kafka.admin, plan)
        ids = SchemaIds(registry, self.store, source.prefix, target) if registry else None
        maps = copy(
            bucket, kafka, restore, self.clock, lambda _done, _total: None, TransactionLimits(most, 1 << 20), ids
        )
        groups_ = translate(kafka, bucket, restore, maps, committed)
        return RestoreResult(restore, maps, groups_, ids.replaced if ids else ())

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        writer = self.memory.writer("consumer")
        writer.begin()
        writer.commit(group, {("events", partition): at for partition, at in offsets.items()})
