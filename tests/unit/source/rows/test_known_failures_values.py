"""Values that the library mysql-replication gets wrong in silence, or cannot read: its answer beside the right one.

Both read the same bytes: recordings of real servers, whose right answer is that of SELECT, or events made by hand.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from include.errors import Terminal
from include.record.gtid import Flavour
from include.record.schema import Column, TableSchema
from include.source.binlog.files import BinlogFile
from include.source.binlog.table_map import TableMap
from include.source.binlog.unpack import BinlogInput
from include.source.cat.cat import Cat
from include.source.cat.schema_rows import described
from include.source.rows.images import RowImages
from include.source.rows.layout import layout
from include.source.rows.shape import TableShape
from tests.support.binlog.builder import description, image, optional, query_body, raw, rows_body, table_map_body
from tests.support.binlog.mysql_replication_reader import rows_of_mysql_replication
from tests.support.golden.recording import load

NAMED = optional(4, b"\x01c")


@dataclass(frozen=True)
class File:
    """Events of a file, and what information_schema says of its tables."""

    events: tuple[bytes, ...]
    flavour: Flavour
    version: tuple[int, int, int]
    schema: tuple[dict[str, Any], ...] = ()

    def ours(self, refused: list[Terminal] | None = None) -> list[dict[str, Any]]:
        """All images, before and after; nothing may be refused, unless it is gathered."""
        unwanted: list[Terminal] = []
        cat = Cat((unwanted if refused is None else refused).append, Path(gettempdir()), described(self.schema))
        cat.on_file("bin.000001")
        lines = [line for data in self.events for line in cat.on_event(data)]
        assert unwanted == []
        return [line[side] for line in lines for side in ("before", "after") if line[side] is not None]

    def theirs(self) -> Iterator[dict[str, Any]]:
        return rows_of_mysql_replication(self.events, self.flavour, self.version)


@cache
def recorded(server: str, case: str) -> File:
    recording = load(server, case)
    file = BinlogFile("bin.000001", case, BinlogInput(io.BytesIO(recording.data)))
    flavour, _, _ = server.partition("-")
    major, minor, *_ = recording.version.partition("-")[0].split(".")
    version = int(major), int(minor), 0
    return File(tuple(file.events()), flavour, version, tuple(recording.schema()))  # type: ignore[arg-type]


def made(code: int, metadata: bytes, value: bytes, fields: bytes = NAMED, column_type: str = "", **more: Any) -> File:
    """A table `c` of one column, and one row, from MySQL."""
    row = {"TABLE_SCHEMA": "shop", "TABLE_NAME": "t", "ORDINAL_POSITION": 1, "COLUMN_NAME": "c"}
    events = (
        description(),
        raw(2, query_body("BEGIN"), end=200),
        raw(19, table_map_body(1, "t", types=bytes((code,)), metas=metadata, fields=fields)),
        raw(30, rows_body(1, b"\0" + value, v2=True)),
        raw(16, bytes(8), end=400),
    )
    schema = ({**row, "COLUMN_TYPE": column_type, **more},) if column_type else ()
    return File(events, "mysql", (9, 7, 4), schema)


SILENTLY_WRONG: dict[str, tuple[File | str, int, str, Any, Any]] = {
    # claim: file (server/case of a recording), number of the image, column, their answer, the right one
    "a negative TIME with a fraction": (
        "mysql-9.7/times", 3, "t6", dt.timedelta(microseconds=-876544), "-00:00:00.123456",
    ),
    "a TIME of before MySQL 5.6": (
        made(11, b"", b"\xc0\x1d\xfe", column_type="time"), 0, "c", dt.timedelta(days=69, seconds=34680), "-12:34:56",
    ),
    "YEAR 0": ("mysql-9.7/years", 0, "n", 1900, 0),
    "text in ucs2": (made(15, b"\x14\0", b"\x02\0\xe9", optional(2, b"\x23") + NAMED), 0, "c", b"\0\xe9", "é"),
    "text in utf16": (made(15, b"\x14\0", b"\x02\x20\xac", optional(2, b"\x36") + NAMED), 0, "c", "갠", "€"),
    "BINARY that ends in zeros": (
        "mysql-9.7/binaries", 0, "b", bytes.fromhex("00112233445566778899aabbccddee"),
        {"hex": "00112233445566778899aabbccddee00"},
    ),
    "a UUID that ends in zeros": (
        "mariadb-11.4/uuid-inet", 2, "u", bytes.fromhex("018f3c5e7b1a7cc08f"),
        "018f3c5e-7b1a-7cc0-8f00-000000000000",
    ),
    "an address of IPv4 that ends in zeros": ("mariadb-11.4/uuid-inet", 1, "i4", b"\n", "10.0.0.0"),
    "an address of IPv6": (
        "mariadb-11.4/uuid-inet", 1, "i6", bytes.fromhex("20010db8"), "2001:db8::",
    ),
    "the zero TIMESTAMP": (
        "mysql-9.7/invalid-datetimes", 0, "d", dt.datetime(1970, 1, 1), "0000-00-00 00:00:00"
    ),
    "a SET of nothing": ("mysql-9.7/sets", 0, "s1", None, ""),
    "the zero DATETIME": ("mysql-9.7/invalid-datetimes", 0, "a", None, "0000-00-00 00:00:00"),
    "a DATETIME of no calendar": (
        "mysql-9.7/invalid-datetimes", 1, "c", None, "2026-02-31 23:59:59.999999",
    ),
    "a latin1 label": ("mariadb-11.4/enums", 0, "a", "", "é"),
    "an unsigned number where the map tells no signs": (
        made(3, b"", b"\xff\xff\xff\xff", b"", "int(10) unsigned"), 0, "c", -1, 4294967295,
    ),
}  # fmt: skip


_HIRES = (((((2024 * 13 + 2) * 32 + 29) * 24 + 12) * 60 + 34) * 60 + 56) * 10**6 + 123456
RAISED: dict[str, tuple[File | str, type[Exception]]] = {
    "DATE of no calendar": ("mysql-9.7/dates", ValueError),
    "COMPRESSED column": ("mariadb-11.4/compressed-columns", AttributeError),
    "VECTOR": ("mysql-9.7/vectors", UnicodeDecodeError),
    "type 0, DECIMAL of before MySQL 5.0": ("mariadb-11.4/old-decimal", NotImplementedError),
    "temporals of MariaDB before 10.1.2": (
        made(12, b"", _HIRES.to_bytes(8, "big"), column_type="datetime(6)", DATETIME_PRECISION=6),
        ValueError,
    ),
}
LOST = ("mariadb-11.4/compressed-events", "mysql-9.7/payload")


def file_of(given: File | str) -> File:
    return recorded(*given.split("/")) if isinstance(given, str) else given


@pytest.mark.parametrize("claim", SILENTLY_WRONG)
def test_a_value_that_others_get_wrong_in_silence_is_right(claim: str) -> None:
    """python-mysql-replication #218 #282 #612, DBZ-7594 -5571, dbz#2172 #1504: types, charsets, dates, signs."""
    given, place, column, theirs, right = SILENTLY_WRONG[claim]
    file = file_of(given)
    assert file.ours()[place][column] == right
    image = next(islice(file.theirs(), place, None))
    assert image.get(column, next(iter(image.values()))) == theirs != right


