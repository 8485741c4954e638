"""Fields of JSON bodies as columns, by what their JSON Schema says of them.

| schema | column |
|---|---|
| boolean, integer, number | bool, int64, float64 |
| string, whatever its format; enum of texts | string |
| object with properties; array; object of values alike | struct; list; map |
| anything, one of several types, an object or a list of anything | string: texts as they are, all else as JSON |

Everything may be null or absent. Names that the schema does not have are no columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import orjson

from include.errors import InvalidRecord
from include.index.mapping.value_types import Form, Leaf, ListOf, MapOf, RecordType

__all__ = ["avro_of", "shaped"]

_SCALARS: Final = {"boolean": "boolean", "long": "long", "double": "double"}


def avro_of(form: RecordType) -> dict[str, Any]:
    """The schema in Avro that has the columns of this form."""
    return _record(form, itertools.count())


def _record(form: RecordType, numbers: Iterator[int]) -> dict[str, Any]:
    fields = [{"name": name, "type": ["null", _type(each, numbers)]} for name, each in form.fields.items()]
    return {"type": "record", "name": f"r{next(numbers)}", "fields": fields}


def _type(form: Form, numbers: Iterator[int]) -> Any:
    match form:
        case Leaf():
            return _SCALARS.get(form.kind, "string")
        case RecordType() if form.fields:
            return _record(form, numbers)
        case ListOf():
            return {"type": "array", "items": ["null", _type(form.items, numbers)]}
        case MapOf():
            return {"type": "map", "values": ["null", _type(form.values, numbers)]}
        case _:
            return "string"


def shaped(form: Form, value: Any) -> Any:
    """A value as its column takes it; raises `InvalidRecord` for one that is not of the form."""
    match form:
        case _ if value is None:
            return None
        case RecordType() if form.fields and isinstance(value, dict):
            return {name: shaped(each, value.get(name)) for name, each in form.fields.items()}
        case ListOf() if isinstance(value, list):
            return [shaped(form.items, each) for each in value]
        case MapOf() if isinstance(value, dict):
            return {name: shaped(form.values, each) for name, each in value.items()}
        case Leaf(kind="boolean") if isinstance(value, bool):
            return value
        case Leaf(kind="long") if _is_number(value) and value == int(value):
            return int(value)
        case Leaf(kind="double") if _is_number(value):
            return float(value)
        case Leaf() if form.kind not in _SCALARS and isinstance(value, str):
            return value
        case Leaf() | ListOf() | MapOf():
            raise _other(form, value)
        case RecordType() if form.fields:
            raise _other(form, value)
        case _:
            return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _other(form: Form, value: Any) -> InvalidRecord:
    wanted = form.said if isinstance(form, Leaf) else type(form).__name__
    return InvalidRecord("a field is not as its schema says", reason="type", allowed=wanted, got=type(value).__name__)
