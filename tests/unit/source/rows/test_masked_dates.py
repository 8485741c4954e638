"""A masked date that no calendar has leaves as its mask says, by the log as by a SELECT, and its text nowhere else."""

from __future__ import annotations

import struct

import pytest

from include.policy.masks import HashMask, Mask, NullMask
from include.policy.policy import TablePolicy
from include.record.schema import Column
from include.source.binlog.table_map import TableMap
from include.source.rows.avro import NULL, sized
from include.source.rows.compiled import text_rows_of
from include.source.rows.decoder import NativeImages
from include.source.rows.images import RowImages
from include.source.rows.layout import layout
from include.source.rows.leaving import shape_of
from include.source.rows.shape import EncodedImage, TableShape
from include.source.rows.text import row_reader

SALT = "0123456789abcdef"
COLUMNS = (Column("id", "int"), Column("born", "date"), Column("seen", "datetime"), Column("on", "date"))
TEXTS = [(b"1", b"0000-00-00", b"2026-02-31 10:00:00", b"2026-02-31"), (b"2", b"1980-02-29", None, None)]
WAYS = [
    "python",
    "cells",
    "select",
    *(pytest.param(way, marks=pytest.mark.compiled) for way in ("compiled", "compiled select")),
]


def shape(**masks: Mask) -> TableShape:
    policy = TablePolicy("shop", "t", passes=True, why="", masks=masks)
    return shape_of(("shop", "t"), COLUMNS, ("id",), frozenset(), frozenset(), policy)


def row(*values: bytes | str | None) -> bytes:
    return b"".join(
        NULL
        if v is None
        else b"\x02" + (sized((HashMask(SALT).of_text(v) or "").encode()) if isinstance(v, str) else v)
        for v in values
    )


def logged() -> bytes:
    def date(text: bytes | None) -> bytes:
        if text is None:
            return b""
        year, month, day = map(int, text.split(b"-"))
        return (year << 9 | month << 5 | day).to_bytes(3, "little")

    moment = ((2026 * 13 + 2) << 5 | 31) << 17 | 10 << 12
    return b"\x04\x0f" + b"".join(
        bytes((0xFC if seen is None and at is None else 0xF0,))
        + struct.pack("<i", int(id_))
        + date(born)
        + ((moment + (1 << 39)).to_bytes(5, "big") if seen else b"")
        + date(at)
        for id_, born, seen, at in TEXTS
    )


@pytest.mark.parametrize("way", WAYS)
def test_its_text_is_hashed_and_told_nowhere_else(way: str) -> None:
    told = shape(born=HashMask(SALT), seen=HashMask(SALT))
    invalid = b"\x02\x02" + sized(b"on") + sized(b"2026-02-31") + b"\0"
    expected = [
        row(b"\x02", "0000-00-00", "2026-02-31 10:00:00", None) + invalid,
        row(b"\x04", "1980-02-29", None, None) + NULL,
    ]
    assert rows_of(told, way) == expected


@pytest.mark.parametrize("way", WAYS)
def test_it_is_null_where_the_mask_says_so_and_told_nowhere_else(way: str) -> None:
    told = shape(born=NullMask(), seen=NullMask(), on=NullMask())
    assert rows_of(told, way) == [row(b"\x02", None, None, None) + NULL, row(b"\x04", None, None, None) + NULL]


def rows_of(told: TableShape, way: str) -> list[bytes]:
    if "select" in way:
        images = [row_reader(told)(text) for text in TEXTS] if way == "select" else compiled(told)
        return [image.row for image in images]
    types, nullable = bytes((3, 10, 18, 10)), (False, True, True, True)
    made = layout(TableMap(7, "shop", "t", types, (0, 0, 0, 0), nullable, signs_known=False), told, "mariadb")
    if way == "cells":
        images_ = RowImages(made)
        return [told.image(*after).row for _, after in images_.cells("c", logged()) if after is not None]
    pairs = (RowImages(made) if way == "python" else NativeImages(made)).rows("c", logged())
    return [after.row for _, after in pairs if after is not None]


def compiled(told: TableShape) -> list[EncodedImage]:
    reader, found = text_rows_of(told), list[EncodedImage]()
    assert reader is not None
    packets = b""
    for number, texts in enumerate(TEXTS):
        data = b"".join(b"\xfb" if text is None else bytes((len(text),)) + text for text in texts)
        packets += struct.pack("<I", len(data) | number << 24) + data
    assert reader.feed(packets, 0, len(packets), 0, found)[0] == len(packets)
    return found
