"""Fields of records found in plain Python: the twin of `record.native`, and the one that says what is wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from include.errors import InvalidRecord
from include.record.extent import DEEPEST, MOST_EMPTY, within_bounds

__all__ = ["PlainFields", "Walk"]

Pass = Callable[[bytes, int, int], int]
"""(data, begin of a value, end of the data) → end of the value; raises `_BrokenError`."""

_LONGEST_VARINT: Final = 10
_SIZES: Final = {"float": 4, "double": 8}


class _BrokenError(Exception):
    """What is wrong, in a few words."""


class PlainFields:
    """Finds the fields of one schema's records; the contract is that of `record.fields.Fields`."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises `InvalidRecord` for a schema beyond the bounds of `record.extent`."""
        self._walk = made = Walk(schema, schema=schema["name"])
        self._fields = made.fields[schema["name"]]
        self._types = [made.known(field["type"]) for field in schema["fields"]]

    def borders(self, data: bytes, begin: int, end: int) -> tuple[int, ...]:
        """The offsets at which the fields in `data[begin:end]` begin, then the last one's end; or `InvalidRecord`."""
        if not 0 <= begin <= end <= len(data):
            raise InvalidRecord("value is not what its schema says", reason="it ends too early", begin=begin)
        offsets, offset = [begin], begin
        self._walk.begin()
        try:
            for each in self._fields:
                offset = each(data, offset, end)
                offsets.append(offset)
        except _BrokenError as error:
            raise InvalidRecord(
                "value is not what its schema says", reason=str(error), field=len(offsets) - 1
            ) from error
        if offset != end:
            raise InvalidRecord("value is longer than its schema says", reason="trailing bytes", size=end - offset)
        return tuple(offsets)

    def cut(self, data: bytes, places: Sequence[int], begin: int, end: int) -> tuple[bytes, ...]:
        """The bytes of these fields; raises as `borders`, and `IndexError` for a place that is none."""
        borders = self.borders(data, begin, end)
        if places and not 0 <= min(places) <= max(places) < len(self._fields):
            raise IndexError("a record has no such field")
        return tuple(data[borders[place] : borders[place + 1]] for place in places)

    def images(self, data: bytes, places: tuple[int, int, int], begin: int) -> tuple[str, bytes | None, bytes | None]:
        """(op, before, after) of the envelope in `data[begin:]`; raises as `borders`."""
        borders = self.borders(data, begin, len(data))
        op, before, after = places
        at, _ = _varint(data, borders[op], borders[op + 1])
        text = data[at : borders[op + 1]].decode()
        return text, None if before < 0 else self._image(data, borders, before), self._image(data, borders, after)

    def _image(self, data: bytes, borders: Sequence[int], place: int) -> bytes | None:
        begin, end = borders[place], borders[place + 1]
        union = self._types[place]
        if isinstance(union, list):
            begin, branch = _varint(data, begin, end)
            if union[branch] == "null":
                return None
        return data[begin:end]


class _Spent(threading.local):
    """Of what a record may have, in this thread."""

    depth = 0
    empties = 0


