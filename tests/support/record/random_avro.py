"""Random Avro schemas and wire values of them, of every type and logical type, sensible ones and odd ones."""

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any, Final

__all__ = [
    "HOSTILE",
    "damaged",
    "doubling",
    "encoded",
    "key_schema_of",
    "ladder",
    "long",
    "nested",
    "schema_of",
    "wire",
]

_LOGICAL: Final[list[dict[str, Any]]] = [
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 65, "scale": 30},
    {"type": "bytes", "logicalType": "decimal", "precision": 5},
    {"type": "bytes", "logicalType": "decimal"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "long", "logicalType": "nobody-knows"},
    {"type": "string", "logicalType": "decimal", "precision": 4},
]
_SCALARS: Final = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]
_TEXTS: Final = [
    "",
    "a",
    "margherita",
    'say "so"',
    "back\\slash",
    "\x00\x1f\x7f",
    "tab\tline\nfeed\r\f\b",
    "naïve 🍕 \u2028",
]
_UUIDS: Final = ["{12345678-1234-5678-1234-567812345678}", "urn:uuid:12345678123456781234567812345678", "x" * 36]
_NUMBERS: Final = [0.0, -0.0, 1.0, 12.5, 0.1, 1e300, -1e-300, 5e-324, 1e15, 123456789.123456, math.inf, math.nan, 0.001]


def schema_of(random: Random, depth: int = 3) -> Any:
    """A record's schema, mostly; with nothing of no bytes in arrays, which a count alone could make endless."""
    return _Maker(random).record(depth) if random.random() < 0.9 else _Maker(random).any(depth)


def key_schema_of(random: Random) -> Any:
    """A record as keys are, mostly of one scalar."""
    made = _Maker(random)
    fields = [{"name": f"k{i}", "type": made.part()} for i in range(random.choice((1, 1, 1, 2, 3)))]
    return {"type": "record", "name": "Key", "fields": fields}


class _Maker:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._named: list[str] = []
        self._names = 0

    def any(self, depth: int) -> Any:
        draw = self._random.random()
        if depth <= 0 or draw < 0.5:
            return self.scalar()
        if draw < 0.65:
            return self.record(depth)
        if draw < 0.75:
            return {"type": "array", "items": self._sized(depth - 1)}
        if draw < 0.83:
            return {"type": "map", "values": self.any(depth - 1)}
        # Unions hold each unnamed type once, and no union.
        return ["null", self._single(depth - 1)] if draw < 0.95 else ["int", "string", "null"]

    def part(self) -> Any:
        """What may be in a key."""
        return self.scalar() if self._random.random() < 0.8 else ["null", self._single(0)]

    def scalar(self) -> Any:
        draw = self._random.random()
        if draw < 0.45:
            return self._random.choice(_SCALARS)
        if draw < 0.8:
            return dict(self._random.choice(_LOGICAL))
        if draw < 0.88:
            return {
                "type": "enum",
                "name": self._name(),
                "symbols": ["NEW", "PAID", "SENT"][: self._random.randint(1, 3)],
            }
        if draw < 0.92 and self._named:
            return self._random.choice(self._named)
        fixed: dict[str, Any] = {"type": "fixed", "name": self._name(), "size": self._random.choice((1, 7, 16))}
        if fixed["size"] > 1 and self._random.random() < 0.5:
            fixed |= {"logicalType": "decimal", "precision": 9, "scale": 3}
        return fixed

    def record(self, depth: int) -> Any:
        name = self._name()
        names = [f"{self._random.choice('zebra_YX')}{i}" for i in range(self._random.randint(0, 6))]
        if self._random.random() < 0.3:
            names.sort()
        fields = [{"name": each, "type": self.any(depth - 1)} for each in names]
        self._named.append(name)
        return {"type": "record", "name": name, "fields": fields}

    def _sized(self, depth: int) -> Any:
        known = list(self._named)
        found = self.any(depth)
        if isinstance(found, str) and found not in _SCALARS:
            return "string"
        sized = found != "null" and not (isinstance(found, dict) and found["type"] == "record")
        if sized:
            return found
        self._named = known
        return {"type": "record", "name": self._name(), "fields": [{"name": "n", "type": "int"}]}

    def _single(self, depth: int) -> Any:
        known = list(self._named)
        found = self.any(depth)
        if isinstance(found, list) or found == "null":
            self._named = known
            return "string"
        return found

    def _name(self) -> str:
        self._names += 1
        return f"T{self._names}"


