"""A topic of small documents, written as its assembler would: keys and values in Avro, a version in each header."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from include.index.definition import IndexDefinition
from include.log import topics
from include.log.ports import LogWriter, SchemaRegistry, TopicAdmin
from include.log.resolved import ResolvedRecord, ResolvedWriter
from include.record.codec import Encoder
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.record.version import to_header

KEY = {"type": "record", "name": "Key", "fields": [{"name": "order_id", "type": "long"}]}
VALUE: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "state", "type": ["null", "string"], "default": None},
        {
            "name": "total_price",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}],
            "default": None,
        },
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
METADATA = {
    "cluster_name": "keyword",
    "cluster_type": "keyword",
    "topic": "keyword",
    "partition": "integer",
    "offset": "long",
    "doc_id": "keyword",
    "version": "long",
    "generation": "integer",
    "deleted": "boolean",
    "d0": "long",
    "d1": "long",
    "s0": "integer",
    "s1": "integer",
}
MAPPING: dict[str, Any] = {
    "dynamic": "strict",
    "properties": {
        "order": {
            "properties": {
                "order_id": {"type": "long"},
                "state": {"type": "keyword"},
                "total_price": {"type": "double"},
                # Texts that are no numbers are what this mapping refuses.
                "note": {"type": "integer"},
            }
        },
        "metadata": {
            "properties": {
                name: {"type": kind, **({"index": False} if name in ("d1", "s0", "s1") else {})}
                for name, kind in METADATA.items()
            }
        },
    },
}


def position(number: int) -> SourcePosition:
    """The end of the n-th transaction of a source."""
    return SourcePosition(
        "mariadb", parse_gtid_set(f"0-1-{number}", "mariadb"), BinlogPosition("bin.000001", number), number * 1000
    )


def one_topic(topic: str, application: str = "a", **more: Any) -> IndexDefinition:
    """An index that this topic alone fills, by the short form of a deployment's file."""
    given = {"application": application, "topic": topic, "entity": "order", "mapping": "m.json"}
    return IndexDefinition.model_validate({**given, **more})


class DocumentTopic:
    """The one writer of a topic and its resolved topic."""

    def __init__(
        self, name: str, admin: TopicAdmin, writer: LogWriter, registry: SchemaRegistry, partitions: int = 2
    ) -> None:
        self.name = name
        self.resolved_name = topics.resolved(name)
        admin.ensure(topics.document_spec(name, partitions))
        admin.ensure(topics.document_spec(self.resolved_name, 1))
        self._writer = writer
        self._key = Encoder(registry.register(f"{name}-key", KEY), KEY)
        self._registry = registry
        self._value = Encoder(registry.register(f"{name}-value", VALUE), VALUE)
        self._resolved = ResolvedWriter("shop", None, {})
        self._ends: dict[tuple[str, int], int] = {}
        self._steps = 0
        self.version = 0

    def key(self, order_id: int) -> bytes:
        return self._key({"order_id": order_id})

    def write_as(self, schema: dict[str, Any]) -> None:
        """From now on values have this schema, whatever older ones had."""
        self._value = Encoder(self._registry.register(f"{self.name}-value", schema, "NONE"), schema)

    def put(self, order_id: int, **fields: Any) -> None:
        """A newer state of an order, in a transaction of its own with what else `write` holds."""
        self.write([(order_id, {"state": "completed", "total_price": Decimal("12.30"), **fields})])

    def delete(self, order_id: int) -> None:
        self.write([(order_id, None)])

    def write(self, states: list[tuple[int, dict[str, Any] | None]]) -> None:
        """States in one transaction, each newer than all before; None deletes."""
        self._writer.begin()
        for order_id, fields in states:
            self.version += 1
            value = None if fields is None else self._value({"order_id": order_id, **fields})
            self._writer.append(self.name, self.key(order_id), value, headers=[to_header(self.version)])
        self._commit()

    def spoil(self, order_id: int, value: bytes, *, versioned: bool = True) -> None:
        """Bytes that are no document."""
        self.version += 1
        self._writer.begin()
        headers = [to_header(self.version)] if versioned else []
        self._writer.append(self.name, self.key(order_id), value, headers=headers)
        self._commit()

    def resolve(self) -> ResolvedRecord:
        """Say that all written so far is one more transaction of the source."""
        self._steps += 1
        record, rows = self._resolved.records(
            self._ends, version=self._steps, position=position(self._steps), now_us=self._steps
        )
        self._writer.begin()
        for key, value in rows:
            self._writer.append(self.resolved_name, key, value, headers=[to_header(self._steps)])
        self._writer.commit()
        return record

    def _commit(self) -> None:
        self._ends.update(self._writer.next_offsets())
        self._writer.commit()
