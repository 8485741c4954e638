"""Changes → bytes: one encoder for each description of a table, its topic made and its schemas registered.

A topic is partitioned by its key as the Java client does it, or, where columns are declared for the table, by
murmur2 over those columns' values, each as its bare Avro encoding (no wire header, no union), joined in the declared
order: registry ids have no part in it, so it is the same on every installation.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import fastavro

from include.errors import Terminal
from include.log.ports import SchemaRegistry, TopicAdmin
from include.log.topics import change, document_spec
from include.record.change import Change
from include.record.codec import Encoder
from include.record.key import partition_of
from include.record.schema import TableSchema, avro_name
from include.source.decode import Image
from include.source.definition import SourceDefinition

__all__ = ["Encoders", "TableEncoder"]


class TableEncoder:
    """Encodes rows of one table; `partition` is a pure function of an image and the topic's partitions."""

    def __init__(
        self,
        source: str,
        schema: TableSchema,
        key_id: int,
        value_id: int,
        partitions: int,
        partition_columns: tuple[str, ...] = (),
    ) -> None:
        self.schema = schema
        self.key_id = key_id
        self.topic = change(source, schema.database, schema.table)
        self.partitions = partitions
        self._key = Encoder(key_id, schema.key_avro(source))
        self._value = Encoder(value_id, schema.envelope_avro(source))
        self._key_fields = [(avro_name(name), name) for name in schema.key]
        names = {column.name: avro_name(column.name) for column in schema.columns}
        self._rename = names if any(name != avro for name, avro in names.items()) else None
        self._by = _by_columns(schema, partition_columns) if partition_columns else None

    def key(self, image: Image) -> bytes:
        """The record's key: the same bytes for equal key values, for ever."""
        return self._key({field: image[name] for field, name in self._key_fields})

    def place(self, image: Image) -> tuple[bytes, bytes]:
        """What makes the row's records go where they go; when an update changes it, the row has moved."""
        key = self.key(image)
        return key, self._by(image) if self._by else key

    def address(self, image: Image) -> tuple[bytes, int]:
        """The record's key and partition."""
        key, by = self.place(image)
        return key, partition_of(by, self.partitions)

    def value(self, change_: Change) -> bytes:
        """The envelope."""
        envelope = change_.envelope()
        if self._rename:
            for side in ("before", "after"):
                image = envelope[side]
                envelope[side] = image and {self._rename[name]: value for name, value in image.items()}
        return self._value(envelope)


class Encoders:
    """Makes and caches encoders; the first need of a table makes its topic and registers its schemas.

    `key_ids` is what the last run knew: a table whose key columns changed since would mix two kinds of keys in one
    topic, so it is refused. Registering and making topics may block, raise `Transient`, and be done again.
    """

    def __init__(self, name: str, source: SourceDefinition, admin: TopicAdmin, registry: SchemaRegistry) -> None:
        self._name = name
        self._source = source
        self._admin = admin
        self._registry = registry
        self._known: dict[tuple[str, str], TableEncoder] = {}

    def of(self, schema: TableSchema, known_key_id: int = 0) -> TableEncoder:
        """The encoder of a table as `schema` describes it; `known_key_id` 0 = a table that is new."""
        cached = self._known.get((schema.full_name, schema.fingerprint))
        if cached is not None:
            return cached
        topic = change(self._name, schema.database, schema.table)
        columns = self._source.partition_columns(schema.database, schema.table)
        missing = [column for column in columns if column not in {c.name for c in schema.columns}]
        if missing:
            raise Terminal(
                "a table is partitioned by columns that it does not have",
                table=schema.full_name,
                missing=missing,
                fix="Correct `partition_by` of the source.",
            )
        key_id = self._registry.register(f"{topic}-key", schema.key_avro(self._name), "NONE")
        if known_key_id and key_id != known_key_id:
            raise Terminal(
                "the key columns of a table changed, and its topic holds keys of the old ones",
                table=schema.full_name,
                topic=topic,
                fix="Put the key back, or leave the table out of the source's `tables`.",
            )
        value_id = self._registry.register(f"{topic}-value", schema.envelope_avro(self._name), "NONE")
        spec = document_spec(topic, self._source.partitions_of(schema.database, schema.table))
        made = self._admin.ensure(spec)
        encoder = TableEncoder(self._name, schema, key_id, value_id, made.partitions, columns)
        self._known[schema.full_name, schema.fingerprint] = encoder
        return encoder


def _by_columns(schema: TableSchema, columns: tuple[str, ...]) -> Callable[[Image], bytes]:
    types = [(name, fastavro.parse_schema(schema.column(name).avro())) for name in columns]

    def by(image: Image) -> bytes:
        out = io.BytesIO()
        for name, kind in types:
            value: Any = image[name]
            if value is None:
                raise Terminal(
                    "a column that chooses the partition is null",
                    table=schema.full_name,
                    column=name,
                    fix="Declare only columns that are NOT NULL in `partition_by` of the source.",
                )
            fastavro.schemaless_writer(out, kind, value)
        return out.getvalue()

    return by
