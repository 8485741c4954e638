"""Makes Python functions that turn one row image into Avro: one for each layout, columns present and null pattern.

What a generated function does with its image, in one pass: values of a known size in one `unpack_from` for each run of
them, the others by their length; each value to its piece (`avro`), and all pieces joined. Nulls beside each other are
one literal. `(image, at) -> (end, row, key, by, invalid)` or, `cells`, `(end, pieces, invalid)`:

* `row`: the row's record without the field of invalid dates, `invalid` (name, text) pairs for it;
* `key`, `by`: bare values of the key's columns and of those that choose the partition (`by` None without any); with a
  null among them the function is not made: `TableShape.no_key`;
* `pieces`: the piece of each field, None of those absent or skipped. A field in `raw` stands as the bytes of the image.

Bytes that end too early give an `end` beyond the image, an `IndexError` or a `struct.error`; bytes that no server
writes a `ValueError`. The caller names the place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from include.source.charsets.charset import is_utf8, text_decoder
from include.source.rows.avro import LAST, LAST_PIECE, MORE, MORE_PIECE, NULL, long, long_piece, sized
from include.source.rows.json.binary import json_text
from include.source.rows.layout import FIXED, Field, Layout
from include.source.rows.number import enum_pieces, number_writer
from include.source.rows.other_types import inet4_text, inet6_text, uncompressed, uuid_text, vector_piece
from include.source.rows.temporal import moment_writer

__all__ = ["RowFunction", "make"]

RowFunction = Callable[[bytes, int], tuple[Any, ...]]

_MOMENTS: Final = frozenset(
    f"{base}{form}" for base in ("datetime", "timestamp", "time") for form in ("", "_old", "_hires")
) | {"date"}
_INT_FORMATS: Final = {(1, 0): "b", (1, 1): "B", (2, 0): "h", (2, 1): "H", (4, 0): "i", (4, 1): "I", (8, 0): "q"}
# Charsets in which a value of bytes below 0x80 alone is not the same text in ASCII.
_NOT_ASCII: Final = frozenset({"ucs2", "utf16", "utf16le", "utf32", "swe7"})


def make(
    layout: Layout,
    present: tuple[bool, ...],
    nulls: tuple[bool, ...],
    *,
    cells: bool = False,
    raw: frozenset[int] = frozenset(),
) -> RowFunction:
    """The function for images that hold the `present` columns, of which `nulls` are null (both by ordinal)."""
    return _Maker(layout, present, nulls, raw).make(cells)


class _Maker:
    def __init__(self, layout: Layout, present: tuple[bool, ...], nulls: tuple[bool, ...], raw: frozenset[int]) -> None:
        self.layout = layout
        self.shape = layout.shape
        self.nulls = nulls
        self.raw = raw
        self.names: dict[str, Any] = {"L": long, "P": long_piece, "Z": sized, "SIZED": _SIZED}
        self.lines: list[str] = []
        self.pieces: list[str | None] = [None] * len(layout.fields)
        self.present = present
        self.run: list[tuple[int, str]] = []
        self.moments = False
        self.masks = self.shape.masked_dates
        self.at = 0

    def make(self, cells: bool) -> RowFunction:
        if cells:
            # `TableShape.image` masks them.
            self.masks = {}
        for i, field in enumerate(self.layout.fields):
            if not self.present[i]:
                continue
            if self.nulls[i]:
                if i not in self.shape.skipped:
                    self.pieces[i] = repr(NULL)
            elif field.kind in FIXED:
                self.run.append((i, self._format(i, field)))
            else:
                self._flush()
                self._sized(i, field)
        self._flush()
        head = ["def made(d, at):"]
        if self.moments:
            head.append("    bad = []")
        bad = "bad" if self.moments else "()"
        if cells:
            listed = ", ".join(piece or "None" for piece in self.pieces)
            tail = f"    return at, [{listed}], {bad}"
        else:
            key, by = self._key(), self._by()
            tail = f"    return at, {self._row()}, {key}, {by}, {bad}"
        exec("\n".join([*head, *self.lines, tail]), self.names)  # noqa: S102 - text of our own making
        made: RowFunction = self.names["made"]
        return made

    def _row(self) -> str:
        pieces = []
        for i, piece in enumerate(self.pieces):
            if i in self.shape.unsent:
                continue
            if piece is not None and i in self.shape.masked and (i not in self.masks or piece == repr(NULL)):
                pieces.append(f"({self._name('m', i, self.shape.masked[i])}({piece}))")
            elif piece is not None:
                pieces.append(piece)
        return _joined(pieces)

    def _by(self) -> str:
        return _joined([self._bare(i) for i in self.shape.by_parts]) if self.shape.by_parts else "None"

    def _key(self) -> str:
        parts = [f"({self.pieces[i]})" if union else self._bare(i) for i, union in self.shape.key_parts]
        return _joined(parts)

    def _bare(self, i: int) -> str:
        piece = self.pieces[i]
        if piece == repr(NULL):
            raise self.shape.no_key(i)
        if self.layout.fields[i].kind in _MOMENTS:
            self.names["NO_KEY"] = self.shape.no_key
            self.lines.append(f"    if p{i} == {NULL!r}: raise NO_KEY({i})")
        return f"({piece})[1:]"

    def _name(self, prefix: str, i: int, value: Any) -> str:
        name = f"{prefix}{i}"
        self.names[name] = value
        return name

    def _format(self, i: int, field: Field) -> str:
        if i in self.shape.skipped:
            return f"{field.size}x"
        if field.kind == "int":
            found = _INT_FORMATS.get((field.a, field.b))
            if found:
                return found
        if field.kind == "enum" and field.size == 1:
            return "B"
        return f"{field.size}s"

    def _flush(self) -> None:
        """The run of values of known sizes gathered so far: one unpack, then a piece each."""
        if not self.run:
            return
        unpack = struct.Struct("<" + "".join(form for _, form in self.run))
        first = self.run[0][0]
        targets = [i for i, form in self.run if not form.endswith("x")]
        call = f"{self._name('u', first, unpack.unpack_from)}(d, at)"
        self.lines.append(f"    {''.join(f'v{i}, ' for i in targets)}= {call}" if targets else f"    {call}")
        self.lines.append(f"    at += {unpack.size}")
        for i in targets:
            self._fixed(i, self.layout.fields[i])
        self.run = []

    def _fixed(self, i: int, field: Field) -> None:
        kind = field.kind
        if i in self.raw:
            self.pieces[i] = f"v{i}"
        elif kind == "int" and (field.a, field.b) in _INT_FORMATS:
            self.pieces[i] = self._int(i, field)
        elif kind == "enum" and field.size == 1:
            pieces = enum_pieces(field)
            other = self._name("w", i, _number_writer(field))
            self.lines.append(
                f"    p{i} = {self._name('e', i, pieces)}[v{i}] if v{i} < {len(pieces)} else {other}(bytes((v{i},)))"
            )
            self.pieces[i] = f"p{i}"
        elif kind == "int" and field.a == 3:
            self.names["I"] = int.from_bytes
            self.pieces[i] = f"P(I(v{i}, 'little'{'' if field.b else ', signed=True'}))"
        elif kind == "float":
            self.pieces[i] = f"b'\\x02' + v{i}"
        elif i in self.masks:
            write = self.shape.masked_moment(i, _moment_writer(field))
            self.lines.append(f"    p{i} = {self._name('w', i, write)}(v{i})")
            self.pieces[i] = f"p{i}"
        elif kind in _MOMENTS:
            self.lines.append(f"    p{i}, t = {self._name('w', i, _moment_writer(field))}(v{i})")
            if not kind.startswith("time") or kind.startswith("timestamp"):
                self.moments = True
                self.lines.append(f"    if t is not None: bad.append(({field.column.name!r}, t))")
            self.pieces[i] = f"p{i}"
        else:
            self.lines.append(f"    p{i} = {self._name('w', i, _number_writer(field))}(v{i})")
            self.pieces[i] = f"p{i}"

    def _int(self, i: int, field: Field) -> str:
        """The piece of an integer; those of up to four bytes are written out, as a call costs more than they do."""
        if field.a == 1:
            self.names["B"] = _BYTES
            return f"B[v{i}]"
        if field.a == 8:
            return f"P(v{i})"
        self.names |= _TABLES
        self.lines.append(
            f"    z = v{i} + v{i}" if field.b else f"    z = v{i} + v{i} if v{i} >= 0 else ~(v{i} + v{i})"
        )
        rest = "LAST[z >> 14]"
        if field.a == 4:
            rest = f"({rest} if z < {1 << 28} else MORE[z >> 14 & {_MASK}] + LAST[z >> 28])"
        self.lines.append(f"    p{i} = LAST_PIECE[z] if z <= {_MASK} else MORE_PIECE[z & {_MASK}] + {rest}")
        return f"p{i}"

    def _sized(self, i: int, field: Field) -> None:
        prefix = 1 if field.kind in ("uuid", "inet4", "inet6") else field.a
        if prefix == 1:
            self.lines.append("    n = d[at]; at += 1")
        elif prefix == 2:
            self.lines.append("    n = d[at] | d[at + 1] << 8; at += 2")
        else:
            self.names["I"] = int.from_bytes
            self.lines.append(f"    n = I(d[at:at + {prefix}], 'little'); at += {prefix}")
        if i in self.shape.skipped:
            self.lines.append("    at += n")
            return
        # A slice beyond the end is short, without an error: the caller finds `at` beyond the image.
        self.lines.append(f"    x{i} = d[at:at + n]; at += n")
        self.pieces[i] = f"x{i}" if i in self.raw else self._string(i, field)

    def _string(self, i: int, field: Field) -> str:
        kind = field.kind
        same = kind == "binary" and not field.b
        if kind.endswith("_compressed"):
            self.names["D"] = uncompressed
            self.lines.append(f"    x{i} = D(x{i})")
        if kind.startswith("text"):
            same = self._text(i, field) and kind == "text"
        elif kind == "binary" and field.b:
            self.lines.append(f"    x{i} = x{i}.ljust({field.b}, b'\\0')")
        elif kind in _RARE:
            made = self._name("w", i, _RARE[kind])
            if kind == "vector":
                self.lines.append(f"    p{i} = {made}(x{i})")
                return f"p{i}"
            self.lines.append(f"    x{i} = {made}(x{i})")
        if not same:
            self.lines.append(f"    n = len(x{i})")
        self.lines.append(f"    h{i} = SIZED[n] if n < {len(_SIZED)} else P(n)")
        return f"h{i} + x{i}"

    def _text(self, i: int, field: Field) -> bool:
        """Whether it has as many bytes as it had."""
        charset = field.column.charset or ""
        decode = text_decoder(charset)
        name = self._name("c", i, decode if is_utf8(charset) else _transcoder(decode))
        change = f"{name}(x{i})" if is_utf8(charset) else f"x{i} = {name}(x{i})"
        self.lines.append(f"    {change}" if charset in _NOT_ASCII else f"    if not x{i}.isascii(): {change}")
        return is_utf8(charset)


_number_writer: Final = lru_cache(4096)(number_writer)
_moment_writer: Final = lru_cache(4096)(moment_writer)
# By values from -128 to 255: a negative index counts from the end.
_BYTES: Final = [long_piece(n) for n in (*range(256), *range(-128, 0))]
_MASK: Final = len(LAST) - 1
_TABLES: Final = {"LAST": LAST, "MORE": MORE, "LAST_PIECE": LAST_PIECE, "MORE_PIECE": MORE_PIECE}
_SIZED: Final = [long_piece(n) for n in range(4096)]
_RARE: Final[dict[str, Callable[[bytes], bytes]]] = {
    "json": json_text,
    "vector": vector_piece,
    "uuid": uuid_text,
    "inet4": inet4_text,
    "inet6": inet6_text,
}


def _transcoder(decode: Callable[[bytes], str]) -> Callable[[bytes], bytes]:
    return lambda data: decode(data).encode()


def _joined(parts: list[str]) -> str:
    """An expression for all parts in a row; nulls beside each other become one literal."""
    flat: list[str] = []
    nulls = 0
    for part in (*parts, ""):
        if part == repr(NULL):
            nulls += 1
            continue
        if nulls:
            flat.append(repr(NULL * nulls))
            nulls = 0
        if part:
            flat += (part,) if part.startswith("(") else part.split(" + ")
    if not flat:
        return "b''"
    return flat[0] if len(flat) == 1 else f"b''.join(({', '.join(flat)}))"
