"""Fields of a topic's bodies as columns, by its newest schema: what older schemas wrote is read as Avro resolves it.

Bodies in JSON are read as the indexer reads them, into the columns of the newest JSON Schema (`json_columns`).

Source: https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from include.audit.expectations.json_columns import avro_of, shaped
from include.errors import InvalidRecord, Terminal
from include.index.mapping.topic_types import body_form
from include.index.mapping.value_types import RecordType as FormRecord
from include.lake.formats.arrow_columns import ArrowColumn, columns_of
from include.lake.formats.avro_schemas import plain_schema
from include.log.ports import SchemaLanguage, SchemaRegistry
from include.record.codec import DatumReader, Decoder
from include.record.json.formats import ValueForm, Values

__all__ = ["AvroValueReader", "Body", "body_of", "reader_of"]

BodyFields = Mapping[str, Any]


@dataclass(frozen=True)
class Body:
    """Columns of bodies in values of `schema`; `changes`: these are change envelopes, whose newer image is the body.

    `form` is that of bodies in JSON; None where they are in Avro.
    """

    schema: Mapping[str, Any]
    columns: Sequence[ArrowColumn]
    changes: bool = False
    form: FormRecord | None = None

    @property
    def fields(self) -> list[Any]:
        """The columns as Arrow's fields."""
        return [column.field.with_nullable(True) for column in self.columns]

    def array(self, name: str, bodies: Sequence[BodyFields]) -> Any:
        """The values of one column as Arrow's array; raises `InvalidRecord` when one does not fit it."""
        import pyarrow

        pa: Any = pyarrow
        column = next(each for each in self.columns if each.name == name)
        try:
            return pa.array(column.values([body.get(name) for body in bodies]), column.type)
        except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
            raise InvalidRecord("a document's field does not fit its column", reason=str(error), field=name) from error

    def fits(self, body: BodyFields) -> bool:
        """Whether each of its fields can stand in its column."""
        try:
            for column in self.columns:
                self.array(column.name, [body])
        except InvalidRecord:
            return False
        return True


def reader_of(body: Body, registry: SchemaRegistry) -> Callable[[bytes], BodyFields | None]:
    """Reads values in the wire format; gives the fields of a body, None of a change that deletes.

    It raises `InvalidRecord` for bytes that are not what their schema says, and what the registry raises.
    """
    form = body.form
    if form is None:
        return AvroValueReader(body, registry.schema)
    # As the indexer reads them, so that both refuse the same.
    values = Values(registry, "change" if body.changes else "plain")

    def read(value: bytes) -> BodyFields | None:
        text = values(value)
        if text is None:
            return None
        found = orjson.loads(text)
        if not isinstance(found, dict):
            raise InvalidRecord("document is no object", reason="type", got=type(found).__name__)
        fields: BodyFields = shaped(form, found)
        return fields

    return read


class AvroValueReader:
    """Reads values in Avro; `lookup` gives the schema of an id."""

    def __init__(self, body: Body, lookup: Callable[[int], Mapping[str, Any]]) -> None:
        self._body = body
        wanted = DatumReader(plain_schema(body.schema)).schema
        self._read = Decoder(lambda schema_id: plain_schema(lookup(schema_id)), wanted)

    def __call__(self, value: bytes) -> BodyFields | None:
        """The body, by the newest schema and without logical types; None of a change that deletes.

        Raises `InvalidRecord` for bytes that are not what their schema says, or cannot be resolved.
        """
        record = self._read(value)
        if not self._body.changes:
            return dict(record)
        if record.get("op") == "d":
            return None
        if not isinstance(record.get("after"), dict):
            raise InvalidRecord("change has no newer image", reason="op", op=record.get("op"))
        return dict(record["after"])


def body_of(schema: Mapping[str, Any], value: ValueForm, language: SchemaLanguage = "AVRO") -> Body:
    """The columns of values of `schema`; raises `InvalidRecord` when it has none."""
    form = None
    if language == "JSON":
        try:
            document_form = body_form(schema, language, value)
        except Terminal as error:
            raise InvalidRecord(error.message, reason="schema") from error
        if not isinstance(document_form, FormRecord) or not document_form.fields:
            raise InvalidRecord("documents are objects whose names the schema has", reason="schema")
        form, bodies = document_form, avro_of(document_form)
    else:
        # Refuses what is beyond the bounds, before it is gone through.
        DatumReader(plain_schema(schema))
        bodies = dict(_image(schema) if value == "change" else schema)
    columns = columns_of(bodies)
    if any(column.whole for column in columns):
        raise InvalidRecord("documents are records of fields", reason="schema", got=schema.get("type"))
    return Body(schema, columns, changes=value == "change", form=form)


def _image(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a row image: of the field that defines it, `before` or `after`."""
    for field in envelope.get("fields", ()):
        if field["name"] in ("before", "after"):
            branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
            for branch in branches:
                if isinstance(branch, Mapping) and branch.get("type") == "record":
                    return branch
    raise InvalidRecord("schema is no change envelope", reason="schema", got=envelope.get("name"))