def wire(schema_id: int, body: bytes) -> bytes:
    """In the wire format."""
    return b"\x00" + struct.pack(">I", schema_id) + body


def encoded(random: Random, schema: Any, odd: float = 0.03) -> bytes:
    """A value of `schema`; by chance, `odd` for each part, one that a reader may refuse."""
    return _Encoder(random, odd, schema).value(schema)


def damaged(random: Random, data: bytes) -> bytes:
    """Cut, longer, or with bits turned."""
    out = bytearray(data)
    at = random.randrange(len(out) + 1)
    kind = random.randrange(4)
    if kind == 0:
        del out[at:]
    elif kind == 1:
        out[at:at] = random.randbytes(random.randint(1, 4))
    elif kind == 2:
        out[at : at + 3] = b"\xff" * len(out[at : at + 3])
    elif at < len(out):
        out[at] ^= 1 << random.randrange(8)
    return bytes(out)


def long(value: int) -> bytes:
    """A zigzag varint."""
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class _Encoder:
    def __init__(self, random: Random, odd: float, schema: Any) -> None:
        self._random = random
        self._odd_share = odd
        self._named: dict[str, Any] = {}
        self._name(schema)

    def value(self, schema: Any) -> bytes:  # noqa: PLR0911, RUF100 - a table
        if isinstance(schema, list):
            index = self._random.randrange(len(schema))
            return long(index) + self.value(schema[index])
        if isinstance(schema, str) and schema in self._named:
            return self.value(self._named[schema])
        kind = schema if isinstance(schema, str) else schema["type"]
        logical = "" if isinstance(schema, str) else schema.get("logicalType", "")
        if kind == "record":
            return b"".join(self.value(field["type"]) for field in schema["fields"])
        if kind == "array":
            return self._blocks(lambda: self.value(schema["items"]))
        if kind == "map":
            return self._blocks(lambda: self._sized(self._text()) + self.value(schema["values"]))
        if kind == "null":
            return b""
        if kind == "boolean":
            return bytes([2 if self._odd() else self._random.randrange(2)])
        if kind in ("int", "long"):
            return self._padded(long(self._integer(kind, logical)))
        if kind in ("float", "double"):
            number = self._random.choice([*_NUMBERS[:10], self._random.uniform(-1e6, 1e6)])
            number = self._random.choice(_NUMBERS) if self._odd() else number
            return struct.pack("<d", number) if kind == "double" else struct.pack("<f", min(max(number, -3e38), 3e38))
        if kind == "enum":
            return long(
                self._random.randrange(-4, 5) if self._odd() else self._random.randrange(len(schema["symbols"]))
            )
        if kind == "fixed":
            whole = self._integer("long", "") >> self._random.choice((32, 50)) if logical else 0
            return (
                whole.to_bytes(schema["size"], "big", signed=True)
                if logical
                else self._random.randbytes(schema["size"])
            )
        if logical == "uuid":
            return self._sized(self._uuid())
        if logical == "decimal" and kind == "bytes":
            return self._sized(self._decimal(schema.get("precision", 3)))
        return self._sized(self._random.randbytes(self._random.randrange(9)) if kind == "bytes" else self._text())

    def _name(self, schema: Any) -> None:
        for each in schema if isinstance(schema, list) else [schema]:
            if isinstance(each, dict):
                # A namespace is its first bearer's only, and short names do in what is made here.
                self._named[each.get("name", "")] = each
                for inner in (
                    *(field["type"] for field in each.get("fields", ())),
                    each.get("items"),
                    each.get("values"),
                ):
                    self._name(inner)

    def _odd(self) -> bool:
        return self._random.random() < self._odd_share

    def _blocks(self, item: Any) -> bytes:
        out = b""
        for _ in range(self._random.choice((0, 1, 1, 2))):
            count = self._random.randint(1, 3)
            items = b"".join(item() for _ in range(count))
            out += long(-count) + long(len(items)) + items if self._random.random() < 0.3 else long(count) + items
        return out + long(0)

    def _sized(self, data: bytes) -> bytes:
        return self._padded(long(len(data))) + data

    def _padded(self, varint: bytes) -> bytes:
        # Longer than it need be, which readers take.
        return varint[:-1] + bytes([varint[-1] | 0x80, 0]) if self._odd() and len(varint) < 9 else varint

    def _text(self) -> bytes:
        if self._odd():
            return self._random.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"abcdefgh\x80", b"\xf4\x90\x80\x80"))
        text = "".join(self._random.choice(_TEXTS) for _ in range(self._random.randint(0, 3)))
        return text.encode() * self._random.choice((1, 1, 1, 40))

    def _uuid(self) -> bytes:
        if self._odd():
            return self._random.choice(_UUIDS).encode()
        digits = f"{self._random.getrandbits(128):032x}"
        text = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        return (text.upper() if self._random.random() < 0.2 else text).encode()

    def _decimal(self, precision: int) -> bytes:
        digits = precision + 3 if self._odd() else self._random.randint(0, precision)
        whole = self._random.randrange(-(10**digits) + 1, 10**digits)
        size = (whole.bit_length() + 8) // 8 + self._random.choice((0, 0, 1))
        return b"" if self._odd() else whole.to_bytes(size, "big", signed=True)

    def _integer(self, kind: str, logical: str) -> int:
        bits = 31 if kind == "int" else 63
        anywhere = self._random.choice((0, -1, 63, 64, -(1 << bits), (1 << bits) - 1, self._random.getrandbits(bits)))
        if not logical or self._odd():
            return anywhere
        day = self._random.randint(-719162, 2932896)
        us = self._random.randrange(86_400_000_000)
        if logical == "date":
            return day
        if logical.startswith("time-"):
            return us // (1000 if logical.endswith("millis") else 1)
        return (day * 86_400_000_000 + us) // (1000 if logical.endswith("millis") else 1)


