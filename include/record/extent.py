"""Bounds a schema's depth, its values without bytes and its length with all names written out, for every reader.

A schema of a few kilobytes may nest thousands of types, each named once and used by the next, or twice, so that it
doubles with each; and an array of values that take no bytes may say in eight bytes that it has 2⁶² of them. Readers in
C recurse and loop as they are told, and columns have every named type written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from include.errors import InvalidRecord

__all__ = ["DEEPEST", "MOST_EMPTY", "MOST_TYPES", "Extent", "Extents", "within_bounds"]

DEEPEST: Final = 250
"""Types within types, also where they stand by their names, and levels of a type that names itself.

orjson writes 254 at most: what one way takes the other takes, too.
"""
MOST_EMPTY: Final = 1 << 20
"""Values without bytes in one record. `avro.pxi` has it too."""
MOST_TYPES: Final = 1 << 16
"""Types in a schema when all names are written out; the envelope of a table of 4,096 columns has a third of it."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Of a type."""

    depth: int
    """Levels of types, its own among them; a type inside itself adds none."""
    empty: bool = False
    """Each of its values takes no bytes."""
    empties: int = 0
    """Most values without bytes that one value holds beyond one for each byte, itself among them; items of arrays and
    maps are not, as their number stands in the bytes."""
    types: int = 1
    """Itself and those inside, names written out; a type inside itself is not."""


class Extents:
    """Extents of the types of one schema, as fastavro parsed it.

    Attributes:
        walked: whether it depends on a record's bytes how deep it is, or how many values without bytes it has.
    """

    def __init__(self) -> None:
        self.walked = False
        self._named: dict[str, Extent | None] = {}

    def of(self, schema: Any) -> Extent:
        """The extent of `schema`; what it names has been asked for before, or is around it."""
        if isinstance(schema, list):
            branches = [self.of(each) for each in schema]
            # The number of the branch takes a byte.
            empties = max((each.empties for each in branches), default=0)
            return Extent(1 + _deepest(branches), empties=max(empties - 1, 0), types=_written(branches))
        if isinstance(schema, str):
            return self._of_name(schema)
        kind = schema["type"]
        if kind in ("array", "map"):
            item = self.of(schema["items" if kind == "array" else "values"])
            self.walked |= item.empties > 0
            return Extent(1 + item.depth, types=_written([item]))
        if kind in ("record", "error"):
            self._named[schema["name"]] = None
            self._named[schema["name"]] = extent = self._of_record([self.of(each["type"]) for each in schema["fields"]])
            return extent
        if kind in ("enum", "fixed"):
            empty = kind == "fixed" and schema["size"] == 0
            self._named[schema["name"]] = extent = Extent(1, empty, int(empty))
            return extent
        return self.of(kind)

    def _of_name(self, name: str) -> Extent:
        if name not in self._named:
            return Extent(1, name == "null", int(name == "null"))
        found = self._named[name]
        if found is None:
            self.walked = True
        return found or Extent(0)

    @staticmethod
    def _of_record(fields: list[Extent]) -> Extent:
        empty = all(each.empty for each in fields)
        return Extent(1 + _deepest(fields), empty, sum(each.empties for each in fields) + empty, _written(fields))


def within_bounds(schema: Any, /, **place: Any) -> Extents:
    """The extents of a parsed schema; raises `InvalidRecord` at `place` for one that has too much of any."""
    extents = Extents()
    try:
        whole = extents.of(schema)
    except RecursionError as error:
        raise InvalidRecord("schema is too deep", reason="depth", **place, allowed=DEEPEST) from error
    if whole.depth > DEEPEST:
        raise InvalidRecord("schema is too deep", reason="depth", **place, got=whole.depth, allowed=DEEPEST)
    if whole.empties > MOST_EMPTY:
        raise InvalidRecord("schema has too many values without bytes", reason="empty", **place, allowed=MOST_EMPTY)
    if whole.types > MOST_TYPES:
        raise InvalidRecord("schema has too many types, names written out", reason="types", **place, allowed=MOST_TYPES)
    return extents


def _deepest(parts: list[Extent]) -> int:
    return max((each.depth for each in parts), default=0)


def _written(parts: list[Extent]) -> int:
    return 1 + sum(each.types for each in parts)
