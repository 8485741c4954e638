"""Schema ids of restored keys and values: those of the registry that will be asked for them.

A backup keeps the schemas behind its records' ids. Where the registry lacks one, it is registered under `<target>-key`
or `<target>-value`; where it has another schema by that id, or gives another id, the id in the record is replaced, as
readers would take the record for what it is not. Nothing else of a record changes.

An id is replaced only in bytes that are, to the last one, what their schema says: a number that begins with a zero byte
looks framed, too. Registering gives the same id each time, so what one attempt wrote agrees with what the next writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import orjson

from include.errors import InvalidRecord, Terminal
from include.lake.formats.avro_schemas import WireSchemas
from include.lake.message import Message
from include.lake.reading.kept_schemas import KeptRegistry, kept_ids
from include.log.ports import Compatibility, SchemaRegistry
from include.record.codec import frame, unframe
from include.store.object_store import ObjectStore

__all__ = ["SchemaId", "SchemaIds"]

Part = Literal["key", "value"]
_HEAD: Final = 5


class SchemaId(NamedTuple):
    """An id as the backup has it, in keys or values, and as it is in the target."""

    part: Part
    old: int
    new: int


class SchemaIds:
    """The ids of one restore. `store` and `prefix` are those of the backup, `topic` the target."""

    def __init__(self, registry: SchemaRegistry, store: ObjectStore, prefix: str, topic: str) -> None:
        self._registry, self._topic = registry, topic
        self._kept = KeptRegistry(None, store, (prefix,))
        self._avro = WireSchemas(self._kept.schema)
        self._ids = kept_ids(store, prefix)
        self._known: dict[tuple[Part, int], int] = {}

    @property
    def lacking(self) -> list[int]:
        """Ids of the backup that the registry does not have, or has for other schemas."""
        return sorted(schema_id for schema_id in self._ids if not self._has(schema_id))

    @property
    def replaced(self) -> list[SchemaId]:
        """Those that have another id in the target, of what was rewritten so far."""
        return sorted(SchemaId(*at, new) for at, new in self._known.items() if new != at[1])

    def rewritten(self, messages: Sequence[Message]) -> tuple[list[Message], int]:
        """The messages as the target gets them, and how many of them changed.

        Raises `Terminal` for one whose id would have to be replaced and cannot, and what the registry raises.
        """
        rewritten = [
            message._replace(key=self._of("key", message.key, message), value=self._of("value", message.value, message))
            if (message.key and not message.key[0]) or (message.value and not message.value[0])
            else message
            for message in messages
        ]
        return rewritten, sum(now != before for now, before in zip(rewritten, messages, strict=True))

    def _of(self, part: Part, data: bytes | None, message: Message) -> bytes | None:
        if data is None or len(data) < _HEAD or data[0]:
            return data
        old, body = unframe(data)
        if old not in self._ids:
            # Nobody's, as far as the backup knows: most are no framed bytes at all.
            return data
        new = self._known.get((part, old))
        if new is None:
            new = self._known[part, old] = self._settle(part, old)
        if new == old:
            return data
        try:
            self._check(old, body)
        except InvalidRecord as error:
            raise Terminal(
                "bytes that look like those of a schema are none of it, so their id cannot be replaced",
                topic=self._topic,
                part=part,
                offset=message.offset,
                schema_id=old,
                now=new,
                reason=str(error),
                fix="Are they framed at all? With --keep-ids into another target all bytes stay as they are.",
            ) from error
        return frame(new, bytes(body))

    def _settle(self, part: Part, old: int) -> int:
        """Its id in the registry, where it is registered if need be."""
        if self._has(old):
            return old
        subject = f"{self._topic}-{part}"
        # What its schemas followed is not known: a new subject takes all of them.
        level: Compatibility | None = "NONE" if self._registry.newest(subject) is None else None
        return self._registry.register(subject, self._kept.schema(old), level, self._kept.language(old))

    def _has(self, schema_id: int) -> bool:
        """Whether the registry has the kept schema by its id."""
        kept = self._kept.language(schema_id), self._kept.schema(schema_id)
        try:
            return (self._registry.language(schema_id), self._registry.schema(schema_id)) == kept
        except InvalidRecord:
            # Nobody's, or in a language that is not read: another's.
            return False

    def _check(self, schema_id: int, body: bytes | memoryview) -> None:
        if self._kept.language(schema_id) == "AVRO":
            self._avro.datum(schema_id, body)
            return
        try:
            orjson.loads(body)
        except ValueError as error:
            raise InvalidRecord("value is no JSON", reason=str(error), schema_id=schema_id) from error
