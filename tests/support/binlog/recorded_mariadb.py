"""The recorded binlog of tests/golden, and hand-made table maps and rows for tests that need other ones."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from include.record.position import BinlogPosition
from include.record.schema import Column, TableSchema
from include.source.binlog.events import QueryEvent, RowOp, TableMap
from include.source.binlog.reader import Event, EventReader
from include.source.binlog.transaction import RowsEvent, SourceTransaction
from include.source.database.table_info import TableInfo
from tests.support.binlog.builder import builder
from tests.support.paths import GOLDEN

SAID: dict[str, Any] = json.loads((GOLDEN / "mariadb-types.json").read_text("utf-8"))
COLLATIONS = {int(number): charset for number, charset in SAID["collations"].items()}


def raw_events() -> list[bytes]:
    data = (GOLDEN / "mariadb-types.binlog").read_bytes()
    found = []
    while data:
        size = struct.unpack_from("<I", data, 9)[0]
        found.append(data[:size])
        data = data[size:]
    return found


def events() -> list[Event]:
    reader = EventReader()
    return [reader.parse(data) for data in raw_events()]


def sealed(data: bytes) -> bytes:
    """The event with its size and checksum made right again."""
    body = data[:9] + struct.pack("<I", len(data)) + data[13:-4]
    return body + struct.pack("<I", zlib.crc32(body))


def transactions() -> list[SourceTransaction]:
    made = builder(database="lyregold")
    found = (made.on_event(event) for event in events())
    return [item for item in found if isinstance(item, SourceTransaction)]


def info(name: str) -> TableInfo:
    """The table as information_schema told it when the bytes were recorded."""
    said = SAID["tables"][name]
    database, table = name.split(".")
    made = TableInfo(database, table, "InnoDB", versioned=False)
    made.columns = [
        Column(column, kind, unsigned, precision, scale, charset, tuple(labels))
        for column, kind, unsigned, precision, scale, charset, labels in said["columns"]
    ]
    made.key = tuple(said["key"])
    return made


# A table `shop.t (id int primary key, part int, v varchar(20))`, made by hand.
SCHEMA = TableSchema(
    "shop", "t", (Column("id", "int"), Column("part", "int"), Column("v", "varchar", charset="utf8mb4")), ("id",)
)
MAP = TableMap(
    table_id=7,
    database="shop",
    table="t",
    types=bytes((3, 3, 15)),
    metas=(0, 0, 20),
    nullable=(False, False, True),
    names=("id", "part", "v"),
    unsigned=frozenset(),
    charsets={2: 45},
    labels={},
    key=(0,),
    key_prefixed=False,
)
Row = tuple[int, int, str | None]


def image(row: Row) -> bytes:
    number, part, text = row
    nulls = bytes((0xF8 | (4 if text is None else 0),))
    encoded = b"" if text is None else bytes((len(text.encode()),)) + text.encode()
    return nulls + struct.pack("<ii", number, part) + encoded


def rows(op: RowOp, *images: Row) -> RowsEvent:
    """Rows of `MAP`; of op "u" before and after in turn."""
    return RowsEvent(MAP, op, b"\x03" + b"\x07" * (2 if op == "u" else 1) + b"".join(map(image, images)))


def transaction(number: int, *steps: RowsEvent | str) -> SourceTransaction:
    made: Sequence[RowsEvent | QueryEvent] = [
        step if isinstance(step, RowsEvent) else QueryEvent(1, "shop", step) for step in steps
    ]
    return SourceTransaction(
        f"0-1-{number}", 1, BinlogPosition("bin.000001", number * 100), number * 1_000_000, tuple(made), 100
    )
