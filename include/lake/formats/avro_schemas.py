"""Schemas of Confluent-framed Avro values, and which file each value belongs in: a file has one schema.

Why values of another schema go to another folder (`…/schema=7/`): resolved to one schema they would lose the fields
that it lacks, or the places where two schemas contradict would decide what is set aside. So a file's schema is what
its producers wrote, bodies stay byte for byte, and which object a record is in follows from the record alone. With
`schema_id` all files of the topic have that schema and no such folder; values of any other are set aside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from include.errors import InvalidRecord, Terminal
from include.lake.formats.port import FileIdentity
from include.lake.message import Message
from include.record.codec import DatumReader, unframe

__all__ = ["SchemaLookup", "WireSchemas", "plain_schema"]

SchemaLookup = Callable[[int], Mapping[str, Any]]
"""Schema of an id, as `SchemaRegistry.schema` gives it; `InvalidRecord` for an id that nobody registered."""

_FOLDER: Final = re.compile(r"schema=([0-9]{1,10})")


class WireSchemas:
    """What is known of schemas by id; each is looked up and parsed once."""

    def __init__(self, lookup: SchemaLookup, schema_id: int | None = None) -> None:
        self._lookup = lookup
        self._schema_id = schema_id
        self._known: dict[int, tuple[Mapping[str, Any], DatumReader]] = {}

    def source(self, schema_id: int) -> Mapping[str, Any]:
        """The schema as it was registered; `InvalidRecord` for an id that nobody registered."""
        return self._of(schema_id)[0]

    def names(self, message: Message) -> tuple[str, ...]:
        """The folder that a message needs below its other names; `InvalidRecord` for a value that is not framed."""
        if self._schema_id is not None:
            return ()
        return (f"schema={unframe(message.value or b'')[0]}",)

    def of_file(self, identity: FileIdentity) -> int:
        """The id of the file's schema; `Terminal` when neither configuration nor names tell it."""
        if self._schema_id is not None:
            return self._schema_id
        match = _FOLDER.fullmatch(identity.names[-1]) if identity.names else None
        if match is None:
            raise Terminal(
                "the names of an Avro or Parquet file do not tell its schema",
                topic=identity.topic,
                names=identity.names,
                fix="Declare `schema_id` for the topic, or add the format's `names` to those of each message.",
            )
        return int(match[1])

    def datum(self, schema_id: int, body: bytes | memoryview) -> Any:
        """The value of a body, logical types as the plain ones below; `InvalidRecord` unless it is all of the body."""
        return self._of(schema_id)[1](body)

    def refused(self, message: Message) -> str | tuple[int, Any]:
        """Why a message is in no file, else its schema's id and its `datum`."""
        if message.value is None:
            return "null value: a tombstone has no Avro body"
        try:
            schema_id, body = unframe(message.value)
            if self._schema_id not in (None, schema_id):
                return f"schema {schema_id}, files of this topic have {self._schema_id}"
            return schema_id, self.datum(schema_id, body)
        except InvalidRecord as error:
            return str(error)

    def _of(self, schema_id: int) -> tuple[Mapping[str, Any], DatumReader]:
        known = self._known.get(schema_id)
        if known is None:
            source = self._lookup(schema_id)
            known = self._known[schema_id] = source, DatumReader(plain_schema(source), schema_id=schema_id)
        return known


def plain_schema(schema: Any) -> Any:
    """The schema without its logical types: integers and bytes are read as they are, in any range.

    Raises `InvalidRecord` for one that is too deep to be gone through.
    """
    try:
        return _plain(schema)
    except RecursionError as error:
        raise InvalidRecord("schema is too deep", reason="depth") from error


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(branch) for branch in schema]
    if not isinstance(schema, Mapping):
        return schema
    # Defaults are values, however much they look like schemas.
    return {
        name: inner if name == "default" else _plain(inner) for name, inner in schema.items() if name != "logicalType"
    }
