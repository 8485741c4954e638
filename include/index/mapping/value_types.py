"""The form of what a writer sends, field by field, in any schema language: the input of mappings and their checks.

`avro_form` and `json_schema_form` make it. Names of kinds are those of the JSON that is sent (`body`):

| kind | JSON |
|---|---|
| boolean | true, false |
| int, long | a number below 2^31, 2^63 |
| float, double | a number of 32, 64 bits |
| decimal | text of digits: `precision` in all, `scale` behind the point |
| text, enum, uuid | text |
| bytes | text, base64 |
| date, time | `2026-11-02`, `03:04:05.000006` |
| timestamp_millis, timestamp_micros, timestamp | ISO 8601; `timestamp` with any precision |
| null | nothing but null |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Form", "Leaf", "ListOf", "MapOf", "OneOf", "RecordType", "Unknown", "ValueKind", "optional"]

ValueKind = Literal[
    "null", "boolean", "int", "long", "float", "double", "decimal", "text", "enum", "uuid", "bytes",
    "date", "time", "timestamp_millis", "timestamp_micros", "timestamp",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar. `said` is the schema's own word for it: `decimal(14,2)`."""

    kind: ValueKind
    said: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class RecordType:
    """An object whose names are known; `more`: the schema allows others, of which it says nothing to rely on."""

    fields: Mapping[str, Form]
    more: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    """Any number of values of one form."""

    items: Form


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object whose names are data."""

    values: Form


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value of one of several forms; null is none of them, as any value may be null."""

    branches: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value whose form nobody can tell, and why: `record Node holds itself`."""

    reason: str


Form = Leaf | RecordType | ListOf | MapOf | OneOf | Unknown


def optional(branches: Iterable[Form]) -> Form:
    """The form of a value that has one of `branches`, nulls among them or not.

    Several records are one that has the fields of all: an index knows no more of them.
    """
    distinct: list[Form] = []
    for branch in branches:
        if not (isinstance(branch, Leaf) and branch.kind == "null") and branch not in distinct:
            distinct.append(branch)
    if not distinct:
        return Leaf("null", "null")
    records = [branch for branch in distinct if isinstance(branch, RecordType)]
    if len(records) > 1:
        distinct = [_together(records), *(branch for branch in distinct if not isinstance(branch, RecordType))]
    return distinct[0] if len(distinct) == 1 else OneOf(tuple(distinct))


def _together(records: Sequence[RecordType]) -> RecordType:
    names = dict.fromkeys(name for record in records for name in record.fields)
    fields = {name: optional(each.fields[name] for each in records if name in each.fields) for name in names}
    return RecordType(fields, any(record.more for record in records))
