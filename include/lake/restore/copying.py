"""Writes the records of a restore, exactly once, and the map of their offsets.

For each transaction of one partition:
 1. begin, append the records, and hear which offsets they have
 2. write the map of the transaction, under a name that no other attempt has
 3. commit, and in the same stroke, as offset of the restore's own consumer group in the target, up to which old offset
    the partition is restored
Whoever goes on opens the writer first, which fences and aborts the attempt before; then what is committed says where to
go on, and which objects of the map hold. Nobody else may write to the target: if somebody does, offsets are not those
that are expected, and the transaction is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from include.clock import Clock
from include.errors import LyrebirdError, Terminal, Transient
from include.lake.backfill.planning import LakeStore
from include.lake.backfill.raw_ranges import RawRanges
from include.lake.message import Message
from include.lake.protocol.runner import Runner
from include.lake.restore.manifest import Restore
from include.lake.restore.offset_map import PartName, Totals, committed_parts, part_of, read_part
from include.lake.restore.schema_ids import SchemaIds
from include.log.ports import LogReader, LogWriter, TopicAdmin

__all__ = ["PartitionMap", "RestoreLog", "Tell", "TransactionLimits", "copy"]

_END_S: Final = 60.0
_STEP_S: Final = 0.05

Tell = Callable[[int, int], None]
"""Told how many records of how many, at most, are restored; days and offsets may leave some out."""


@dataclass(frozen=True)
class RestoreLog:
    """The ports of a log; `open_writer` by transactional id."""

    reader: LogReader
    admin: TopicAdmin
    open_writer: Callable[[str], LogWriter]


@dataclass(frozen=True)
class TransactionLimits:
    """Of one transaction: it ends with the record that reaches either."""

    records: int = 20_000
    bytes: int = 16 << 20


@dataclass(frozen=True)
class PartitionMap:
    """A partition that is restored whole: old offsets [first, next) are from `at` to before `until` in the target."""

    parts: tuple[PartName, ...]
    at: int
    until: int
    totals: Totals

    @property
    def first(self) -> int:
        """First old offset that was read."""
        return self.parts[0].first

    @property
    def next(self) -> int:
        """The old offset after the last one that was read."""
        return self.parts[-1].next


def copy(
    bucket: LakeStore,
    kafka: RestoreLog,
    restore: Restore,
    clock: Clock,
    tell: Tell,
    limits: TransactionLimits | None = None,
    ids: SchemaIds | None = None,
) -> dict[int, PartitionMap]:
    """Writes what is not written yet. Called again it goes on.

    Args:
        bucket: the bucket of the lake.
        kafka: the log that has the target.
        restore: its plan, and its target.
        clock: measures how long transactions of others may take to end.
        tell: hears how many records are restored, of how many at most.
        limits: of one transaction; None for the usual ones.
        ids: schema ids as the target's registry has them; None: they stay as they are.

    Returns:
        By partition what stands then: all of it.

    Raises:
        Terminal: somebody else changed the target, it keeps too little, or the backup lacks or cannot give a record.
        Transient: store, log or registry does not answer, or a transaction of the target does not end.
        BackPressure: the store asks to slow down, and the bucket's pause gives up.
    """
    writer = kafka.open_writer(restore.name)
    try:
        return _Copy(bucket, kafka, restore, writer, clock, tell, limits or TransactionLimits(), ids).run()
    finally:
        writer.close()


class _Copy:
    def __init__(
        self,
        bucket: LakeStore,
        kafka: RestoreLog,
        restore: Restore,
        writer: LogWriter,
        clock: Clock,
        tell: Tell,
        limits: TransactionLimits,
        ids: SchemaIds | None,
    ) -> None:
        self._bucket, self._kafka, self._restore, self._writer = bucket, kafka, restore, writer
        self._clock, self._tell, self._limits, self._ids = clock, tell, limits, ids
        self._runner = Runner(bucket.store, bucket.pause)
        self._topic, self._folder = restore.target.name, restore.folder
        self._told: dict[int, int] = {}

    def run(self) -> dict[int, PartitionMap]:
        self._wait_for_ends()
        done = self._kafka.reader.committed(self._restore.name, self._topic)
        ends = self._kafka.reader.end_offsets(self._topic)
        ranges = sorted(self._restore.plan.ranges.items())
        maps = {p: self._partition(p, first, until, done.get(p, first), ends[p]) for p, (first, until) in ranges}
        begins = self._kafka.reader.begin_offsets(self._topic)
        for partition, partition_map in maps.items():
            if partition_map.totals.records and begins[partition] > partition_map.at:
                raise Terminal(
                    "the target does not keep its records",
                    topic=self._topic,
                    partition=partition,
                    begins=begins[partition],
                    restored=partition_map.at,
                    fix="Delete it and restore again: it is made so that it keeps all.",
                )
        return maps

    def _wait_for_ends(self) -> None:
        """Until no transaction is without its end: then the end of a partition is where the next record goes."""
        until_s = self._clock.monotonic_s() + _END_S
        while unended := self._kafka.reader.unended([self._topic]):
            if self._clock.monotonic_s() > until_s:
                raise Transient(
                    "a transaction of the target does not end",
                    fix="Does somebody else write to it? Else try again later.",
                    system="kafka",
                    at=sorted(unended.items())[:3],
                )
            self._clock.sleep(_STEP_S)

    def _partition(self, partition: int, first: int, until: int, done: int, end: int) -> PartitionMap:
        store = self._bucket.store
        parts = self._runner.ask(lambda: committed_parts(store, self._folder, partition, first, done))
        totals, target_offset = Totals(), end
        last = self._runner.ask(lambda: read_part(store, self._folder, parts[-1])) if parts else None
        if last is not None:
            totals = last.totals
        self._check_alone(partition, last.until if last else 0, end)
        self._say(partition, totals)
        for messages, left_out, following in self._batches(partition, done, until):
            name = PartName(partition, parts[-1].next if parts else first, following, target_offset)
            # Before its transaction begins, as a registry may be slow.
            written, rewritten = self._ids.rewritten(messages) if self._ids else (messages, 0)
            totals = totals.plus(_totals(messages, left_out)._replace(rewritten=rewritten))
            self._write(name, written, totals)
            parts.append(name)
            # The transaction's end takes an offset of its own.
            target_offset += len(messages) + 1 if messages else 0
            self._say(partition, totals)
        if not parts:
            raise Terminal("an empty range of a plan", partition=partition, fix="Delete the target; restore it again.")
        final = self._runner.ask(lambda: read_part(store, self._folder, parts[-1]))
        return PartitionMap(tuple(parts), parts[0].at, final.until, totals)

    def _check_alone(self, partition: int, start: int, end: int) -> None:
        """Between what was committed and the end of the target only aborted records may be."""
        begin = self._kafka.reader.begin_offsets(self._topic)[partition]
        for record in self._kafka.reader.read(self._topic, partition, max(start, begin), end):
            raise _not_alone(self._topic, partition, record.offset)

    def _batches(self, partition: int, start: int, until: int) -> Iterator[tuple[list[Message], int, int]]:
        """(messages of a transaction, how many were left out before its last, the old offset after it)."""
        if start >= until:
            return
        plan = self._restore.plan
        span = plan.asked.span_ms
        ranges = RawRanges(self._bucket.store, plan.source, partition, start, until, self._bucket.pause)
        messages: list[Message] = []
        size = left_out = 0
        for batch in ranges.batches(plan.source.topic, partition, start, until):
            for message in batch.messages:
                if span is not None and not (_dated(message) and span[0] <= message.timestamp_ms < span[1]):
                    left_out += 1
                    continue
                messages.append(message)
                size += _size(message)
                if len(messages) >= self._limits.records or size >= self._limits.bytes:
                    yield messages, left_out, message.offset + 1
                    start, messages, size, left_out = message.offset + 1, [], 0, 0
        if start < until:
            yield messages, left_out, until

    def _write(self, name: PartName, messages: list[Message], totals: Totals) -> None:
        topic, partition, writer = self._topic, name.partition, self._writer
        part = part_of(name, messages, totals)
        writer.begin()
        try:
            # 1. The records.
            for message in messages:
                if message.headers:
                    _check_names(message, topic, partition)
                writer.append(
                    topic,
                    message.key,
                    message.value,
                    headers=message.headers,
                    partition=partition,
                    # Kafka's client takes 0 for "now"; -1, which is none, it writes as it is.
                    timestamp_ms=message.timestamp_ms or None,
                )
            after = writer.next_offsets().get((topic, partition), part.until)
            if after != part.until:
                raise _not_alone(topic, partition, after - len(messages))
            # 2. The map.
            self._runner.ask(lambda: self._bucket.store.put(name.key(self._folder), part.to_bytes()))
            # 3. Both hold.
            writer.commit(self._restore.name, {(topic, partition): name.next})
        except LyrebirdError:
            with suppress(LyrebirdError):
                writer.abort()
            raise

    def _say(self, partition: int, totals: Totals) -> None:
        self._told[partition] = totals.records + totals.left_out
        self._tell(sum(self._told.values()), self._restore.plan.records)


def _check_names(message: Message, topic: str, partition: int) -> None:
    try:
        "".join(name for name, _ in message.headers).encode()
    except UnicodeEncodeError:
        # It would end this process.
        raise Terminal(
            "Kafka's client cannot write a header name that is not UTF-8",
            topic=topic,
            partition=partition,
            offset=message.offset,
            fix=f"Restore what lies before it, and behind it, into a topic each: --offsets {partition}:FROM-UNTIL.",
        ) from None


def _dated(message: Message) -> bool:
    return message.timestamp_type != 0 and message.timestamp_ms != -1


def _totals(messages: list[Message], left_out: int) -> Totals:
    redated = sum(message.timestamp_ms == 0 for message in messages)
    by_broker = sum(message.timestamp_type == 2 for message in messages)
    return Totals(len(messages), sum(map(_size, messages)), redated, by_broker, left_out)


def _size(message: Message) -> int:
    return len(message.key or b"") + len(message.value or b"")


def _not_alone(topic: str, partition: int, offset: int) -> Terminal:
    return Terminal(
        "somebody else writes to the target of a restore",
        topic=topic,
        partition=partition,
        offset=offset,
        fix="Stop that, delete the topic and restore it again.",
    )
