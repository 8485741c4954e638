"""Fields of a topic's bodies as columns, by its newest schema: what older schemas wrote is read as Avro resolves it.

Source: https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro

from include.errors import InvalidRecord
from include.index.definition import ValueForm
from include.lake.formats.arrow_columns import Column, columns_of
from include.lake.formats.avro_schemas import plain_schema
from include.record.codec import unframe

__all__ = ["Body", "BodyReader", "body_of"]

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Body:
    """Columns of bodies in values of `schema`; `changes`: these are change envelopes, whose newer image is the body."""

    schema: Mapping[str, Any]
    columns: Sequence[Column]
    changes: bool = False

    @property
    def fields(self) -> list[Any]:
        """The columns as Arrow's fields."""
        return [column.field.with_nullable(True) for column in self.columns]

    def array(self, name: str, bodies: Sequence[Fields]) -> Any:
        """The values of one column as Arrow's array; raises `InvalidRecord` when one does not fit it."""
        import pyarrow

        pa: Any = pyarrow
        column = next(each for each in self.columns if each.name == name)
        try:
            return pa.array(column.values([body.get(name) for body in bodies]), column.type)
        except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
            raise InvalidRecord("a document's field does not fit its column", reason=str(error), field=name) from error

    def fits(self, body: Fields) -> bool:
        """Whether each of its fields can stand in its column."""
        try:
            for column in self.columns:
                self.array(column.name, [body])
        except InvalidRecord:
            return False
        return True


class BodyReader:
    """Reads values in the wire format; `lookup` gives the schema of an id."""

    def __init__(self, body: Body, lookup: Callable[[int], Mapping[str, Any]]) -> None:
        self._body = body
        self._lookup = lookup
        self._wanted = fastavro.parse_schema(plain_schema(body.schema))
        self._written: dict[int, Any] = {}

    def __call__(self, value: bytes) -> Fields | None:
        """The body, by the newest schema and without logical types; None of a change that deletes.

        Raises `InvalidRecord` for bytes that are not what their schema says, or cannot be resolved.
        """
        schema_id, data = unframe(value)
        if schema_id not in self._written:
            self._written[schema_id] = fastavro.parse_schema(plain_schema(self._lookup(schema_id)))
        stream = io.BytesIO(data)
        try:
            found: Any = fastavro.schemaless_reader(stream, self._written[schema_id], self._wanted)
        except Exception as error:
            raise InvalidRecord("value cannot be read", reason=repr(error), schema_id=schema_id) from error
        if stream.tell() != len(data):
            raise InvalidRecord("value is longer than its schema says", reason="trailing bytes", schema_id=schema_id)
        if not self._body.changes:
            return dict(found)
        if found.get("op") == "d":
            return None
        if not isinstance(found.get("after"), dict):
            raise InvalidRecord("change has no newer image", reason="op", op=found.get("op"))
        return dict(found["after"])


def body_of(schema: Mapping[str, Any], form: ValueForm) -> Body:
    """The columns of values of `schema`; raises `InvalidRecord` when it has none."""
    columns = columns_of(_image(schema) if form == "change" else schema)
    if any(column.whole for column in columns):
        raise InvalidRecord("documents are records of fields", reason="schema", got=schema.get("type"))
    return Body(schema, columns, changes=form == "change")


def _image(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a row image: of the field that defines it, `before` or `after`."""
    for field in envelope.get("fields", ()):
        if field["name"] in ("before", "after"):
            branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
            for branch in branches:
                if isinstance(branch, Mapping) and branch.get("type") == "record":
                    return branch
    raise InvalidRecord("schema is no change envelope", reason="schema", got=envelope.get("name"))
