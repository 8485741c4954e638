"""A parsed Avro schema as compiled readers take it: a flat list of steps, children before their parents.

What they do not know is refused here as a whole (None), and the Python way does it: recursive types, schemas beyond
the bounds of `record.extent`, declarations that fastavro reads in a way of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from include.errors import InvalidRecord
from include.record.extent import Extents, within_bounds

__all__ = ["LOGICAL", "ProgramStep", "steps_of"]

ProgramStep = tuple[str, int, int, tuple[int, ...], tuple[str, ...], tuple[int, ...]]
"""Code, two numbers, children as indexes of steps, names of fields or symbols, a record's fields in names' order.

The second number of an array or a map is how many values without bytes each item holds (`Extent.empties`).
"""

_PLAIN: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "string", "bytes"})
LOGICAL: Final[dict[tuple[str, str], tuple[str, int, int]]] = {
    ("string", "uuid"): ("uuid", 0, 0),
    ("int", "date"): ("date", 0, 0),
    ("int", "time-millis"): ("time", 1000, 0),
    ("long", "time-micros"): ("time", 1, 0),
    ("long", "timestamp-millis"): ("timestamp", 1000, 1),
    ("long", "timestamp-micros"): ("timestamp", 1, 1),
    ("long", "local-timestamp-millis"): ("timestamp", 1000, 0),
    ("long", "local-timestamp-micros"): ("timestamp", 1, 0),
}
"""Code, microseconds in a unit, whether there is a zone; by the names that fastavro has logical readers for."""
_MOST_STEPS: Final = 20_000
_MOST_SCALE: Final = 1000


class _UnknownError(Exception):
    """For the Python way."""


def steps_of(schema: Any) -> list[ProgramStep] | None:
    """The steps of a schema that fastavro has parsed; the last is the whole. None: for the Python way."""
    try:
        made = _Steps(within_bounds(schema))
        made.add(schema)
    except (_UnknownError, InvalidRecord):
        return None
    return made.steps


class _Steps:
    def __init__(self, extents: Extents) -> None:
        self.steps: list[ProgramStep] = []
        self._extents = extents
        self._named: dict[str, int | None] = {}

    def add(self, schema: Any) -> int:
        """Index of the step that writes `schema`."""
        if len(self.steps) > _MOST_STEPS:
            raise _UnknownError
        if isinstance(schema, list):
            return self._put("union", children=[self.add(each) for each in schema])
        if isinstance(schema, str):
            if schema in _PLAIN:
                return self._put(schema)
            index = self._named.get(schema)
            # Not there: a type that is still being read, or one that fastavro knows and we do not.
            if index is None:
                raise _UnknownError
            return index
        kind = schema["type"]
        if isinstance(kind, str) and "name" in schema and kind in ("record", "error", "enum", "fixed"):
            # What names itself inside itself finds None.
            self._named[schema["name"]] = None
            self._named[schema["name"]] = index = self._of_type(schema, kind)
            return index
        return self._of_type(schema, kind)

    def _of_type(self, schema: Mapping[str, Any], kind: Any) -> int:
        logical = schema.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            return self._decimal(schema, kind)
        if isinstance(logical, str) and (kind, logical) in LOGICAL:
            return self._put(*LOGICAL[kind, logical])
        if kind in _PLAIN:
            return self._put(kind)
        if kind == "fixed":
            return self._put("bytes", _natural(schema["size"]) + 1)
        if kind == "enum":
            return self._put("enum", labels=[_text(symbol) for symbol in schema["symbols"]])
        if kind in ("array", "map"):
            items = schema["items" if kind == "array" else "values"]
            return self._put(kind, 0, self._extents.of(items).empties, children=[self.add(items)])
        if kind in ("record", "error"):
            return self._record(schema["fields"])
        raise _UnknownError

    def _decimal(self, schema: Mapping[str, Any], kind: str) -> int:
        scale, precision = _natural(schema.get("scale", 0)), _natural(schema.get("precision", 0))
        if not precision > 0 or scale > _MOST_SCALE:
            raise _UnknownError
        size = _natural(schema["size"]) + 1 if kind == "fixed" else 0
        # A record's order is no part of a decimal: it carries what is left to say.
        return self._put("decimal", size, scale, order=[min(precision, 1 << 30)])

    def _record(self, fields: Sequence[Mapping[str, Any]]) -> int:
        names = [_text(field["name"]) for field in fields]
        if len(set(names)) != len(names):
            raise _UnknownError
        children = [self.add(field["type"]) for field in fields]
        order = sorted(range(len(names)), key=lambda i: names[i].encode())
        return self._put("record", children=children, labels=names, order=order)

    def _put(
        self,
        code: str,
        a: int = 0,
        b: int = 0,
        *,
        children: Sequence[int] = (),
        labels: Sequence[str] = (),
        order: Sequence[int] = (),
    ) -> int:
        self.steps.append((code, a, b, tuple(children), tuple(labels), tuple(order)))
        return len(self.steps) - 1


def _natural(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 30:
        raise _UnknownError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _UnknownError
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _UnknownError from error
    return value
