"""MySQL's binary JSON → the text that SELECT shows of it.

Format: `json_binary.h` of the server; text: `wrapper_to_string` in its `json_dom.cc`. A document is a type and a value.
A container holds its count, its size, entries of keys (offset, length), entries of values (type, offset; small values
stand there themselves), keys, values; offsets count from its start; numbers have 2 bytes, in large containers 4.

Partial updates in place leave gaps, but never change the order: keys and values lie as their entries do (the server's
`has_space` and `get_free_space` rest on it too). What overlaps is refused, so reading stays linear in the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring
from typing import Final

from include.source.malformed import Malformed
from include.source.rows.json.scalar import double_text, opaque_text

__all__ = ["MOST_DEPTH", "json_text"]

MOST_DEPTH: Final = 100
"""Containers inside of each other, at most: the server's own limit."""

_Put = Callable[[str], None]
_LITERAL, _INT16, _DOUBLE, _STRING, _OPAQUE = 4, 5, 11, 12, 15
_LITERALS: Final = ("null", "true", "false")
_COUNT_AND_SIZE: Final = (struct.Struct("<HH"), struct.Struct("<II"))
_ENTRY: Final = (struct.Struct("<BH"), struct.Struct("<BI"))
_NAME: Final = (struct.Struct("<HH"), struct.Struct("<IH"))
_FIXED: Final = {
    kind: struct.Struct("<" + code)
    for kind, code in ((_INT16, "h"), (6, "H"), (7, "i"), (8, "I"), (9, "q"), (10, "Q"), (_DOUBLE, "d"))
}
_ROOM: Final = 1 << 18


def json_text(data: bytes) -> bytes:
    """The UTF-8 text of a binary document; that of no bytes, which lax SQL modes leave, is `null`.

    Bytes that no server writes raise `ValueError`.
    """
    if not data:
        return b"null"
    pieces: list[str] = []
    try:
        end = _value(data, data[0], 1, len(data), 0, pieces.append)
    except (IndexError, struct.error):
        raise Malformed("the JSON document is cut short") from None
    if end != len(data):
        raise Malformed(f"a JSON document does not end with its {len(data)} bytes")
    return "".join(pieces).encode()


def _value(data: bytes, kind: int, at: int, end: int, depth: int, put: _Put) -> int:
    """Put the text of the value at `at`, which must end by `end`; return where it ends."""
    if kind == _STRING:
        at, stop = _sized(data, at, end)
        put(encode_basestring(data[at:stop].decode()))
        return stop
    if kind < _LITERAL:
        return _container(data, kind, at, end, depth + 1, put)
    if kind in _FIXED:
        form = _FIXED[kind]
        stop = at + form.size
        if stop <= end:
            (number,) = form.unpack_from(data, at)
            put(double_text(number) if kind == _DOUBLE else str(number))
    elif kind == _OPAQUE:
        start, stop = _sized(data, at + 1, end)
        put(opaque_text(data[at], data[start:stop]))
    elif kind == _LITERAL:
        stop = at + 1
        put(_literal(data[at]))
    else:
        raise Malformed(f"JSON type {kind} at byte {at}")
    if stop > end:
        raise Malformed(f"a JSON value at byte {at} does not end within its container")
    return stop


def _container(data: bytes, kind: int, at: int, end: int, depth: int, put: _Put) -> int:
    """Put the text of an object (0, large 1) or array (2, large 3); return where it ends."""
    if depth > MOST_DEPTH:
        raise Malformed(f"JSON nested deeper than {MOST_DEPTH}")
    wide = kind & 1
    count, size = _COUNT_AND_SIZE[wide].unpack_from(data, at)
    first = at + (8 if wide else 4)
    if kind < 2:
        first += count * (6 if wide else 4)
    low = first + count * (5 if wide else 3)
    if size > end - at or low > at + size:
        raise Malformed(f"a JSON container does not fit into the {end - at} bytes from byte {at} on")
    end = at + size
    if not count:
        put("{}" if kind < 2 else "[]")
        return end
    entries = _ENTRY[wide].iter_unpack(data[first:low])
    names: tuple[str, ...]
    if kind < 2:
        names, low = _NAMES[wide].put_before(data, at, count, end)
    else:
        names = ("[",) + (", ",) * (count - 1)
    _members(data, at, low, end, zip(names, entries, strict=True), wide, depth, put)
    put("}" if kind < 2 else "]")
    return end