class Walk:
    """Passes over values of one schema; named types are looked up when a value comes, so they may name themselves.

    Attributes:
        fields: what passes over the fields of each record, by its name.
        needed: whether other readers need it before them, as only bytes tell whether a record is within the bounds.
    """

    def __init__(self, schema: Any, /, *, sizes: bool = True, **place: Any) -> None:
        """`schema` as fastavro parsed it. Raises `InvalidRecord` at `place` for one beyond the bounds.

        `sizes`: whether blocks must be as long as they say; readers that count their items do not look.
        """
        self._sizes = sizes
        self._named: dict[str, Pass] = {}
        self._schemas: dict[str, Any] = {}
        self._around: dict[str, int] = {}
        self._level = 0
        self._spent = _Spent()
        self._extents = within_bounds(schema, **place)
        self.needed = self._extents.walked
        self.fields: dict[str, list[Pass]] = {}
        self._whole = self.of(schema)

    def refusal(self, data: bytes, begin: int) -> str:
        """Why at `begin` in `data` no value within the bounds begins; empty where one does."""
        self.begin()
        try:
            self._whole(data, begin, len(data))
        except _BrokenError as error:
            return str(error)
        return ""

    def begin(self) -> None:
        """Nothing is spent yet of what a record may have."""
        if self.needed:
            self._spent.depth = self._spent.empties = 0

    def known(self, schema: Any) -> Any:
        """The schema, or the one that its name stands for."""
        return self._schemas.get(schema, schema) if isinstance(schema, str) else schema

    def of(self, schema: Any) -> Pass:
        """What passes over values of `schema`, a part of the whole."""
        self._level += 1
        found = self._of(schema)
        self._level -= 1
        return found

    def _of(self, schema: Any) -> Pass:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return _PLAIN[schema] if schema in _PLAIN else self._reference(schema)
        kind = schema["type"]
        if isinstance(kind, list | dict):
            return self._of(kind)
        if kind in ("record", "error", "enum", "fixed"):
            self._schemas[schema["name"]] = schema
            self._around[schema["name"]] = self._level
            self._named[schema["name"]] = found = self._definition(schema, kind)
            del self._around[schema["name"]]
            return found
        if kind in ("array", "map"):
            return self._items(schema["items" if kind == "array" else "values"], keyed=kind == "map")
        return self._of(kind)

    def _definition(self, schema: Mapping[str, Any], kind: str) -> Pass:
        if kind == "fixed":
            return _fixed(schema["size"])
        if kind == "enum":
            return _enum(len(schema["symbols"]))
        fields = self.fields[schema["name"]] = [self.of(field["type"]) for field in schema["fields"]]

        def record(data: bytes, at: int, end: int) -> int:
            for each in fields:
                at = each(data, at, end)
            return at

        return record

    def _union(self, branches: Sequence[Any]) -> Pass:
        passes = [self.of(each) for each in branches]

        def union(data: bytes, at: int, end: int) -> int:
            at, branch = _varint(data, at, end)
            if not 0 <= branch < len(passes):
                raise _BrokenError("a union has no such branch")
            return passes[branch](data, at, end)

        return union

    def _reference(self, name: str) -> Pass:
        if name not in self._around:
            return self._named[name]
        levels, spent = self._level - self._around[name], self._spent

        def itself(data: bytes, at: int, end: int) -> int:
            spent.depth += levels
            if spent.depth > DEEPEST:
                raise _BrokenError("it is too deep")
            at = self._named[name](data, at, end)
            spent.depth -= levels
            return at

        return itself

    def _items(self, schema: Any, *, keyed: bool) -> Pass:
        """Blocks of items: their number, or its negative and their bytes; none ends them."""
        item, spent, extent, sizes = self.of(schema), self._spent, self._extents.of(schema), self._sizes
        # A loop over nothing could be one without end.
        nothing = extent.empty and not keyed

        def items(data: bytes, at: int, end: int) -> int:
            while True:
                at, count = _varint(data, at, end)
                size = -1
                if count < 0:
                    at, size = _varint(data, at, end)
                    if sizes and not 0 <= size <= end - at:
                        raise _BrokenError("it ends too early" if size > 0 else "a size is negative")
                if not count:
                    return at
                begin, count = at, abs(count)
                if extent.empties:
                    spent.empties += count * extent.empties
                    if spent.empties > MOST_EMPTY:
                        raise _BrokenError("it has too many values without bytes")
                for _ in range(0 if nothing else count):
                    at = item(data, _string(data, at, end) if keyed else at, end)
                if sizes and size >= 0 and at - begin != size:
                    raise _BrokenError("a block has another size than it says")

        return items


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """(end, value) of a zigzag varint of 64 bits."""
    value = 0
    for i in range(min(_LONGEST_VARINT, end - at)):
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if value >> 64:
                break
            return at + i + 1, (value >> 1) ^ -(value & 1)
    raise _BrokenError("it ends too early" if end - at < _LONGEST_VARINT else "a number has more than 64 bits")


def _long(data: bytes, at: int, end: int) -> int:
    return _varint(data, at, end)[0]


def _int(data: bytes, at: int, end: int) -> int:
    at, value = _varint(data, at, end)
    if not -(1 << 31) <= value < 1 << 31:
        raise _BrokenError("an int has more than 32 bits")
    return at


def _boolean(data: bytes, at: int, end: int) -> int:
    if at >= end:
        raise _BrokenError("it ends too early")
    if data[at] > 1:
        raise _BrokenError("a boolean is neither 0 nor 1")
    return at + 1


def _bytes(data: bytes, at: int, end: int) -> int:
    at, size = _varint(data, at, end)
    if not 0 <= size <= end - at:
        raise _BrokenError("it ends too early" if size > 0 else "a size is negative")
    return at + size


def _string(data: bytes, at: int, end: int) -> int:
    stop = _bytes(data, at, end)
    begin, _ = _varint(data, at, end)
    try:
        data[begin:stop].decode()
    except UnicodeDecodeError:
        raise _BrokenError("a text is not UTF-8") from None
    return stop


def _fixed(size: int) -> Pass:
    def fixed(_: bytes, at: int, end: int) -> int:
        if size > end - at:
            raise _BrokenError("it ends too early")
        return at + size

    return fixed


def _enum(symbols: int) -> Pass:
    def enum(data: bytes, at: int, end: int) -> int:
        at, symbol = _varint(data, at, end)
        if not 0 <= symbol < symbols:
            raise _BrokenError("an enum has no such symbol")
        return at

    return enum


_PLAIN: Final[dict[str, Pass]] = {
    "null": lambda _, at, __: at,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _fixed(_SIZES["float"]),
    "double": _fixed(_SIZES["double"]),
    "string": _string,
    "bytes": _bytes,
}
