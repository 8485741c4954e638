"""A table with a column of every type, random values as SQL literals; what the binlog says of them."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from random import Random
from tempfile import gettempdir
from typing import Any

from include.source.binlog.files import read_events
from include.source.binlog.reader import EventReader
from include.source.binlog.step import RowsEvent, SourceTransaction
from include.source.binlog.transaction import TransactionBuilder
from include.source.rows.decoder import NativeImages
from include.source.rows.images import RowImages
from include.source.rows.layout import layout
from include.source.rows.shape import EncodedImage, TableShape

__all__ = ["columns", "literals", "streamed"]

Make = Callable[[Random], str]
_TEXT = "abc XYZ 0123 éüñß€ žčš жщы αβγ 日本語 中文 한글 ไทย עברית 🐦𝄞"


def columns(flavour: str) -> dict[str, tuple[str, Make]]:
    """(type, maker of literals) by name of the column, besides the key `id`."""
    found: dict[str, tuple[str, Make]] = {}
    for kind, size in (("tinyint", 1), ("smallint", 2), ("mediumint", 3), ("int", 4), ("bigint", 8)):
        top = 1 << 8 * size - 1
        found[f"{kind}_s"] = kind, partial(_edge_text, least=-top, most=top - 1)
        found[f"{kind}_u"] = f"{kind} unsigned", partial(_edge_text, least=0, most=2 * top - 1)
    for precision, scale in ((10, 2), (65, 30), (5, 5), (18, 9), (1, 0)):
        found[f"dec_{precision}_{scale}"] = (
            f"decimal({precision},{scale})",
            partial(_decimal, precision=precision, scale=scale),
        )
    found["f"] = "float", lambda random: repr(_float(random, "f", 4))
    found["d"] = "double", lambda random: repr(_float(random, "d", 8))
    for bits in (1, 10, 64):
        found[f"bit_{bits}"] = f"bit({bits})", partial(_bits, count=bits)
    found["year_"] = "year", lambda random: str(random.choice((0, random.randint(1901, 2155))))
    found["date_"] = "date", lambda random: f"'{_date(random)}'"
    for digits in (0, 1, 3, 6):
        found[f"dt{digits}"] = f"datetime({digits})", partial(_moment, digits=digits)
        found[f"ts{digits}"] = f"timestamp({digits}) NULL", partial(_stamp, digits=digits)
        found[f"tm{digits}"] = f"time({digits})", partial(_time, digits=digits)
    for charset in ("utf8mb4", "latin1", "ucs2", "utf16", "utf32", "cp1251", "sjis", "gbk", "euckr", "big5", "hebrew"):
        found[f"v_{charset}"] = f"varchar(60) CHARACTER SET {charset}", lambda random: _text(random, 30)
    found["c_"] = "char(20) CHARACTER SET utf8mb4", lambda random: _text(random, 20)
    found["t_"] = "text CHARACTER SET utf8mb4", lambda random: _text(random, 400)
    found["b_"] = "binary(8)", lambda random: _bytes(random, 8)
    found["vb_"] = "varbinary(300)", lambda random: _bytes(random, 300)
    found["blob_"] = "blob", lambda random: _bytes(random, 500)
    labels = ["a", "é", "b,c".replace(",", ""), "ж"]
    listed = ", ".join(f"'{label}'" for label in labels)
    found["enum_"] = f"enum({listed}) CHARACTER SET utf8mb4", lambda random: str(random.randint(1, 4))
    found["set_"] = f"set({listed}) CHARACTER SET utf8mb4", lambda random: str(random.randint(0, 15))
    found["json_"] = "json", lambda random: _quoted(json.dumps(_document(random, 3), ensure_ascii=False))
    found["geo"] = (
        "geometry",
        lambda random: f"ST_GeomFromText('LINESTRING({random.random()} {random.random()}, {random.random()} 1)')",
    )
    if flavour == "mariadb":
        found["uuid_"] = "uuid", lambda random: f"'{uuid.UUID(int=random.getrandbits(128))}'"
        found["ip4"] = "inet4", lambda random: f"'{IPv4Address(random.getrandbits(32))}'"
        found["ip6"] = "inet6", lambda random: f"'{_address(random)}'"
    else:
        found["vec"] = "vector(3)", lambda random: f"TO_VECTOR('{[_float(random, 'f', 4) for _ in range(3)]}')"
    return found


def _address(random: Random) -> IPv6Address:
    """Words of it are zero in any pattern."""
    words = [random.choice((0, random.getrandbits(16))) for _ in range(8)]
    if random.random() < 0.2:
        words[:6] = [0, 0, 0, 0, 0, random.choice((0, 0xFFFF))]
    return IPv6Address(b"".join(word.to_bytes(2, "big") for word in words))


def literals(random: Random, makers: list[Make]) -> Iterator[str]:
    """A value for each, some null."""
    return ("NULL" if random.random() < 0.1 else make(random) for make in makers)


def streamed(path: Path, shape: TableShape, flavour: Any) -> Iterator[tuple[EncodedImage, EncodedImage | None]]:
    """The rows that a binlog file inserts into the table of `shape`, by Python, and by the compiled decoders."""
    reader = EventReader(path.name)
    name = (shape.schema.database, shape.schema.table)
    builder = TransactionBuilder(lambda *found: found == name, lambda *_: False, 1 << 26, Path(gettempdir()))
    for data in read_events(path):
        found = builder.on_event(reader.parse(data))
        if not isinstance(found, SourceTransaction):
            continue
        for step in found.steps:
            if isinstance(step, RowsEvent):
                made = layout(step.table, shape, flavour)
                plain = RowImages(made).rows(step.op, step.body)
                try:
                    native = NativeImages(made).rows(step.op, step.body)
                except ValueError:
                    native = [(None, None)] * len(plain)
                for (_, after), (_, other) in zip(plain, native, strict=True):
                    assert after is not None
                    yield after, other


def _edge(random: Random, low: int, high: int) -> int:
    return random.choice((low, high, 0, random.randint(low, high), random.randint(low // 1000, high // 1000)))


def _edge_text(random: Random, least: int, most: int) -> str:
    return str(_edge(random, least, most))


def _bits(random: Random, count: int) -> str:
    return f"b'{random.getrandbits(count):b}'"


def _moment(random: Random, digits: int) -> str:
    return f"'{_date(random)} {_clock(random, digits)}'"


def _decimal(random: Random, precision: int, scale: int) -> str:
    digits = str(random.randrange(10 ** random.randint(0, precision))).rjust(scale + 1, "0")
    whole, part = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return random.choice(("", "-")) + whole + (f".{part}" if part else "")


def _float(random: Random, form: str, size: int) -> float:
    while True:
        (value,) = struct.unpack(f"<{form}", random.randbytes(size))
        if value == value and abs(value) < (3e38 if size == 4 else 1e308) and (not value or abs(value) > 1e-37):
            return float(value) if size == 8 else float(f"{value:.9g}")


def _date(random: Random) -> str:
    if random.random() < 0.1:
        return random.choice(("0000-00-00", "2026-02-31", "2026-00-00", "0000-01-01", "9999-12-31", "1000-01-00"))
    return f"{random.randint(1, 9999):04}-{random.randint(1, 12):02}-{random.randint(1, 31):02}"


def _clock(random: Random, digits: int) -> str:
    fraction = f".{random.randrange(10**digits):0{digits}}" if digits else ""
    return f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}{fraction}"


def _stamp(random: Random, digits: int) -> str:
    if random.random() < 0.05:
        return "'0000-00-00 00:00:00'"
    return (
        f"'{random.randint(1971, 2037)}-{random.randint(1, 12):02}-{random.randint(1, 28):02} {_clock(random, digits)}'"
    )


def _time(random: Random, digits: int) -> str:
    clock = _clock(random, digits)
    hours = random.choice((int(clock[:2]), random.randint(0, 837)))
    return f"'{random.choice(('', '-'))}{hours:02}{clock[2:]}'"


def _text(random: Random, longest: int) -> str:
    return _quoted("".join(random.choices(_TEXT, k=random.randint(0, longest))))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _bytes(random: Random, longest: int) -> str:
    size = random.randint(0, longest)
    return (
        f"x'{random.randbytes(size).hex()}{'00' * random.randint(0, longest - size) if random.random() < 0.3 else ''}'"
    )


def _document(random: Random, depth: int) -> Any:
    kind = random.randint(0, 9 if depth else 7)
    if kind < 2:
        return random.choice((None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**64 - 1))
    if kind < 4:
        return random.randint(-(2 ** random.randint(1, 62)), 2 ** random.randint(1, 63))
    if kind < 6:
        return _float(random, "d", 8)
    if kind < 8:
        return "".join(random.choices(_TEXT + '"\\\n\t', k=random.randint(0, 200)))
    if kind < 9:
        return [_document(random, depth - 1) for _ in range(random.randint(0, 6))]
    return {f"k{random.randint(0, 50)}": _document(random, depth - 1) for _ in range(random.randint(0, 6))}
