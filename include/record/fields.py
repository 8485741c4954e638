"""Records' fields as bytes: found, cut out and put together without decoding a value.

An Avro record is nothing but its fields' bytes in the schema's order. So `b"".join` of cut fields is a record of the
schema that has these fields; a nullable field made of one that is not takes the branch's number in front.

Bytes are checked on the way, to the last one: what these classes take, any Avro reader can read. Logical types are not
looked at. Compiled where `make setup` could; `plain_fields` judges what the compiled way refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import fastavro

from include.errors import InvalidRecord
from include.record.native import fields_of
from include.record.plain_fields import PlainFields
from include.record.references import whole_avro

__all__ = ["EnvelopeFields", "Fields", "envelope_places"]

_BODY = 5


class Fields:
    """Finds the fields of one writer schema's records. Safe to use from several threads."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises `InvalidRecord` where `schema`, parsed or as JSON has it, is no record's."""
        self.schema: Mapping[str, Any] = _parsed(schema)
        self.names: tuple[str, ...] = tuple(field["name"] for field in self.schema["fields"])
        self._plain = PlainFields(self.schema)
        self._native = fields_of(self.schema)

    def borders(self, data: bytes, begin: int = 0, end: int | None = None) -> tuple[int, ...]:
        """The offsets at which the fields of the record in `data[begin:end]` begin, then the last one's end.

        Raises `InvalidRecord` for bytes that are not exactly one record.
        """
        end = len(data) if end is None else end
        found = None if self._native is None else self._native.borders(data, begin, end)
        return self._plain.borders(data, begin, end) if found is None else found

    def cut(self, data: bytes, places: tuple[int, ...], begin: int = 0, end: int | None = None) -> tuple[bytes, ...]:
        """The bytes of the fields at these places of `names`, in the places' order; raises as `borders`."""
        end = len(data) if end is None else end
        found = None if self._native is None else self._native.cut(data, places, begin, end)
        return self._plain.cut(data, places, begin, end) if found is None else found

    def inside(self, name: str) -> Fields:
        """Fields of the record that this field holds, with a schema that stands by itself.

        A field that may also be null begins with the number of its branch: the record's bytes come behind it. Raises
        `InvalidRecord` for a field that holds no record, or several kinds.
        """
        named = {definition["name"]: definition for definition in _definitions(self.schema)}
        kind = self.schema["fields"][self.names.index(name)]["type"]
        branches = [branch for branch in (kind if isinstance(kind, list) else [kind]) if branch != "null"]
        record = named.get(branches[0], {}) if branches and isinstance(branches[0], str) else next(iter(branches), {})
        if len(branches) != 1 or record.get("type") not in ("record", "error"):
            raise InvalidRecord("field is not of one kind of record", reason="schema", field=name)
        return Fields(whole_avro({key: record[key] for key in record if key != "__fastavro_parsed__"}, named))


class EnvelopeFields:
    """Takes change envelopes of one schema apart: their `op`, and the rows before and after as bytes."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises `InvalidRecord` where `schema` is no envelope's, or the two rows are not of one schema."""
        envelope = Fields(schema)
        places = envelope_places(envelope.schema)
        if places is None or envelope.schema["fields"][places[0]]["type"] != "string":
            raise InvalidRecord("value is not a change envelope", reason="envelope", schema=envelope.schema["name"])
        self.row: Fields = envelope.inside("after")
        """Of both images: their bytes are records of `row.schema`."""
        if places[1] >= 0 and envelope.inside("before").schema["name"] != self.row.schema["name"]:
            raise InvalidRecord("rows before and after differ", reason="envelope", schema=envelope.schema["name"])
        self.schema, self.places = envelope.schema, places
        """The envelope's, and its `envelope_places`."""
        self._plain, self._native = PlainFields(envelope.schema), fields_of(envelope.schema)

    def __call__(self, wire: bytes, begin: int = _BODY) -> tuple[str, bytes | None, bytes | None]:
        """(op, before, after) of the envelope in `wire[begin:]`; None where there is no such row.

        Raises `InvalidRecord` for bytes that are not exactly one envelope.
        """
        found = None if self._native is None else self._native.images(wire, self.places, begin)
        return self._plain.images(wire, self.places, begin) if found is None else found


def envelope_places(schema: Any) -> tuple[int, int, int] | None:
    """The indices of `op`, `before` (-1: none) and `after` among an envelope's fields; None for what is no envelope."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        return None
    names = [field["name"] for field in schema["fields"]]
    if "op" not in names or "after" not in names:
        return None
    return names.index("op"), names.index("before") if "before" in names else -1, names.index("after")


def _parsed(schema: Any) -> Mapping[str, Any]:
    try:
        parsed: Any = fastavro.parse_schema(dict(schema) if isinstance(schema, Mapping) else schema)
    except Exception as error:
        raise InvalidRecord("schema is not Avro's", reason=repr(error)) from error
    if not isinstance(parsed, Mapping) or parsed.get("type") not in ("record", "error"):
        raise InvalidRecord("value is not a record of fields", reason="schema", got=str(parsed)[:200])
    return parsed


def _definitions(schema: Any) -> Iterator[Mapping[str, Any]]:
    """All named types that are defined in a parsed schema."""
    if isinstance(schema, list):
        for nested in schema:
            yield from _definitions(nested)
    elif isinstance(schema, Mapping):
        if "name" in schema:
            yield schema
        for nested in (
            *(field["type"] for field in schema.get("fields", ())),
            schema.get("items"),
            schema.get("values"),
        ):
            yield from _definitions(nested)
