"""Row images → records: Debezium's envelope around Avro bytes that are already made (`shape.EncodedImage`).

A topic is partitioned by its key as the Java client does it, or, where columns are declared for the table, by
murmur2 over those columns' values, each as its bare Avro encoding (no wire header, no union), joined in the declared
order: registry ids have no part in it, so it is the same on every installation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from include.errors import Terminal
from include.log.ports import TopicInfo, TopicSpec
from include.log.topics import LARGEST_RECORD, LARGEST_STORED, RECORD_HEADS, change, document_spec
from include.record.change import Op
from include.record.codec import frame
from include.record.key import partition_of
from include.record.schema import TableSchema
from include.source.definition import SourceDefinition
from include.source.ports import CaptureLog
from include.source.rows.avro import NULL, long, long_piece, sized
from include.source.rows.compiled import snapshot_maker, stamp_maker
from include.source.rows.shape import EncodedImage

__all__ = ["Parts", "Stamp", "TableEncoder", "TableEncoders"]

_PRODUCT: Final = "lyrebird-0.2"
_PRESENT: Final = b"\x02"
_OPS: Final[dict[str, bytes]] = {op: sized(op.encode()) for op in "cudr"}
_FIRST: Final = long(0)
_compiled: Final = stamp_maker()


def _text(value: str | None) -> bytes:
    return NULL if value is None else _PRESENT + sized(value.encode())


def _times(us: int) -> bytes:
    """Nullable milliseconds, microseconds, nanoseconds."""
    return long_piece(us // 1000) + long_piece(us) + long_piece(us * 1000)


class Stamp:
    """The parts that the envelopes of one source transaction share: source block and times, as bytes.

    Most of its arguments are the fields of `record.change.SourceBlock` that do not depend on the row.

    Args:
        server_id: of the server that the transaction was made on.
        file: binlog file.
        pos: place in that file.
        commit_us: when the transaction was committed, µs UTC.
        made_us: when capture made the records, µs UTC.
        gtid: the transaction's name; None: its changes name no transaction.
        snapshot: how rows of a snapshot are marked; None for those of the binlog.
        thread: id of the connection that made it, None where the server does not log it.
    """

    def __init__(
        self,
        *,
        server_id: int,
        file: str,
        pos: int,
        commit_us: int,
        made_us: int,
        gtid: str | None = None,
        snapshot: str | None = None,
        thread: int | None = None,
    ) -> None:
        found = _compiled(server_id, file, pos, commit_us, made_us, gtid, snapshot, thread)
        self.times, self.place, self.thread, self.made, self.transaction = found or (
            long(commit_us // 1000) + long_piece(commit_us) + long_piece(commit_us * 1000) + _text(snapshot),
            long(server_id) + _text(gtid) + sized(file.encode()) + long(pos),
            NULL if thread is None else long_piece(thread),
            _times(made_us),
            None if gtid is None else _PRESENT + sized(gtid.encode()),
        )


Parts = tuple[bytes, bytes, bytes, bytes | None]
"""Pieces of an envelope behind its images: up to `row`; thread and query; when it was made; the transaction's id."""


class TableEncoder:
    """Encodes rows of one table; the partition is a pure function of an image and the topic's partitions."""

    most = 1_000_000
    """Bytes of the largest record that its topic is known to take; Kafka's own limit is a little more.

    A key's columns are in the value too: a value of half as much is within it.
    """

    def __init__(self, source: str, schema: TableSchema, key_id: int, value_id: int, partitions: int) -> None:
        self.schema = schema
        self.key_id = key_id
        self.topic = change(source, schema.database, schema.table)
        self.partitions = partitions
        self.key_head = frame(key_id, b"")
        self.value_head = frame(value_id, b"")
        self._who = sized(_PRODUCT.encode()) + sized(b"mysql") + sized(source.encode())
        self._table = sized(schema.database.encode()) + _text(schema.table)
        self._last: tuple[Stamp, bytes] | None = None
        self._snapshot = snapshot_maker(self.key_head, self.value_head, partitions)

    @property
    def block(self) -> tuple[bytes, bytes]:
        """The bytes of its rows' source blocks before their times, and behind them before their place."""
        return self._who, self._table

    def key(self, image: EncodedImage) -> bytes:
        """The record's key: the same bytes for equal key values, for ever."""
        return self.key_head + image.key

    def moved(self, before: EncodedImage, after: EncodedImage) -> bool:
        """Whether an update makes the row's records go elsewhere: another key or another partition's columns."""
        return before.key != after.key or before.by != after.by

    def partition(self, image: EncodedImage) -> int:
        """The record's partition."""
        return partition_of(self.key_head + image.key if image.by is None else image.by, self.partitions)

    def value(
        self,
        op: Op,
        before: EncodedImage | None,
        after: EncodedImage | None,
        stamp: Stamp,
        row: int = 0,
        of_table: int = 0,
        query: str | None = None,
    ) -> bytes:
        """The envelope of a row's change: the record's value.

        Args:
            op: what happened to the row.
            before: its older image, None without one.
            after: its newer image, None without one.
            stamp: of the source transaction.
            row: the row's number in the source transaction, from 0.
            of_table: its number among the transaction's rows of this table, from 1.
            query: the statement's text, None where it is not logged or does not leave.
        """
        middle, asked, made, transaction = self.parts(stamp, query)
        return b"".join(
            (
                self.value_head,
                NULL if before is None else _PRESENT + before.row,
                NULL if after is None else _PRESENT + after.row,
                middle,
                long(row),
                asked,
                _OPS[op],
                made,
                NULL if transaction is None else transaction + long(row + 1) + long(of_table),
            )
        )

    def snapshot(self, images: list[EncodedImage], stamp: Stamp) -> list[tuple[bytes, int, bytes]]:
        """(key, partition, value) of rows that a snapshot read: of each what `key`, `partition` and `value` give."""
        middle, asked, made, transaction = self.parts(stamp)
        last = NULL if transaction is None else transaction + long(1) + _FIRST
        head, tail = self.value_head + NULL + _PRESENT, middle + _FIRST + asked + _OPS["r"] + made + last
        if self._snapshot is not None:
            return self._snapshot(images, head, tail)
        return [(self.key(image), self.partition(image), head + image.row + tail) for image in images]

    def parts(self, stamp: Stamp, query: str | None = None) -> Parts:
        """The parts that the envelopes of this table's rows of one transaction share."""
        if self._last is None or self._last[0] is not stamp:
            self._last = stamp, self._who + stamp.times + self._table + stamp.place
        return self._last[1], stamp.thread + _text(query), stamp.made, stamp.transaction


