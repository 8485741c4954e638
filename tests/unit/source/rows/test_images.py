"""Row images made by hand: what they decode to, and what is refused."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import replace
from typing import Any

import fastavro
import pytest

from include.errors import Terminal
from include.record.schema import Column, TableSchema
from include.source.binlog.table_map import TableMap
from include.source.rows.columns import column_of
from include.source.rows.images import RowImages
from include.source.rows.layout import layout
from include.source.rows.other_types import inet6_text
from include.source.rows.render import json_row
from include.source.rows.shape import EncodedImage, TableShape
from include.source.rows.text import row_reader

I = Column("id", "int")  # noqa: E741 - the key of every table here


def table_map(types: bytes, metadata: bytes, *, names: tuple[str, ...] = ()) -> TableMap:
    """A map as a server of before the optional fields sends it; `metadata` as in the event."""
    sizes = {0: 0, 1: 0, 2: 0, 3: 0, 7: 0, 8: 0, 9: 0, 10: 0, 11: 0, 12: 0, 13: 0, 4: 1, 5: 1, 17: 1, 18: 1, 19: 1,
             252: 1, 245: 1, 255: 1, 242: 1, 140: 1, 15: 2, 16: 2, 246: 2, 254: 2, 141: 2}  # fmt: skip
    metas, at = [], 0
    for code in types:
        raw = metadata[at : at + sizes[code]]
        metas.append(int.from_bytes(raw, "big" if code in (254, 246) else "little"))
        at += sizes[code]
    assert at == len(metadata)
    nullable = (False,) + (True,) * (len(types) - 1)
    return TableMap(7, "d", "t", types, tuple(metas), nullable, names, signs_known=False)


def decoder(map_: TableMap, *columns: Column, key: tuple[str, ...] = ("id",), **more: Any) -> RowImages:
    chosen = more.pop("leaving", columns)
    shape = TableShape(tuple(columns), TableSchema("d", "t", tuple(chosen), key), **more)
    return RowImages(layout(map_, shape, "mysql"))


def body(width: int, *images: bytes, sides: int = 1, present: bytes | None = None) -> bytes:
    full = present or b"\xff" * ((width + 7) // 8)
    return bytes((width,)) + full * sides + b"".join(images)


def shown(images: RowImages, image: EncodedImage | None) -> dict[str, Any]:
    """The row as text shows it, after fastavro has read the same bytes to their end."""
    assert image is not None
    schema = images.shape.schema.envelope_avro("s")["fields"][0]["type"][1]
    stream = io.BytesIO(image.row)
    fastavro.schemaless_reader(stream, fastavro.parse_schema({**schema, "namespace": "x"}), None)
    assert stream.tell() == len(image.row)
    return json_row(images.shape, image.row)


def one(images: RowImages, values: bytes, nulls: bytes | None = None) -> dict[str, Any]:
    """The row of a single INSERT with these values after `id` 1."""
    width = len(images.shape.columns)
    event = body(width, (nulls or bytes((width + 7) // 8)) + struct.pack("<i", 1) + values)
    ((before, after),) = images.rows("c", event)
    assert before is None
    found = shown(images, after)
    assert found.pop("id") == 1
    return found


OLD_TYPES = bytes((3, 3, 15, 246, 0, 0, 12, 0, 15, 12, 12, 15, 3, 3, 15, 15))
OLD_METADATA = bytes((255, 0, 10, 2, 40, 0, 10, 0, 255, 0, 255, 3))
OLD_COLUMNS = (
    I,
    Column("a", "int"),
    column_of("b", "varchar(255)", charset="latin1"),
    column_of("c", "decimal(10,2)"),
    column_of("d", "decimal(10,2) unsigned/*old*/", 10, 2),
    column_of("e", "decimal(5,3)/*old*/", 5, 3),
    column_of("f", "datetime"),
    column_of("g", "decimal(5,3)/*old*/", 5, 3),
    column_of("h", "varchar(40)", charset="latin1"),
    column_of("i", "datetime"),
    column_of("j", "datetime"),
    column_of("k", "varchar(10)", charset="latin1"),
    Column("l", "int"),
    Column("m", "int", unsigned=True),
    column_of("n", "varchar(255)", charset="latin1"),
    column_of("o", "varchar(1023)", charset="latin1"),
)
OLD_ROW = (
    struct.pack("<ii", 1, -2)
    + b"\x03caf"
    + bytes((0x80, 0, 0, 0, 0))
    + bytes([32] * 7 + [48, 46, 48, 48])
    + bytes((32, 32, 48, 46, 48, 48, 48))
    + struct.pack("<q", 20261121123456)
    + b" -1.500"
    + b"\x0212"
    + struct.pack("<qq", 0, 20260231000000)
    + b"\x01\xe9"
    + struct.pack("<iI", -1, 4_000_000_000)
    + b"\x00"
    + b"\x05\x00hello"
)


def test_a_table_of_the_old_world_is_read_column_by_column() -> None:
    images = decoder(table_map(OLD_TYPES, OLD_METADATA), *OLD_COLUMNS)
    ((_, after),) = images.rows("c", body(16, b"\0\0" + OLD_ROW))
    assert shown(images, after) == {
        "id": 1,
        "a": -2,
        "b": "caf",
        "c": "0.00",
        "d": "0.00",
        "e": "0.000",
        "f": "2026-11-21 12:34:56",
        "g": "-1.500",
        "h": "12",
        "i": "0000-00-00 00:00:00",
        "j": "2026-02-31 00:00:00",
        "k": "é",
        "l": -1,
        "m": 4_000_000_000,
        "n": "",
        "o": "hello",
    }


def test_after_an_alter_that_moves_the_columns_the_bytes_are_read_in_the_new_order() -> None:
    columns = (I, OLD_COLUMNS[5], OLD_COLUMNS[4], column_of("v", "varchar(40)", charset="latin1"), OLD_COLUMNS[3])
    images = decoder(table_map(bytes((3, 0, 0, 15, 246)), bytes((40, 0, 10, 2))), *columns)
    row = b"  0.000" + b"       0.00" + b"\x2c" + b"x" * 0x2C + bytes((0x80, 0, 0, 0, 0))
    assert one(images, row) == {"e": "0.000", "d": "0.00", "v": "x" * 44, "c": "0.00"}
    digit = b"  9.999" + b"12345678.90" + b"\x30" + b"0" * 0x30 + bytes((0x80, 0, 0, 1, 5))
    wider = decoder(
        table_map(bytes((3, 0, 0, 15, 246)), bytes((60, 0, 10, 2))),
        *columns[:3],
        column_of("v", "varchar(60)", charset="latin1"),
        columns[4],
    )
    assert one(wider, digit) == {"e": "9.999", "d": "12345678.90", "v": "0" * 48, "c": "1.05"}


def test_the_place_of_an_old_decimal_s_sign_may_hold_a_digit_more_than_is_declared() -> None:
    signed, unsigned = OLD_COLUMNS[5], column_of("u", "decimal(5,3) unsigned /*old*/", 5, 3)
    images = decoder(table_map(bytes((3, 0, 0)), b""), I, signed, unsigned)
    assert one(images, b"999.999" + b"99.999") == {"e": "999.999", "u": "99.999"}
    told = [each.avro() for each in (signed, unsigned, column_of("n", "decimal(5,3)"))]
    assert [each["precision"] for each in told if isinstance(each, dict)] == [6, 5, 5]
    ((_, after),) = images.rows("c", body(3, b"\0" + struct.pack("<i", 1) + b"999.99999.999"))
    assert row_reader(images.shape)((b"1", b"999.999", b"99.999")) == after
    same = [TableSchema("d", "t", (I, each), ("id",)).fingerprint for each in (signed, replace(signed, old=False))]
    assert same[0] != same[1]


@pytest.mark.parametrize(
    "text", [b"       0.0x", b"0000000.000", b"           ", b"     --0.00", b"1234567 .00", b"12345678,00"]
)
def test_old_decimals_that_are_none_are_refused_by_column(text: bytes) -> None:
    images = decoder(table_map(bytes((3, 0)), b""), I, OLD_COLUMNS[4])
    with pytest.raises(Terminal, match="cannot be read") as refused:
        one(images, text)
    assert (refused.value.details["table"], refused.value.details["column"]) == ("d.t", "d")


def test_a_wrong_width_of_an_old_decimal_does_not_pass() -> None:
    narrower = column_of("d", "decimal(9,2) unsigned/*old*/", 9, 2)
    images = decoder(table_map(bytes((3, 0, 15)), bytes((40, 0))), I, narrower, OLD_COLUMNS[8])
    with pytest.raises(Terminal):
        one(images, b"   12345.67" + b"\x01x")


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("bit(1)", b"\x01", 1),
        ("bit(10)", b"\x03\xff", 1023),
        ("bit(64)", b"\xff" * 8, 2**64 - 1),
        ("year(4)", b"\x00", 0),
        ("year(4)", b"\xff", 2155),
        ("date", bytes.fromhex("21d40f"), "2026-01-01"),
        ("date", b"\0\0\0", "0000-00-00"),
        ("time(6)", bytes.fromhex("7f3747fe1dc0"), "-12:34:56.123456"),
        ("tinyint", b"\x80", -128),
        ("mediumint", b"\xff\xff\xff", -1),
        ("mediumint unsigned", b"\xff\xff\xff", 16777215),
        ("bigint unsigned", b"\xff" * 8, 2**64 - 1),
        ("float", struct.pack("<f", 0.1), 0.1),
        ("double", struct.pack("<d", 1e23), 1e23),
        ("decimal(65,30)", bytes.fromhex("80") + bytes(29), "0." + "0" * 30),
    ],
)
def test_values_of_known_size(kind: str, data: bytes, expected: Any) -> None:
    column = column_of("v", kind)
    codes = {"bit": 16, "year": 13, "date": 10, "time": 19, "tinyint": 1, "mediumint": 9, "bigint": 8, "float": 4,
             "double": 5, "decimal": 246}  # fmt: skip
    metadata = {
        "bit": bytes((column.length % 8, column.length // 8)),
        "time": bytes((column.digits,)),
        "float": b"\x04",
        "double": b"\x08",
        "decimal": bytes((column.precision or 0, column.scale or 0)),
    }.get(column.type, b"")
    images = decoder(table_map(bytes((3, codes[column.type])), metadata), I, column)
    assert one(images, data) == {"v": expected}


def test_binary_values_get_the_zeros_back_that_the_server_cuts() -> None:
    columns = (I, column_of("b", "binary(4)"), column_of("u", "uuid"), column_of("n", "inet4"), column_of("x", "inet6"))
    images = decoder(table_map(bytes((3, 254, 254, 254, 254)), bytes((254, 4, 254, 16, 254, 4, 254, 16))), *columns)
    assert one(images, b"\x02ab" + b"\x02\x12\x34" + b"\x01\x7f" + b"\x02\x20\x01") == {
        "b": {"hex": "61620000"},
        "u": "12340000-0000-0000-0000-000000000000",
        "n": "127.0.0.0",
        "x": "2001::",
    }


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((1, 2, 3, 4, 0, 6, 7, 8), "1:2:3:4::6:7:8"),
        ((0, 2, 0, 4, 5, 6, 7, 8), "::2:0:4:5:6:7:8"),
        ((1, 2, 3, 4, 5, 6, 7, 0), "1:2:3:4:5:6:7::"),
        ((1, 0, 0, 4, 0, 0, 0, 8), "1:0:0:4::8"),
        ((1, 0, 0, 4, 5, 0, 0, 8), "1::4:5:0:0:8"),
        ((0, 0, 0, 0, 0, 0, 0, 0), "::"),
        ((0, 0, 0, 0, 0, 0, 0, 1), "::1"),
        ((0, 0, 0, 0, 0, 0, 1, 1), "::0.1.0.1"),
        ((0, 0, 0, 0, 0, 0xFFFF, 0, 1), "::ffff:0.0.0.1"),
        ((0, 0, 0, 0, 0xFFFF, 0, 1, 1), "::ffff:0:1:1"),
    ],
)
def test_an_address_is_written_as_mariadb_writes_it(words: tuple[int, ...], shown: str) -> None:
    """A single word of zeros is left out, too."""
    assert inet6_text(b"".join(word.to_bytes(2, "big") for word in words)).decode() == shown


def test_compressed_columns_are_opened_and_lies_about_their_length_refused() -> None:
    text = b"lyrebird " * 40
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = raw.compress(text) + raw.flush()
    images = decoder(table_map(bytes((3, 140)), b"\x02"), I, column_of("t", "text", charset="utf8mb4"))

    def stored(data: bytes) -> bytes:
        return struct.pack("<H", len(data)) + data

    head = b"\x8a" + struct.pack(">H", len(text))
    assert one(images, stored(head + packed)) == {"t": text.decode()}
    assert one(images, stored(b"\0plain")) == {"t": "plain"}
    assert one(images, stored(b"")) == {"t": ""}
    for wrong in (b"\x8a" + struct.pack(">H", len(text) - 1) + packed, head + packed[:-3], b"\x7a\0\1x", head + b"x"):
        with pytest.raises(Terminal) as refused:
            one(images, stored(wrong))
        assert refused.value.details["column"] == "t"


def test_nulls_and_their_unused_bits_are_told_apart() -> None:
    images = decoder(table_map(bytes((3, 1, 10)), b""), I, Column("a", "tinyint"), Column("b", "date"))
    assert one(images, b"\x05", b"\xfc") == {"a": 5, "b": None}
    assert one(images, b"", b"\x06") == {"a": None, "b": None}


def test_ignored_columns_are_stepped_over() -> None:
    columns = (I, Column("a", "tinyint"), column_of("s", "varchar(20)", charset="utf8mb4"), Column("z", "smallint"))
    images = decoder(table_map(bytes((3, 1, 15, 2)), bytes((80, 0))), *columns, leaving=(I, columns[3]))
    assert one(images, b"\x05" + b"\x03abc" + b"\x07\x00") == {"z": 7}
    assert one(images, b"\x07\x00", b"\x06") == {"z": 7}


def test_an_after_image_is_completed_from_the_image_before() -> None:
    columns = (I, Column("a", "tinyint"), Column("d", "date"))
    images = decoder(table_map(bytes((3, 1, 10)), b""), *columns)
    event = b"\x03" + b"\x07" + b"\x02" + b"\0" + struct.pack("<i", 9) + b"\x05" + b"\0\0\0" + b"\0" + b"\x06"
    ((before, after),) = images.rows("u", event)
    assert shown(images, before) == {"id": 9, "a": 5, "d": "0000-00-00"}
    assert shown(images, after) == {"id": 9, "a": 6, "d": "0000-00-00"}
    assert before is not None
    assert after is not None
    assert before.key == after.key


def test_an_image_that_cannot_be_completed_is_refused_by_column() -> None:
    images = decoder(table_map(bytes((3, 1)), b""), I, Column("a", "tinyint"))
    with pytest.raises(Terminal, match=r"lacks a column.*column='a'.*binlog_row_image = FULL"):
        images.rows("d", b"\x02" + b"\x01" + b"\0" + struct.pack("<i", 9))


def test_a_row_that_ends_elsewhere_than_its_event_is_refused() -> None:
    images = decoder(table_map(bytes((3, 1)), b""), I, Column("a", "tinyint"))
    good = body(2, b"\0" + struct.pack("<i", 1) + b"\x05")
    assert len(images.rows("c", good)) == 1
    for wrong in (good + b"\0", good[:-1], good[:3], b"\x03" + good[1:], b"", good + good[2:-1]):
        with pytest.raises(Terminal) as refused:
            images.rows("c", wrong)
        assert refused.value.details["table"] == "d.t"


def test_a_key_without_a_value_is_refused() -> None:
    day = Column("day", "date")
    images = decoder(table_map(bytes((3, 10)), b""), I, day, key=("id", "day"))
    for values, nulls in ((b"\0\0\0", b"\0"), (b"", b"\x02")):
        with pytest.raises(Terminal, match="key") as refused:
            one(images, values, nulls)
        assert refused.value.details["column"] == "day"


def test_all_columns_as_key_keep_their_nulls_apart() -> None:
    schema = TableSchema("d", "t", (I, Column("a", "tinyint")), ("id", "a"), frozenset({"a"}))
    images = RowImages(layout(table_map(bytes((3, 1)), b""), TableShape(schema.columns, schema), "mysql"))
    pairs = images.rows("c", body(2, b"\x02" + struct.pack("<i", 1), b"\0" + struct.pack("<i", 1) + b"\0"))
    keys = [after.key for _, after in pairs if after is not None]
    assert keys == [b"\x02\x00", b"\x02\x02\x00"]


def test_masks_change_what_leaves_and_nothing_else() -> None:
    name = column_of("n", "varchar(20)", charset="latin1")
    images = decoder(
        table_map(bytes((3, 15)), bytes((20, 0))), I, name, masks={"n": lambda piece: piece[:1] + b"\x02*"}
    )
    assert one(images, b"\x02ab") == {"n": "*"}


def test_pieces_of_columns_that_no_image_holds_are_left_out() -> None:
    columns = (I, Column("a", "tinyint"), Column("d", "date"))
    images = decoder(table_map(bytes((3, 1, 10)), b""), *columns)
    event = b"\x03" + b"\x03" + b"\x02" + b"\0" + struct.pack("<i", 9) + b"\x05" + b"\0" + b"\x06"
    assert images.lacking("u", event)
    ((before, after),) = images.cells("u", event)
    assert before is not None
    assert after is not None
    assert list(before[0]) == [b"\x02\x12", b"\x02\x0a", None]
    assert list(after[0]) == [b"\x02\x12", b"\x02\x0c", None]


def test_images_of_no_column_are_refused_as_they_have_no_end() -> None:
    images = decoder(table_map(bytes((3, 1)), b""), I, Column("a", "tinyint"))
    for rest in (b"", b"\0"):
        for call in (images.rows, images.cells):
            with pytest.raises(Terminal, match="no column at all"):
                call("c", b"\x02\x00" + rest)
