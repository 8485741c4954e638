"""Row images of any layout, made up: what servers write, and what they do not. Equal seeds give equal bytes."""

from __future__ import annotations

import struct
import zlib
from random import Random
from typing import Final

from include.record.schema import Column, TableSchema
from include.source.charsets.charset import CHARSETS, max_bytes
from include.source.rows.layout import FIXED, FRACTION_BYTES, Field, Layout, decimal_groups
from include.source.rows.shape import TableShape

__all__ = ["KINDS", "event", "field", "layout_of", "value"]

KINDS: Final = (
    "int", "float", "decimal", "decimal_old", "year", "date", "datetime", "datetime_old", "datetime_hires",
    "timestamp", "timestamp_old", "timestamp_hires", "time", "time_old", "time_hires", "bit", "enum", "set",
    "text", "binary", "text_compressed", "binary_compressed", "json", "vector", "uuid", "inet4", "inet6",
)  # fmt: skip
_TYPES: Final = {"decimal_old": "decimal", "text": "text", "binary": "blob", "text_compressed": "text",
                 "binary_compressed": "blob"}  # fmt: skip
_JSON: Final = (b"\x04\x00", b"\x05\xfe\xff", b"\x0c\x03abc", b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x07\x00a")


def field(random: Random, kind: str, name: str) -> Field:
    """A column of that kind, of any size that a server allows."""
    base = kind.removesuffix("_old").removesuffix("_hires")
    if base in ("datetime", "timestamp", "time"):
        digits = 0 if kind.endswith("_old") else random.randint(1 if kind.endswith("_hires") else 0, 6)
        return Field(Column(name, base, digits=digits), kind, digits)  # type: ignore[arg-type]
    if kind == "int":
        size, unsigned = random.choice((1, 2, 3, 4, 8)), random.randint(0, 1)
        types = {1: "tinyint", 2: "smallint", 3: "mediumint", 4: "int", 8: "bigint"}
        return Field(Column(name, types[size], unsigned=bool(unsigned)), "int", size, unsigned)
    if kind == "float":
        size = random.choice((4, 8))
        return Field(Column(name, "float" if size == 4 else "double"), "float", size)
    if base == "decimal":
        precision = random.choice((random.randint(1, 18), random.randint(1, 65)))
        scale = random.randint(0, min(30, precision))
        column = Column(name, "decimal", precision=precision, scale=scale)
        width = precision + random.randint(0, 1) + bool(scale)
        return Field(column, kind, precision if kind == "decimal" else width, scale)  # type: ignore[arg-type]
    if kind == "bit":
        bits = random.randint(1, 64)
        return Field(Column(name, "bit", length=bits), "bit", bits, (bits + 7) // 8)
    if kind in ("enum", "set"):
        count = random.randint(1, 300 if kind == "enum" else 64)
        labels = tuple(random.choice(("", "é", "label", "🐦")) + str(i) for i in range(count))
        size = 1 + (count > 255) if kind == "enum" else min(size for size in (1, 2, 3, 4, 8) if 8 * size >= count)
        return Field(Column(name, kind, charset="utf8mb4", labels=labels), kind, size, labels=labels)  # type: ignore[arg-type]
    if kind in ("uuid", "inet4", "inet6"):
        return Field(Column(name, kind), kind, 4 if kind == "inet4" else 16)  # type: ignore[arg-type]
    charset = random.choice(("utf8mb4", "latin1", random.choice(CHARSETS))) if kind.startswith("text") else None
    padded = random.choice((0, 0, 20)) if kind == "binary" else 0
    prefix = random.randint(1, 4)
    return Field(Column(name, _TYPES.get(kind, kind), charset=charset), kind, prefix, padded)  # type: ignore[arg-type]


def layout_of(random: Random, kinds: tuple[str, ...]) -> Layout:
    """A table `d.t` of an `id` and columns of these kinds: some keys of several columns, some columns left out."""
    fields = (Field(Column("id", "int"), "int", 4), *(field(random, kind, f"c{i}") for i, kind in enumerate(kinds)))
    columns = tuple(each.column for each in fields)
    leaving = tuple(column for column in columns if column.name == "id" or random.random() < 0.9)
    names = [column.name for column in leaving]
    every = random.random() < 0.2
    key = tuple(names) if every else tuple(random.sample(names, min(len(names), random.choice((1, 1, 2)))))
    by = tuple(random.sample(names, 1)) if random.random() < 0.3 else ()
    schema = TableSchema("d", "t", leaving, key, frozenset(names) if every else frozenset())
    return Layout(TableShape(columns, schema, by), fields)


def value(random: Random, each: Field) -> bytes:
    """A value as it lies in an image, mostly one that a server writes."""
    if each.kind not in FIXED:
        data = _data(random, each)
        prefix = 1 if each.kind in ("uuid", "inet4", "inet6") else each.a
        return len(data).to_bytes(prefix, "little") + data if len(data) < 1 << 8 * prefix else bytes(prefix)
    if random.random() < 0.03:
        return random.randbytes(each.size)
    if random.random() < 0.1:
        return random.choice((b"\0", b"\xff")) * each.size
    return _fixed(random, each)


def event(random: Random, layout: Layout, sides: int, rows: int, *, nulls: float = 0.2) -> bytes:
    """The body of an event, from its width on; `nulls`: how many values are null, but for those that may not be."""
    width = len(layout.fields)
    needed = {i for i, union in layout.shape.key_parts if not union} | set(layout.shape.by_parts)
    full = random.choice((b"\xff" * ((width + 7) // 8), ((1 << width) - 1).to_bytes((width + 7) // 8, "little")))
    out = [bytes((width,)) if width < 251 else b"\xfc" + width.to_bytes(2, "little"), full * sides]
    for _ in range(rows * sides):
        gone = [i not in needed and random.random() < nulls for i in range(width)]
        bits = sum(1 << i for i in range(width) if gone[i])
        out.append(bits.to_bytes((width + 7) // 8, "little"))
        out += [value(random, each) for i, each in enumerate(layout.fields) if not gone[i]]
    return b"".join(out)


def _fixed(random: Random, each: Field) -> bytes:
    kind, size = each.kind, each.size
    day = random.choice((0, random.randint(1, 28), random.randint(0, 31)))
    month, year = random.randint(0, 12), random.choice((0, random.randint(1, 9999)))
    hour, minute, second = random.randint(0, 23), random.randint(0, 59), random.randint(0, 59)
    part = random.randrange(10**each.a) if kind.endswith("_hires") else 0
    fraction = b""
    if kind in ("datetime", "timestamp", "time"):
        bytes_ = FRACTION_BYTES[each.a]
        fraction = random.randrange(100**bytes_).to_bytes(bytes_, "big")
    if kind == "date":
        return (year << 9 | month << 5 | day).to_bytes(3, "little")
    if kind == "datetime":
        raw = (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second
        return (raw + 0x8000000000).to_bytes(5, "big") + fraction
    if kind == "datetime_old":
        return ((((((year * 100 + month) * 100 + day) * 100 + hour) * 100) + minute) * 100 + second).to_bytes(
            8, "little"
        )
    if kind == "datetime_hires":
        raw = ((((year * 13 + month) * 32 + day) * 24 + hour) * 60 + minute) * 60 + second
        return int(raw * 10**each.a + part).to_bytes(size, "big")
    if kind == "timestamp_hires":
        return random.randbytes(4) + part.to_bytes(size - 4, "big")
    if kind == "time":
        clock = random.choice((hour, 838)) << 12 | minute << 6 | second
        raw = clock << 8 * len(fraction) | int.from_bytes(fraction, "big")
        return ((0x800000 << 8 * len(fraction)) + random.choice((raw, -raw))).to_bytes(size, "big")
    if kind == "time_old":
        clock = hour * 10_000 + minute * 100 + second
        return random.choice((clock, -clock)).to_bytes(3, "little", signed=True)
    if kind == "time_hires":
        return int(random.randrange(6_040_800) * 10**each.a + part).to_bytes(size, "big")
    if kind == "timestamp":
        return random.randbytes(4) + fraction
    return _number(random, each)


def _number(random: Random, each: Field) -> bytes:
    kind, size = each.kind, each.size
    if kind == "decimal":
        sizes, powers = decimal_groups(each.a, each.b)
        data = bytearray(b"".join(
            random.choice((0, 1, power - 1, random.randrange(power))).to_bytes(n, "big")
            for n, power in zip(sizes, powers, strict=True)
        ))  # fmt: skip
        data[0] ^= 0x80
        return bytes(data) if random.random() < 0.5 else bytes(each ^ 0xFF for each in data)
    if kind == "decimal_old":
        whole = each.a - each.b - bool(each.b)
        text = str(random.randrange(10 ** max(1, whole - 1))) if whole > 1 else random.choice(("", "0"))
        if len(text) < whole and random.random() < 0.3:
            text = random.choice("-+") + text
        point = "." + "".join(random.choices("0123456789", k=each.b)) if each.b else ""
        return (text[:whole].rjust(whole) + point).encode()
    if kind == "bit":
        return random.randrange(1 << each.a).to_bytes(size, "big")
    if kind in ("enum", "set"):
        count = len(each.labels)
        return random.randrange(count + 1 if kind == "enum" else 1 << count).to_bytes(size, "little")
    return random.randbytes(size)


def _data(random: Random, each: Field) -> bytes:
    kind, size = each.kind, random.choice((0, 1, 3, random.randint(0, 40), 300))
    if kind == "json":
        return random.choice(_JSON)
    if kind == "vector":
        return random.randbytes(4 * (size // 4))
    if kind in ("uuid", "inet4", "inet6"):
        return random.randbytes(random.choice((each.a, each.a, random.randint(0, each.a)))).rstrip(b"\0")
    data = _text(random, each.column.charset or "", size) if kind.startswith("text") else random.randbytes(size)
    if not kind.endswith("_compressed") or random.random() < 0.3:
        return b"\0" + data if kind.endswith("_compressed") else data
    raw = random.random() < 0.5
    engine = zlib.compressobj(6, zlib.DEFLATED, -15 if raw else 15)
    return bytes((0x84 | raw << 3,)) + struct.pack(">I", len(data)) + engine.compress(data) + engine.flush()


def _text(random: Random, charset: str, size: int) -> bytes:
    if charset in ("ucs2", "utf16"):
        return "aé€"[: size or 1].encode("utf-16-be")
    if charset in ("utf16le", "utf32"):
        return "aé€"[: size or 1].encode("utf-16-le" if charset == "utf16le" else "utf-32-be")
    if random.random() < 0.5:
        return bytes(random.choices(range(32, 127), k=size))
    if charset.startswith("utf8"):
        last = 0x110000 if charset == "utf8mb4" else 0x10000
        points = [random.choice((random.randrange(0x80), random.randrange(last))) for _ in range(size)]
        return "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000).encode()
    if max_bytes(charset) == 1:
        return random.randbytes(size)
    return bytes(random.choices(range(32, 127), k=size))
