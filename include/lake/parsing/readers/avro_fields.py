"""Values of Avro messages in the Confluent wire format, by the schemas of a registry.

Each message is walked by the schema that wrote it, to its last byte; so fields may come and go over time. Schemas and
messages beyond the bounds of `record.extent` are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from include.lake.parsing.fields import ReadFields, WantedValue, invalid, plan
from include.lake.parsing.readers.avro_walk import Take, compile_walk
from include.log.ports import SchemaRegistry
from include.record.plain_fields import Walk

__all__ = ["avro_reader"]

_HEAD: Final = 5


def avro_reader(wanted: Sequence[WantedValue], registry: SchemaRegistry) -> ReadFields:
    """Reads values at names of fields, keys of maps, indexes of arrays; None where the schema has no such field.

    The reader raises what the registry does: `Transient` when it does not answer, `InvalidRecord` for an id that
    nobody registered.
    """
    tree = plan(wanted)
    instants = frozenset(place for place, want in enumerate(wanted) if want.instant)
    count = len(wanted)
    walks: dict[bytes, Take] = {}

    def learn(head: bytes, data: bytes) -> Take:
        if len(head) < _HEAD or head[0] != 0:
            raise invalid("the message is not in the Confluent wire format", "Avro: magic", head=data)
        schema_id = int.from_bytes(head[1:], "big")
        schema = registry.schema(schema_id)
        try:
            parsed = fastavro.parse_schema(_flat(schema))
            bounds = Walk(parsed, sizes=False, schema_id=schema_id)
            walk = compile_walk(parsed, tree, instants)
        except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, RecursionError) as error:
            raise invalid("the message's schema cannot be used", f"Avro: {error!r}", schema_id=schema_id) from None
        walks[head] = _bounded(walk, bounds) if bounds.needed else walk
        return walks[head]

    def read(data: bytes) -> Sequence[Any]:
        head = data[:_HEAD]
        walk = walks.get(head) or learn(head, data)
        values: list[Any] = [None] * count
        try:
            end = walk(data, _HEAD, values)
        except (IndexError, struct.error):
            end = len(data) + 1
        except (ValueError, OverflowError, RecursionError) as error:
            raise invalid("the message is not what its schema says", f"Avro: {error}", head=data) from None
        if end != len(data):
            what = "is cut short" if end > len(data) else "goes on after its end"
            raise invalid(f"the Avro message {what}", "Avro", size=len(data), head=data)
        return values

    return read


def _bounded(walk: Take, bounds: Walk) -> Take:
    """`walk`, for messages whose bytes alone tell whether they have more values than bytes."""

    def take(data: bytes, at: int, values: list[Any]) -> int:
        if reason := bounds.refusal(data, at):
            raise ValueError(reason)
        return walk(data, at, values)

    return take


def _flat(schema: Any) -> Any:
    """The schema without types that are only wrapped around others, which fastavro does not take."""
    if isinstance(schema, list):
        return [_flat(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema["type"], dict | list):
        return _flat(schema["type"])
    flat = schema | {name: _flat(schema[name]) for name in ("items", "values") if name in schema}
    if "fields" in schema:
        flat["fields"] = [field | {"type": _flat(field["type"])} for field in schema["fields"]]
    return flat
