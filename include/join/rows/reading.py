"""From an input's record to what it does to join keys.

A change envelope says where its row stood, so it is a departure and an arrival by itself. A record of a plain topic
says only where the row stands: it is a sighting for the first stage, unless the key holds the join key, which then
never changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from include.errors import InvalidRecord
from include.join.algorithm.moves import encoded_join_key, touches_of_change
from include.join.algorithm.row import Row, Touch
from include.join.algorithm.whereabouts import RowSighting
from include.join.native import WHY_NOT
from include.join.rows.avro_rows import AvroRows
from include.record.fields import EnvelopeFields
from include.record.native.program import steps_of

if TYPE_CHECKING:
    from include.join.native._join import Changes, Source

__all__ = ["InputReader", "Moves"]

_HEAD: Final = 5
Moves = Iterable[Touch | RowSighting]
"""What a record does: touches, or one sighting."""


@dataclass(frozen=True)
class InputReader:
    """Reads the records of one input. What is neither `located` nor a change has the join key in its key.

    Args:
        number: slot of the input.
        rows: what cuts its rows.
        change: values are change envelopes.
        located: the first stage finds where rows stood.
        alone: a row of this input has an output without rows of others.
        images: what takes envelopes apart, by schema id; filled while reading.
    """

    number: int
    rows: AvroRows
    change: bool
    located: bool
    alone: bool
    images: dict[int, EnvelopeFields]

    @cached_property
    def compiled(self) -> Source | None:
        """What reads most records of a change topic in C; None: the Python way reads all."""
        if WHY_NOT or self.located or not self.change:
            return None
        from include.join.native._join import Source

        return Source(self.number, self._compiled_changes)

    def read(self, key: bytes | None, value: bytes | None, rank: int, version: int) -> Moves:
        """What one record does; nothing for the tombstone behind a delete.

        Raises `InvalidRecord` for bytes that are no record of this input.
        """
        if key is None:
            raise InvalidRecord("record of a keyed input has no key", reason="key")
        if value is None:
            # Of a change topic the envelope before it said so, unless compaction took that.
            return () if self.change and not self.rows.fixed else self._gone(key, rank, version)
        schema_id = _schema_id(value)
        if not self.change:
            return self._stands(key, rank, version, Row(version, schema_id, value[_HEAD:]), before=None)
        op, before, after = self._images_of(schema_id)(value)
        if op == "d":
            return self._left(key, rank, version, schema_id, before)
        if op not in ("c", "u", "r") or after is None:
            raise InvalidRecord("change has no newer image", reason=f"op {op!r}", allowed="c, u, r, d")
        stood = None if before is None else self._join_key(key, schema_id, before)
        return self._stands(key, rank, version, Row(version, schema_id, after), before=stood)

    def _images_of(self, schema_id: int) -> EnvelopeFields:
        images = self.images.get(schema_id)
        if images is None:
            images = self.images[schema_id] = self.rows.images_of(schema_id)
        return images

    def _compiled_changes(self, schema_id: int, key: bytes) -> Changes | None:
        from include.join.native._join import Changes

        try:
            images, joined = self._images_of(schema_id), self.rows.compiled_join_key(schema_id, key)
        except InvalidRecord:
            # The Python way says what is wrong.
            return None
        envelope = steps_of(images.schema)
        return None if envelope is None or joined is None else Changes(envelope, images.places, joined)

    def _stands(self, key: bytes, rank: int, version: int, row: Row, *, before: bytes | None) -> Moves:
        after = self._join_key(key, row.schema_id, row.body)
        if self.located:
            return (RowSighting(self.number, key, rank, version, after, row),)
        return touches_of_change(self.number, key, rank, version, before=before, after=after, row=row)

    def _left(self, key: bytes, rank: int, version: int, schema_id: int, before: bytes | None) -> Moves:
        if self.located:
            return (RowSighting(self.number, key, rank, version, None, None),)
        if before is None:
            raise InvalidRecord("delete has no image of before", reason="op 'd'")
        stood = self._join_key(key, schema_id, before)
        return touches_of_change(self.number, key, rank, version, before=stood, after=None, row=None)

    def _gone(self, key: bytes, rank: int, version: int) -> Moves:
        if self.located:
            return (RowSighting(self.number, key, rank, version, None, None),)
        stood = encoded_join_key(self.rows.join_key_of(key), None)
        return touches_of_change(self.number, key, rank, version, before=stood, after=None, row=None)

    def _join_key(self, key: bytes, schema_id: int, body: bytes) -> bytes | None:
        values = self.rows.join_key(key, schema_id, body)
        alone = self.rows.group(key, schema_id, body) if values is None and self.alone else None
        return encoded_join_key(values, alone)


def _schema_id(value: bytes) -> int:
    if len(value) < _HEAD or value[0]:
        raise InvalidRecord("value is not in the Confluent wire format", reason="magic", head=value[:8].hex())
    return int.from_bytes(value[1:_HEAD], "big")
