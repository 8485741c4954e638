"""From a topic's records to the newest row of each key."""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from include.errors import InvalidRecord
from include.log.ports import Record
from include.record.fields import EnvelopeFields, Fields
from include.record.key import partition_of
from include.record.version import version_of

__all__ = ["RefusedRow", "RowChange", "RowReader", "TaskRows", "newest"]

_HEAD: Final = 5
_FORM: Final = 2
"""Of marshal: later ones write what is equal in several ways."""


class RowChange(NamedTuple):
    """What a record does to its key: a row's Avro bytes, or None where the row goes."""

    key: bytes
    version: int
    schema_id: int
    row: bytes | None
    partition: int
    offset: int


class RefusedRow(NamedTuple):
    """A record that cannot be understood, and why."""

    topic: str
    partition: int
    offset: int
    reason: str


class RowReader:
    """Reads the records of one topic.

    Args:
        topic: its name.
        change: values are change envelopes.
        schema_of: schema by id; raises `InvalidRecord` for one that nobody registered.
    """

    def __init__(self, topic: str, *, change: bool, schema_of: Callable[[int], Mapping[str, Any]]) -> None:
        self.topic, self.change = topic, change
        self._schema_of = schema_of
        self._images: dict[int, EnvelopeFields] = {}
        self._fields: dict[int, Fields] = {}

    def read(self, record: Record) -> RowChange:
        """What one record does; raises `InvalidRecord` for bytes that are no row of this topic."""
        if record.key is None:
            raise InvalidRecord("record of a keyed topic has no key", reason="key")
        version = version_of(record.headers, record.offset, change=self.change)
        value = record.value
        schema_id, row = (0, None) if value is None else self._row(value)
        return RowChange(record.key, version, schema_id, row, record.partition, record.offset)

    def row_schema(self, schema_id: int) -> Mapping[str, Any]:
        """The schema of the rows in values of this schema; raises `InvalidRecord`."""
        return (self._images_of(schema_id).row if self.change else self._fields_of(schema_id)).schema

    def _row(self, value: bytes) -> tuple[int, bytes | None]:
        if len(value) < _HEAD or value[0]:
            raise InvalidRecord("value is not in the Confluent wire format", reason="magic", head=value[:8].hex())
        schema_id = int.from_bytes(value[1:_HEAD], "big")
        if not self.change:
            self._fields_of(schema_id).borders(value, _HEAD)
            return schema_id, value[_HEAD:]
        op, _, after = self._images_of(schema_id)(value)
        if op == "d":
            return schema_id, None
        if op not in ("c", "u", "r") or after is None:
            raise InvalidRecord("change has no newer image", reason=f"op {op!r}", allowed="c, u, r, d")
        return schema_id, after

    def _images_of(self, schema_id: int) -> EnvelopeFields:
        images = self._images.get(schema_id)
        if images is None:
            images = self._images[schema_id] = EnvelopeFields(self._schema_of(schema_id))
        return images

    def _fields_of(self, schema_id: int) -> Fields:
        fields = self._fields.get(schema_id)
        if fields is None:
            fields = self._fields[schema_id] = Fields(self._schema_of(schema_id))
        return fields


@dataclass
class TaskRows:
    """A task's share of one topic: the newest change of each key, by bucket; `counts`: read, superseded, refused."""

    buckets: int
    changes: dict[int, dict[bytes, RowChange]] = field(default_factory=dict)
    refused: list[RefusedRow] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def take(self, reader: RowReader, record: Record) -> None:
        """One record; what cannot be understood is kept to be set aside."""
        self.counts["read"] += 1
        try:
            change = reader.read(record)
        except InvalidRecord as error:
            self.counts["refused"] += 1
            self.refused.append(RefusedRow(reader.topic, record.partition, record.offset, str(error)))
            return
        mine = self.changes.setdefault(partition_of(change.key, self.buckets), {})
        before = mine.get(change.key)
        if before is not None:
            self.counts["superseded"] += 1
        if before is None or change.version >= before.version:
            mine[change.key] = change

    def packed(self) -> dict[int, bytes]:
        """Bucket → its changes, as bytes for another worker of the same application."""
        return {
            bucket: marshal.dumps([tuple(each) for each in changes.values()], _FORM)
            for bucket, changes in self.changes.items()
        }


def newest(frames: Iterable[bytes]) -> tuple[dict[bytes, RowChange], int]:
    """The newest change of each key in what several tasks packed for a bucket, and how many others there were.

    Frames come in the order of their tasks, which is that of offsets: of equal versions the last one counts.
    """
    changes: dict[bytes, RowChange] = {}
    superseded = 0
    for frame in frames:
        for plain in marshal.loads(frame):  # noqa: S302 - this application's own workers made it
            change = RowChange(*plain)
            before = changes.get(change.key)
            superseded += before is not None
            if before is None or change.version >= before.version:
                changes[change.key] = change
    return changes, superseded
