"""What capture would write of given changes: envelopes with versions, tombstones, resolved records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from include.log import topics
from include.log.control import ControlRecord
from include.log.ports import Headers, LogWriter, SchemaRegistry, TopicAdmin, TopicSpec
from include.log.resolved import ResolvedWriter
from include.record.change import Change, Op, SourceBlock
from include.record.codec import Encoder
from include.record.gtid import MariadbGtidSet
from include.record.key import partition_of
from include.record.position import BinlogPosition, SourcePosition
from include.record.schema import TableSchema
from include.record.version import to_header

Row = Mapping[str, Any]
Step = tuple[Op, str, Row | None, Row | None]
"""Operation, table, row before, row after."""


@dataclass(frozen=True)
class Transaction:
    """Records of a source transaction, that are to be written in its turn."""

    number: int
    version: int
    records: Sequence[tuple[str, bytes, bytes | None, Headers, int | None]]


class CapturedChanges:
    """Writes the topics of one source. Each `commit` is one source transaction in one Kafka transaction."""

    def __init__(
        self,
        writer: LogWriter,
        admin: TopicAdmin,
        registry: SchemaRegistry,
        tables: Sequence[TableSchema],
        *,
        source: str = "shop",
        partition_by: Mapping[str, str] | None = None,
        partitions: int = 2,
    ) -> None:
        self.source = source
        self.version = 0
        self.transactions = 0
        self.uncovered: tuple[str, ...] = ()
        self._writer = writer
        self._partitions = partitions
        self._tables = {each.table: each for each in tables}
        self._encoders: dict[tuple[str, str], Encoder] = {}
        self._resolved = ResolvedWriter(source, None, {})
        self._partition_by = partition_by or {}
        for each in tables:
            name = self.topic(each.table)
            admin.ensure(TopicSpec(name, partitions, topics.policy(name)))
            for part, schema in (("key", each.key_avro(source)), ("value", each.envelope_avro(source))):
                schema_id = registry.register(f"{name}-{part}", schema, "NONE")
                self._encoders[each.table, part] = Encoder(schema_id, schema)
        for name in (topics.control(source), topics.source_resolved(source)):
            admin.ensure(TopicSpec(name, 1, topics.policy(name)))

    def topic(self, table: str) -> str:
        return topics.change(self.source, self._tables[table].database, table)

    def commit(self, *steps: Step, control: ControlRecord | None = None) -> int:
        """Write the changes of one transaction; the version of its resolved record."""
        return self.write(self.encoded(*steps, control=control))

    def encoded(self, *steps: Step, control: ControlRecord | None = None) -> Transaction:
        """The next transaction, to be written before any that is encoded later."""
        self.transactions += 1
        records: list[tuple[str, bytes, bytes | None, Headers, int | None]] = []
        for number, (op, table, before, after) in enumerate(steps):
            self.version += 1
            change = self._change(op, table, before, after, number)
            key = self._encoders[table, "key"]({name: change.row[name] for name in self._tables[table].key})
            at = self._partition(table, change.row, key)
            value = self._encoders[table, "value"](change.envelope())
            headers = (to_header(self.version),)
            records.append((self.topic(table), key, value, headers, at))
            if op == "d":
                records.append((self.topic(table), key, None, headers, at))
        if control is not None:
            self.version += 1
            headers = (to_header(self.version),)
            records.append((topics.control(self.source), control.key(), control.value(), headers, None))
        self.version += 1
        return Transaction(self.transactions, self.version, records)

    def size_of(self, table: str, row: Row) -> int:
        """Bytes of a row as its topic has them: its key, and its image without the envelope."""
        encode = self._encoders[table, "value"]
        # The second has the image twice.
        one, two = (len(encode(self._change("u", table, before, row, 0).envelope())) for before in (None, row))
        return len(self._encoders[table, "key"]({name: row[name] for name in self._tables[table].key})) + two - one

    def _change(self, op: Op, table: str, before: Row | None, after: Row | None, number: int) -> Change:
        return Change(
            op=op,
            before=before,
            after=after,
            source=SourceBlock(
                "1",
                self.source,
                self._tables[table].database,
                table,
                1,
                "bin.000001",
                self.transactions,
                number,
                self.transactions * 1_000_000,
            ),
            ts_us=self.transactions * 1_000_000,
        )

    def write(self, transaction: Transaction) -> int:
        """Write it; the version of its resolved record."""
        self._writer.begin()
        for topic, key, value, headers, partition in transaction.records:
            self._writer.append(topic, key, value, headers=headers, partition=partition)
        return self._end(transaction.number, transaction.version)

    def heartbeat(self) -> int:
        """A resolved record when nothing happened; its version."""
        self._writer.begin()
        self.version += 1
        return self._end(self.transactions, self.version)

    def spoil(self, table: str, value: bytes, headers: Sequence[tuple[str, bytes | None]] = ()) -> None:
        """A record that is no change."""
        self._writer.begin()
        self._writer.append(self.topic(table), b"spoilt", value, headers=headers)
        self.version += 1
        self._end(self.transactions, self.version)

    def _partition(self, table: str, row: Row, key: bytes) -> int:
        column = self._partition_by.get(table)
        return partition_of(key if column is None else str(row[column]).encode(), self._partitions)

    def _end(self, number: int, version: int) -> int:
        changed = self._writer.next_offsets()
        position = SourcePosition(
            "mariadb",
            MariadbGtidSet({0: (1, number)}),
            BinlogPosition("bin.000001", number),
            number * 1_000_000,
        )
        _record, out = self._resolved.records(
            changed, version=version, position=position, now_us=version, uncovered=self.uncovered
        )
        for key, value in out:
            headers = (to_header(version),)
            self._writer.append(topics.source_resolved(self.source), key, value, headers=headers)
        self._writer.commit()
        return version
