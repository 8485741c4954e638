"""Definitions of the log's ports. `log.kafka.log` and `log.memory` both pass `tests/contract/test_log.py`.

All readers read committed records only: aborted records, transaction markers and compacted records are gaps, and
the end of a partition is its last stable offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from include.errors import InvalidRecord
from include.record.position import LogOffset

__all__ = [
    "Compatibility",
    "Headers",
    "LogReader",
    "LogWriter",
    "Record",
    "SchemaLanguage",
    "SchemaRegistry",
    "TopicAdmin",
    "TopicInfo",
    "TopicSpec",
    "UnknownSchema",
    "Versioned",
    "all_of",
]

Headers = Sequence[tuple[str, bytes | None]]
Compatibility = Literal["NONE", "BACKWARD"]
SchemaLanguage = Literal["AVRO", "JSON"]
"""AVRO: Avro's. JSON: JSON Schema's, whose values are JSON behind the five bytes of the wire format."""
_URL_SAFE: Final = str.maketrans("+/", "-_")


@dataclass(frozen=True, slots=True)
class Record:
    """One committed record. `value` None is a tombstone, unlike b''."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = 0

    @property
    def next_offset(self) -> int:
        """The offset to commit once this record is dealt with."""
        return self.offset + 1

    @property
    def at(self) -> LogOffset:
        """Its coordinates."""
        return LogOffset(self.topic, self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it should be; `config` holds Kafka's own names (`cleanup.policy`, …)."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as it is; `topic_id` is another one when a topic of that name was made anew."""

    name: str
    topic_id: str
    partitions: int

    @property
    def named_id(self) -> str:
        """`topic_id` for names of objects and files, as Kafka's own tools write it: librdkafka's has + and /."""
        return self.topic_id.translate(_URL_SAFE)


class LogReader(Protocol):
    """Reads ranges of offsets. Every call may block and raises `Transient` when the log does not answer."""

    def begin_offsets(self, topic: str) -> dict[int, int]:
        """First offset still held, of each partition; `Terminal` for a topic that does not exist."""

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Last stable offset of each partition: a later read of committed records ends before it."""

    def unended(self, topics: Collection[str]) -> dict[tuple[str, int], int]:
        """(topic, partition) → last stable offset, where records of a transaction without an end lie at and after it.

        Of transactions that are under way; and of those that Kafka says are over while it has not told the partition.
        """

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        """The committed records with start <= offset < end, in order; ends when all up to `end` are read."""

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Offsets that a writer committed for `group`; partitions without one are left out."""

    def close(self) -> None:
        """Give up connections; may be called twice."""


Versioned = tuple[str, bytes | None, bytes | None, int, int | None]
"""(topic, key, value, version, partition) of a record; `partition` None: by its key."""


class LogWriter(Protocol):
    """The one writer of its topics, known by a fixed transactional id.

    Opening one fences every older writer of that id and aborts its open transaction; the fenced one gets `Fenced`
    from `next_offsets` or `commit` of a transaction with records, if not before. Between `begin` and `commit`
    nothing is visible to readers. After `Transient` from any call the transaction has to be aborted and done again
    from its start.
    """

    def begin(self) -> None:
        """Start a transaction; `Terminal` when one is open."""

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
        """Add a record to the transaction. May block when full.

        Args:
            topic: its name.
            key: None for a record without one, which needs `partition`.
            value: None for a tombstone.
            headers: (name, value) of each.
            partition: number of the partition; None: murmur2 of `key` chooses it.
            timestamp_ms: epoch milliseconds; None for the present.

        Raises:
            Terminal: no transaction is open, the record has neither key nor partition, or the log refuses it.
            Fenced: another writer of that id was opened since.
            Transient: the log does not answer.
        """

    def append_all(self, records: Sequence[Versioned]) -> None:
        """`append` each, with the header that says its version; faster. After an error some of them may be added."""

    def next_offsets(self) -> dict[tuple[str, int], int]:
        """Flush; for each (topic, partition) appended to in this transaction, the offset after its last record."""

    def commit(self, group: str | None = None, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
        """Make the transaction visible, with input `offsets` committed for `group` in the same stroke.

        When it returns the transaction is decided; readers see it moments later. A new writer of the same id is
        open only when all that the older ones committed can be seen.
        """

    def abort(self) -> None:
        """Drop the open transaction; harmless without one."""

    def close(self) -> None:
        """Abort what is open and give up the connection; may be called twice."""


class TopicAdmin(Protocol):
    """Makes and describes topics."""

    def ensure(self, spec: TopicSpec) -> TopicInfo:
        """Create the topic unless it exists; `Terminal` with advice when it has another number of partitions."""

    def ensure_all(self, specs: Iterable[TopicSpec]) -> None:
        """`ensure` for each, asked for together: of thousands of topics, too."""

    def describe(self, topic: str) -> TopicInfo | None:
        """The topic, or None when there is none of that name."""

    def describe_all(self, topics: Collection[str]) -> dict[str, TopicInfo]:
        """Those of `topics` that exist, asked for together."""

    def settings(self, topic: str) -> Mapping[str, str] | None:
        """A topic's configuration, own or by default; None where that may not be seen; `Terminal` without a topic."""

    def largest(self, topic: str) -> int | None:
        """Its `max.message.bytes`, own or by default; None where that may not be seen; `Terminal` without a topic."""

    def deletions_kept_ms(self, topic: str) -> int | None:
        """The least time, in milliseconds, that a deletion stays readable in a compacted topic.

        None where records do not go by their key, or where that may not be seen; `Terminal` without a topic.
        """

    def names(self) -> list[str]:
        """All topics that are not internal to Kafka, sorted."""

    def delete(self, topic: str) -> None:
        """Delete it and wait until it is gone; harmless when there is none."""


class UnknownSchema(InvalidRecord):
    """Nobody registered a schema of this id, as far as the registry knows; details name `schema_id`."""


class SchemaRegistry(Protocol):
    """Schemas by id, subjects as `<topic>-key` and `<topic>-value`."""

    def register(
        self,
        subject: str,
        schema: Mapping[str, Any],
        compatibility: Compatibility | None = "BACKWARD",
        language: SchemaLanguage = "AVRO",
    ) -> int:
        """Id of the schema under `subject`, the same at every call; `Terminal` when the level refuses it.

        With `compatibility` None the subject's level, or the registry's own, stays as it is.
        """

    def schema(self, schema_id: int) -> dict[str, Any]:
        """The schema of an id; `UnknownSchema` when nobody registered it, `InvalidRecord` in a language not read."""

    def language(self, schema_id: int) -> SchemaLanguage:
        """The language of the schema of an id; raises as `schema`."""

    def newest(self, subject: str) -> int | None:
        """Id of the schema that was registered last under `subject`; None when there is none."""

    def subjects(self, schema_id: int) -> tuple[str, ...]:
        """Subjects that have the schema of an id among their versions, sorted; `UnknownSchema` as in `schema`.

        Asked for anew each time, as a subject may take an old schema or be deleted.
        """


def all_of(reader: LogReader, topic: str) -> list[Record]:
    """Every committed record of a small topic."""
    begins, ends = reader.begin_offsets(topic), reader.end_offsets(topic)
    return [record for p, end in sorted(ends.items()) for record in reader.read(topic, p, begins[p], end)]