def _members(
    data: bytes,
    at: int,
    low: int,
    end: int,
    members: Iterable[tuple[str, tuple[int, int]]],
    wide: int,
    depth: int,
    put: _Put,
) -> None:
    """Put each of (what stands before it, its entry) of the container at `at`; its values begin at `low` or later."""
    for name, (kind, value) in members:
        put(name)
        # First what is most often there, without calls.
        if kind == _INT16 and value < 0x8000:
            put(str(value))
        elif _LITERAL <= kind <= 6 or (wide and 6 < kind < 9):
            put(_inline(kind, value))
        elif (start := at + value) < low:
            raise Malformed("a JSON value lies over what stands before it")
        elif kind == _STRING and (size := data[start]) < 0x80:
            low = start + 1 + size
            if low > end:
                raise Malformed("a JSON text does not end within its container")
            put(encode_basestring(data[start + 1 : low].decode()))
        else:
            low = _value(data, kind, start, end, depth, put)


def _inline(kind: int, value: int) -> str:
    """A value that stands in its entry. The rest of a wider place than it needs says nothing."""
    if kind == _LITERAL:
        return _literal(value & 0xFF)
    if kind < 7:
        value &= 0xFFFF
        return str(value - 0x10000 if kind == _INT16 and value > 0x7FFF else value)
    return str(value - 0x100000000 if kind == 7 and value > 0x7FFFFFFF else value)


def _literal(code: int) -> str:
    if code >= len(_LITERALS):
        raise Malformed("a JSON literal that is none")
    return _LITERALS[code]


def _sized(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the bytes after a variable length begin and end."""
    size = data[at]
    at += 1
    if size > 0x7F:
        size &= 0x7F
        for shift in (7, 14, 21, 28):
            more = data[at]
            at += 1
            size |= (more & 0x7F) << shift
            if more < 0x80:
                break
        else:
            raise Malformed(f"a JSON length of more than 5 bytes before byte {at}")
    if at + size > end:
        raise Malformed(f"a JSON value at byte {at} does not end within its container")
    return at, at + size


class _Names:
    """What to put before each value of an object, remembered by the bytes of its key entries and keys.

    Documents of a column mostly have the same keys: their checks and their text are made once.
    """

    def __init__(self, wide: int) -> None:
        self._entry = _NAME[wide]
        self._head = 8 if wide else 4
        # A key's entry, and that of its value.
        self._both = 11 if wide else 7
        # By key entries: first and last byte of keys, and by keys: the texts.
        self._known: dict[bytes, tuple[int, int, dict[bytes, tuple[str, ...]]]] = {}
        self._room = _ROOM

    def put_before(self, data: bytes, at: int, count: int, end: int) -> tuple[tuple[str, ...], int]:
        """The texts `{"key": ` or `, "key": ` of the object at `at`, and where its keys end."""
        start = at + self._head
        entries = data[start : start + count * self._entry.size]
        shape = self._known.get(entries)
        if shape is None:
            shape = (*self._extent(entries, count), {})
            if self._remembers(len(entries)):
                self._known[entries] = shape
        first, last, texts = shape
        if at + last > end:
            raise Malformed("the keys of a JSON object do not end within it")
        keys = data[at + first : at + last]
        key_texts = texts.get(keys)
        if key_texts is None:
            key_texts = self._texts(entries, keys, first)
            if self._remembers(len(keys) + len(entries)):
                texts[keys] = key_texts
        return key_texts, at + last

    def _extent(self, entries: bytes, count: int) -> tuple[int, int]:
        low = self._head + count * self._both
        first = self._entry.unpack_from(entries)[0]
        for offset, length in self._entry.iter_unpack(entries):
            if offset < low:
                raise Malformed("a key of a JSON object lies over what stands before it")
            low = offset + length
        return first, low

    def _texts(self, entries: bytes, keys: bytes, first: int) -> tuple[str, ...]:
        texts: list[str] = []
        before: bytes | None = None
        for offset, length in self._entry.iter_unpack(entries):
            key = keys[offset - first : offset - first + length]
            if before is not None and (len(before), before) >= (length, key):
                raise Malformed("a key of a JSON object does not follow the one before it")
            texts.append(f"{', ' if texts else '{'}{encode_basestring(key.decode())}: ")
            before = key
        return tuple(texts)

    def _remembers(self, size: int) -> bool:
        """Whether there is room for so many bytes; all is forgotten when it was full."""
        if size > _ROOM // 16:
            return False
        self._room -= size
        if self._room < 0:
            self._known.clear()
            self._room = _ROOM
        return True


_NAMES: Final = (_Names(0), _Names(1))