class TableEncoders:
    """Makes and caches encoders; the first need of a table makes its topic and registers its schemas.

    `known_key_id` is what the last run knew: a table whose key columns changed since would mix two kinds of keys in one
    topic, so it is refused. Registering and making topics may block, raise `Transient`, and be done again.
    """

    def __init__(self, name: str, source: SourceDefinition, log: CaptureLog) -> None:
        self._name = name
        self._source = source
        self._log = log
        self._known: dict[tuple[str, str], TableEncoder] = {}

    def prepare(self, tables: Iterable[tuple[str, str]]) -> None:
        """Make the topics of tables that are captured from now on: readers may come before the first row."""
        self._log.ensure_all(
            document_spec(change(self._name, *table), self._source.partitions_of(*table)) for table in tables
        )

    def topics(self, tables: Iterable[str]) -> dict[str, TopicInfo]:
        """The topics that exist, by the full name of their table."""
        names = {change(self._name, *table.split(".", 1)): table for table in tables}
        return {names[topic]: info for topic, info in self._log.topics(names).items()}

    def of(self, schema: TableSchema, known_key_id: int = 0) -> TableEncoder:
        """The encoder of a table as `schema` describes it; `known_key_id` 0 = a table that is new."""
        cached = self._known.get((schema.full_name, schema.fingerprint))
        if cached is not None and known_key_id in (0, cached.key_id):
            return cached
        topic = self._topic(schema)
        key_id = self.key_id(schema)
        if known_key_id and key_id != known_key_id:
            raise Terminal(
                "the key columns of a table changed, and its topic holds keys of the old ones",
                table=schema.full_name,
                topic=topic,
                fix="Put the key back, or have the topic made anew and all rows read into it: "
                "`lyrebird capture resume-table`. Its readers then begin anew.",
            )
        value_id = self._log.register(f"{topic}-value", schema.envelope_avro(self._name))
        made = self._log.ensure(self._spec(schema))
        encoder = TableEncoder(self._name, schema, key_id, value_id, made.partitions)
        self._known[schema.full_name, schema.fingerprint] = encoder
        return encoder

    def require_room(self, encoder: TableEncoder, size: int) -> None:
        """Raises `Terminal` for a record of `size` bytes that the encoder's topic does not take."""
        if size <= encoder.most:
            return
        # Asked for again each time: somebody may have raised it.
        encoder.most = self._log.largest(encoder.topic)
        if size > encoder.most:
            # Topics that were made before, or by others, may take less than ours.
            command = f"kafka-configs --alter --entity-type topics --entity-name {encoder.topic}"
            raised = f"Raise what it takes, `{command} --add-config max.message.bytes={LARGEST_STORED}`, or ignore"
            ignore = raised if size <= LARGEST_RECORD - RECORD_HEADS else "Ignore"
            raise Terminal(
                "a row makes a record that is larger than its topic takes",
                table=encoder.schema.full_name,
                bytes=size,
                most=encoder.most,
                fix=f"{ignore} its large column in `filter`; then `lyrebird capture resume-table`.",
            )

    def key_id(self, schema: TableSchema) -> int:
        """The id of the table's key schema, which is registered for that."""
        return self._log.register(f"{self._topic(schema)}-key", schema.key_avro(self._name))

    def renew(self, schema: TableSchema) -> str:
        """Delete the table's topic and make it again, empty; its name. Only while nothing is written to the log."""
        self._known = {known: encoder for known, encoder in self._known.items() if known[0] != schema.full_name}
        self._log.remake(self._spec(schema))
        return self._topic(schema)

    def _topic(self, schema: TableSchema) -> str:
        return change(self._name, schema.database, schema.table)

    def _spec(self, schema: TableSchema) -> TopicSpec:
        return document_spec(self._topic(schema), self._source.partitions_of(schema.database, schema.table))