def ladder(rungs: int) -> dict[str, Any]:
    """A record of so many fields, each of which holds the one before by name; two levels deeper than fields."""
    rung: Any = {"type": "record", "name": "R0", "fields": [{"name": "n", "type": "int"}]}
    fields = [{"name": "f0", "type": rung}]
    for i in range(1, rungs):
        rung = {"type": "record", "name": f"R{i}", "fields": [{"name": "r", "type": f"R{i - 1}"}]}
        fields.append({"name": f"f{i}", "type": rung})
    return {"type": "record", "name": "Ladder", "fields": fields}


def nested(levels: int) -> dict[str, Any]:
    """A record of one field, in which so many arrays stand in each other as written."""
    kind: Any = "int"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return {"type": "record", "name": "Nested", "fields": [{"name": "f0", "type": kind}]}


def doubling(steps: int) -> dict[str, Any]:
    """A record of so many fields, lists of what holds the one before twice: all are empty in a value of few bytes."""
    kind: Any = {"type": "record", "name": "T0", "fields": [{"name": "n", "type": "int"}]}
    fields = [{"name": "f0", "type": {"type": "array", "items": kind}}]
    for i in range(1, steps):
        kind = {"type": "record", "name": f"T{i}", "fields": [{"name": n, "type": f"T{i - 1}"} for n in "ab"]}
        fields.append({"name": f"f{i}", "type": {"type": "array", "items": kind}})
    return {"type": "record", "name": "Doubling", "fields": fields}


HOSTILE: Final = {"named": ladder(4_000), "nested": nested(10_000), "doubling": doubling(60)}
"""Schemas of some kilobytes that no reader survives which goes through all of them."""