@pytest.mark.parametrize("claim", RAISED)
def test_a_type_that_others_cannot_read_is_read(claim: str) -> None:
    """python-mysql-replication, go-mysql (type 0): one such column, and no row of the table is read."""
    given, error = RAISED[claim]
    file = file_of(given)
    assert file.ours()
    with pytest.raises(error):
        list(file.theirs())


@pytest.mark.parametrize("case", LOST)
def test_compressed_rows_that_others_pass_over_are_read(case: str) -> None:
    """maxwell PR #2254, osheroff #19, shyiko #325, go-mysql #533, dbtrail #414, DBZ-9367: no row, position moves on."""
    file = recorded(*case.split("/"))
    ours, theirs = file.ours(), list(file.theirs())
    assert len(theirs) < len(ours)
    assert {1, 2} <= {image["id"] for image in ours} - {image["id"] for image in theirs}


def test_rows_that_no_map_names_are_refused() -> None:
    """python-mysql-replication #44 #314, go-mysql #48, shardingsphere #19818: after a resume inside a transaction."""
    rows = raw(30, rows_body(7, image(1), v2=True))
    file = File(
        (description(), raw(2, query_body("BEGIN"), end=200), rows, raw(16, bytes(8), end=400)), "mysql", (9, 7, 4)
    )
    assert [*file.theirs()] == []
    refused: list[Terminal] = []
    assert file.ours(refused) == []
    assert "rows of a table that no map names" in refused[0].message


def test_null_invalid_and_undecodable_are_three_things() -> None:
    """python-mysql-replication, data-diff #379 #701: one None for all of them, '' for labels that are not known."""
    moment, label = Column("c", "datetime"), Column("c", "enum", charset="latin1", labels=("a", "b"))
    rows, refused = {}, []
    for name, column, code, meta, value in (
        ("null", moment, 18, 0, None),
        ("zero", moment, 18, 0, b"\x80\0\0\0\0"),
        ("hour 25", moment, 18, 0, b"\x99\xbe\x2b\x90\0"),
        ("label 0", label, 254, 247 << 8 | 1, b"\0"),
        ("label 3", label, 254, 247 << 8 | 1, b"\3"),
    ):
        map_ = TableMap(1, "d", "t", bytes((3, code)), (0, meta), (False, True))
        columns = (Column("id", "int"), column)
        images = RowImages(layout(map_, TableShape(columns, TableSchema("d", "t", columns, ("id",))), "mysql"))
        body = b"\x02\xff" + bytes((0xFE if value is None else 0xFC,)) + bytes(4) + (value or b"")
        try:
            ((_, after),) = images.rows("c", body)
        except Terminal as refusal:
            refused.append(refusal.details["column"])
        else:
            assert after is not None
            rows[name] = after.row
    assert rows.keys() == {"null", "zero", "label 0"}
    assert refused == ["c", "c"]
    assert rows["null"] != rows["zero"]
    assert rows["zero"].endswith(b"0000-00-00 00:00:00\0")
    assert rows["label 0"] == b"\x02\0\x02\0"
