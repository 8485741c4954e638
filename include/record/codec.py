"""Avro in the Confluent wire format: 0x00, the schema's id in 4 bytes big-endian, the body.

fastavro does the work; schemas come from whoever knows them by id (a registry), and are parsed once.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import fastavro

from include.errors import InvalidRecord
from include.record.extent import within_bounds
from include.record.plain_fields import Walk

__all__ = ["DatumReader", "Decoder", "Encoder", "frame", "unframe"]

_HEADER: Final = struct.Struct(">bI")


def frame(schema_id: int, body: bytes) -> bytes:
    """The wire form of `body`."""
    return _HEADER.pack(0, schema_id) + body


def unframe(data: bytes) -> tuple[int, memoryview]:
    """Schema id and body; raises `InvalidRecord` for bytes that are not in this format."""
    if len(data) < _HEADER.size or data[0] != 0:
        raise InvalidRecord("value is not in the Confluent wire format", reason="magic", head=data[:8].hex())
    return _HEADER.unpack_from(data)[1], memoryview(data)[_HEADER.size :]


class Encoder:
    """Writes values of one schema under its registered id; deterministic: equal values give equal bytes."""

    def __init__(self, schema_id: int, schema: Mapping[str, Any]) -> None:
        self.schema_id = schema_id
        self._schema = fastavro.parse_schema(dict(schema))
        self._head = _HEADER.pack(0, schema_id)

    def __call__(self, value: Any) -> bytes:
        """Bytes of `value`; raises `InvalidRecord` when it does not fit the schema."""
        out = io.BytesIO()
        out.write(self._head)
        try:
            fastavro.schemaless_writer(out, self._schema, value)
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise InvalidRecord("value does not fit its schema", reason=str(error), schema_id=self.schema_id) from error
        return out.getvalue()


class DatumReader:
    """Reads values of one schema, logical types as Python's (`Decimal`, `date`, `datetime`).

    Args:
        schema: that they were written by.
        wanted: that they are read as, by Avro's resolution, as fastavro parsed it; None: as they were written.

    Attributes:
        schema: as fastavro parsed it.
    """

    def __init__(self, schema: Any, wanted: Any = None, /, **place: Any) -> None:
        """Raises `InvalidRecord` at `place` for what is no Avro schema, or one beyond the bounds of `record.extent`."""
        try:
            self.schema: Any = fastavro.parse_schema(schema)
        except Exception as error:
            raise InvalidRecord("schema is not Avro's", reason=repr(error), **place) from error
        self._wanted, self._place = wanted, place
        # fastavro recurses and loops as it is told: what only bytes tell is looked at before it reads them.
        self._walk = Walk(self.schema, sizes=False, **place) if within_bounds(self.schema, **place).walked else None

    def __call__(self, body: bytes | memoryview) -> Any:
        """The value; raises `InvalidRecord` for bytes that are not what the schema says, to the last byte."""
        stream = io.BytesIO(body)
        value = self.next(stream)
        if stream.tell() != len(body):
            raise InvalidRecord("value is longer than its schema says", reason="trailing bytes", **self._place)
        return value

    def next(self, stream: io.BytesIO) -> Any:
        """The value that begins where `stream` stands, which is moved behind it; raises as a call does."""
        if self._walk is not None and (reason := self._walk.refusal(stream.getvalue(), stream.tell())):
            raise InvalidRecord("value is not what its schema says", reason=reason, **self._place)
        try:
            return fastavro.schemaless_reader(stream, self.schema, self._wanted)
        except Exception as error:
            # fastavro names its stream by an address in memory, which would be another each time.
            reason = "it ends too early" if isinstance(error, EOFError) else repr(error)
            raise InvalidRecord("value is not what its schema says", reason=reason, **self._place) from error


class Decoder:
    """Reads values of any schema; `lookup` gives the schema of an id as JSON text or parsed JSON, `wanted` as above."""

    def __init__(self, lookup: Callable[[int], str | Mapping[str, Any]], wanted: Any = None) -> None:
        self._lookup, self._wanted = lookup, wanted
        self._readers: dict[int, DatumReader] = {}

    def __call__(self, data: bytes) -> Any:
        """The value of framed bytes, as `DatumReader` reads it; raises as that one does."""
        schema_id, body = unframe(data)
        return self._reader(schema_id)(body)

    def schema(self, schema_id: int) -> Any:
        """The parsed schema of an id, as fastavro wants it; raises `InvalidRecord` as `DatumReader` does."""
        return self._reader(schema_id).schema

    def _reader(self, schema_id: int) -> DatumReader:
        reader = self._readers.get(schema_id)
        if reader is None:
            found = self._lookup(schema_id)
            try:
                loaded = json.loads(found) if isinstance(found, str) else dict(found)
            except (ValueError, RecursionError) as error:
                raise InvalidRecord("schema is not Avro's", reason=repr(error), schema_id=schema_id) from error
            if isinstance(loaded, dict) and isinstance(loaded.get("type"), list):
                # A union, in the form in which registries' clients hand out what is no record.
                loaded = loaded["type"]
            reader = self._readers[schema_id] = DatumReader(loaded, self._wanted, schema_id=schema_id)
        return reader
