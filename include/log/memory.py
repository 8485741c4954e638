"""The log in memory: the double of `log.kafka.log`, with its offsets, gaps, fencing and last stable offsets.

As in Kafka, a transaction's end takes an offset of its own in each partition that it wrote to, aborted records
leave gaps, and the end of a partition is the first offset of the oldest open transaction. Safe between threads.
"""

from __future__ import annotations

import threading
import uuid
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from include.clock import Clock, ManualClock
from include.errors import Fenced, Terminal, Transient
from include.log.ports import Headers, LogReader, LogWriter, Record, TopicAdmin, TopicInfo, TopicSpec, Versioned
from include.log.registry.memory import MemoryRegistry
from include.record.key import partition_of
from include.record.version import to_header

__all__ = ["MemoryLog", "MemoryRegistry"]

# Kafka's own.
_DEFAULTS: Final = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1048588",
    "min.compaction.lag.ms": "0",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
}


@dataclass(eq=False)
class _Partition:
    # None: a transaction's end, an aborted record, or one that compaction took.
    slots: list[Record | None] = field(default_factory=list)
    begin: int = 0
    open: dict[_Writer, int] = field(default_factory=dict)
    # By transactional id: offsets of records whose transaction's end never came.
    unended: dict[str, list[int]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return min([*self.open.values(), *(offsets[0] for offsets in self.unended.values())], default=len(self.slots))

    def finish(self, transactional_id: str, *, commit: bool) -> None:
        for offset in self.unended.pop(transactional_id, []):
            if not commit:
                self.slots[offset] = None
        self.slots.append(None)


@dataclass
class _Topic:
    id: str
    config: Mapping[str, str]
    partitions: list[_Partition]


class _Held:
    """What the ports of one log share."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.topics: dict[str, _Topic] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.writers: dict[str, _Writer] = {}
        self.forgotten: set[tuple[str, int]] = set()

    def topic(self, name: str) -> _Topic:
        if name not in self.topics:
            raise Terminal("topic does not exist", topic=name, fix="Does what writes it run? See `lyrebird status`.")
        return self.topics[name]

    def partition(self, topic: str, partition: int) -> _Partition:
        held = self.topic(topic).partitions
        if not 0 <= partition < len(held):
            raise Terminal("partition does not exist", topic=topic, partition=partition, partitions=len(held))
        return held[partition]


class MemoryLog:
    """Topics, committed offsets and writers' epochs; hand out ports by `reader`, `writer`, `admin`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._held = _Held(clock or ManualClock())

    def reader(self) -> LogReader:
        """A reader of this log."""
        return _Reader(self._held)

    def writer(self, transactional_id: str) -> LogWriter:
        """The writer of that id; fences the one before."""
        with self._held.lock:
            before = self._held.writers.get(transactional_id)
            if before is not None:
                before.fence()
            self._held.writers[transactional_id] = writer = _Writer(self._held, transactional_id)
            return writer

    def admin(self) -> TopicAdmin:
        """Makes and describes topics of this log."""
        return _Admin(self._held)

    def forget(self, *places: tuple[str, int]) -> None:
        """Keep the next transaction's end from these partitions, as Kafka may where a coordinator starts again."""
        with self._held.lock:
            self._held.forgotten = set(places)

    def expire(self, group: str) -> None:
        """Delete a group's committed offsets, as Kafka does `offsets.retention.minutes` after the last commit."""
        with self._held.lock:
            for key in [key for key in self._held.committed if key[0] == group]:
                del self._held.committed[key]

    def finish(self, transactional_id: str, places: Iterable[tuple[str, int]], *, commit: bool) -> None:
        """Fence the writer of that id, and write a transaction's end to these partitions."""
        self.writer(transactional_id).close()
        with self._held.lock:
            for topic, partition in places:
                self._held.partition(topic, partition).finish(transactional_id, commit=commit)

    def compact(self, topic: str) -> None:
        """Keep the newest committed record of each key, as Kafka's cleaner may at any time (tombstones stay)."""
        with self._held.lock:
            for partition in self._held.topic(topic).partitions:
                last = {r.key: r.offset for r in partition.slots[: partition.end] if r is not None}
                for offset, record in enumerate(partition.slots[: partition.end]):
                    if record is not None and last[record.key] != offset:
                        partition.slots[offset] = None

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions until there are so many, as `kafka-topics --alter` does."""
        with self._held.lock:
            there = self._held.topic(topic).partitions
            there += [_Partition() for _ in range(partitions - len(there))]

    def configure(self, topic: str, config: Mapping[str, str]) -> None:
        """Set some of a topic's settings, as `kafka-configs --alter` does."""
        with self._held.lock:
            held = self._held.topic(topic)
            held.config = {**held.config, **config}

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Drop records below `before`, as retention does."""
        with self._held.lock:
            held = self._held.partition(topic, partition)
            held.begin = max(held.begin, min(before, held.end))


class _Reader:
    def __init__(self, log: _Held) -> None:
        self._log = log

    def begin_offsets(self, topic: str) -> dict[int, int]:
        with self._log.lock:
            return {p: held.begin for p, held in enumerate(self._log.topic(topic).partitions)}

    def end_offsets(self, topic: str) -> dict[int, int]:
        with self._log.lock:
            return {p: held.end for p, held in enumerate(self._log.topic(topic).partitions)}

    def unended(self, topics: Collection[str]) -> dict[tuple[str, int], int]:
        with self._log.lock:
            there = [topic for topic in topics if topic in self._log.topics]
            found = {(topic, p): held for topic in there for p, held in enumerate(self._log.topic(topic).partitions)}
            return {place: held.end for place, held in found.items() if held.open or held.unended}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        if start >= end:
            return
        with self._log.lock:
            held = self._log.partition(topic, partition)
            if start < held.begin or start > len(held.slots):
                raise Terminal(
                    "the log does not hold this offset (removed by retention, or the topic was made anew)",
                    topic=topic,
                    partition=partition,
                    offset=start,
                    fix="Start again from an offset that it holds, or rebuild.",
                )
            stable = held.end
            found = [r for r in held.slots[start : min(end, stable)] if r is not None]
        yield from found
        if end > stable:
            raise Transient(
                "the log does not hold this range yet", system="memory", topic=topic, partition=partition, end=end
            )

    def committed(self, group: str, topic: str) -> dict[int, int]:
        with self._log.lock:
            self._log.topic(topic)
            return {p: at for (g, t, p), at in self._log.committed.items() if (g, t) == (group, topic)}

    def close(self) -> None:
        pass


class _Writer:
    def __init__(self, log: _Held, transactional_id: str) -> None:
        self._log = log
        self._id = transactional_id
        self._fenced = False
        self._open = False
        self._appended: list[tuple[Record, _Partition]] = []

    def begin(self) -> None:
        if self._open:
            raise Terminal("a transaction cannot begin here", transactional_id=self._id, state="open")
        self._open, self._appended = True, []

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        self._need_open()
        with self._log.lock:
            self._check()
            stored = self._log.topic(topic)
            if key is None and partition is None:
                raise Terminal("a record without a key needs a partition", topic=topic, transactional_id=self._id)
            if key is None and "compact" in stored.config.get("cleanup.policy", ""):
                raise Terminal("a compacted topic refuses a record without a key", topic=topic)
            number = (
                partition_of(key, len(stored.partitions)) if partition is None and key is not None else partition or 0
            )
            held = self._log.partition(topic, number)
            offset = len(held.slots)
            held.open.setdefault(self, offset)
            stamp = self._log.clock.now_us() // 1000 if timestamp_ms is None else timestamp_ms
            record = Record(topic, number, offset, key, value, tuple(headers), stamp)
            held.slots.append(record)
            self._appended.append((record, held))

    def append_all(self, records: Sequence[Versioned]) -> None:
        for topic, key, value, version, partition in records:
            self.append(topic, key, value, headers=(to_header(version),), partition=partition)

    def next_offsets(self) -> dict[tuple[str, int], int]:
        self._need_open()
        with self._log.lock:
            self._check()
            return {(record.topic, record.partition): record.next_offset for record, _held in self._appended}

    def commit(self, group: str | None = None, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
        self._need_open()
        with self._log.lock:
            self._check()
            if group is not None:
                for (topic, partition), at in (offsets or {}).items():
                    self._log.partition(topic, partition)
                    self._log.committed[group, topic, partition] = at
            self._end(keep=True)

    def abort(self) -> None:
        with self._log.lock:
            if self._open:
                self._check()
                self._end(keep=False)

    def close(self) -> None:
        with self._log.lock:
            if self._open and not self._fenced:
                self._end(keep=False)
            self._open = False

    def fence(self) -> None:
        """A newer writer of this id has come: its predecessor's transaction is aborted."""
        was_open = self._open
        self._end(keep=False)
        self._open, self._fenced = was_open, True

    def _end(self, *, keep: bool) -> None:
        forgotten = set[tuple[str, int]]()
        if self._appended:
            forgotten, self._log.forgotten = self._log.forgotten, forgotten
        for record, held in self._appended:
            if (record.topic, record.partition) in forgotten:
                held.unended.setdefault(self._id, []).append(record.offset)
                held.open.pop(self, None)
            elif not keep:
                held.slots[record.offset] = None
        for _record, held in self._appended:
            if held.open.pop(self, None) is not None:
                held.finish(self._id, commit=keep)
        self._open, self._appended = False, []

    def _need_open(self) -> None:
        if not self._open:
            raise Terminal("no transaction is open", transactional_id=self._id)

    def _check(self) -> None:
        if self._fenced:
            raise Fenced("another process has taken over", transactional_id=self._id, fix="This one ends.")


class _Admin:
    def __init__(self, log: _Held) -> None:
        self._log = log

    def ensure(self, spec: TopicSpec) -> TopicInfo:
        with self._log.lock:
            if spec.name not in self._log.topics:
                partitions = [_Partition() for _ in range(spec.partitions)]
                self._log.topics[spec.name] = _Topic(_new_id(), dict(spec.config), partitions)
            info = self.describe(spec.name)
        if info is None or info.partitions != spec.partitions:
            raise Terminal(
                "topic has another number of partitions, so keys would move",
                topic=spec.name,
                has=info and info.partitions,
                declared=spec.partitions,
                fix="Declare the number that it was made with. If the topic itself has grown, make it anew.",
            )
        return info

    def ensure_all(self, specs: Iterable[TopicSpec]) -> None:
        for spec in specs:
            self.ensure(spec)

    def describe(self, topic: str) -> TopicInfo | None:
        with self._log.lock:
            found = self._log.topics.get(topic)
            return TopicInfo(topic, found.id, len(found.partitions)) if found else None

    def describe_all(self, topics: Collection[str]) -> dict[str, TopicInfo]:
        return {name: info for name in topics if (info := self.describe(name)) is not None}

    def settings(self, topic: str) -> dict[str, str]:
        with self._log.lock:
            return {**_DEFAULTS, **self._log.topic(topic).config}

    def largest(self, topic: str) -> int | None:
        return int(self.settings(topic)["max.message.bytes"])

    def deletions_kept_ms(self, topic: str) -> int | None:
        settings = self.settings(topic)
        compacts = "compact" in settings["cleanup.policy"].split(",")
        return int(settings["delete.retention.ms"]) if compacts else None

    def names(self) -> list[str]:
        with self._log.lock:
            return sorted(self._log.topics)

    def delete(self, topic: str) -> None:
        with self._log.lock:
            self._log.topics.pop(topic, None)
            for key in [k for k in self._log.committed if k[1] == topic]:
                del self._log.committed[key]


def _new_id() -> str:
    """As librdkafka writes ids of topics; this one has both letters that no file's name may have."""
    return f"+/{b64encode(uuid.uuid4().bytes).decode()[2:22]}"
