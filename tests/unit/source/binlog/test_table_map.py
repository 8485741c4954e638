"""TABLE_MAP: each optional field against the columns that it speaks of, both flavours."""

from __future__ import annotations

import pytest

from include.errors import Terminal
from include.record.gtid import Flavour
from include.source.binlog.reader import Event, EventType
from include.source.binlog.table_map import TableMap, parse_table_map, table_name
from tests.support.binlog.builder import optional, table_map_body

# int, varchar(10), geometry, enum, set, decimal(12,2), text, bigint
TYPES = bytes((3, 15, 255, 254, 254, 246, 252, 8))
METAS = bytes((10, 0, 4, 247, 1, 248, 1, 12, 2, 2))


def event(body: bytes, flavour: Flavour = "mysql") -> Event:
    return Event(EventType.TABLE_MAP, 1, 1, 19 + len(body) + 4, 700, False, body, "bin.000001", flavour)


def parsed(fields: bytes, flavour: Flavour = "mysql", types: bytes = TYPES, metas: bytes = METAS) -> TableMap:
    return parse_table_map(event(table_map_body(7, "t", types=types, metas=metas, fields=fields), flavour))


def test_a_map_without_optional_fields_says_types_and_nothing_else() -> None:
    table = parsed(b"")
    assert (table.database, table.table, table.table_id, table.flags) == ("shop", "t", 7, 1)
    assert [table.real_type(i) for i in range(8)] == [3, 15, 255, 247, 248, 246, 252, 8]
    assert table.metas == (0, 10, 4, 247 << 8 | 1, 248 << 8 | 1, 12 << 8 | 2, 2, 0)
    assert (table.names, table.charsets, table.labels, table.key, table.signs_known) == ((), {}, {}, (), False)
    assert (table.invisible, table.geometry_types, table.vector_dimensions) == (frozenset(), {}, {})


def test_signs_are_of_numeric_columns_highest_bit_first() -> None:
    table = parsed(optional(1, bytes((0b10100000,))))
    assert table.unsigned == {0, 7}
    assert table.signs_known


@pytest.mark.parametrize(
    ("flavour", "each", "default"),
    [
        ("mysql", optional(3, bytes((45, 33))), optional(2, bytes((45, 1, 33)))),
        ("mariadb", optional(3, bytes((45, 63, 33))), optional(2, bytes((45, 1, 63, 2, 33)))),
    ],
)
def test_only_mariadb_counts_geometry_among_columns_of_character(flavour: Flavour, each: bytes, default: bytes) -> None:
    assert parsed(each, flavour).charsets == parsed(default, flavour).charsets == {1: 45, 6: 33}
    with pytest.raises(Terminal, match=r"field 3 of shop\.t does not fit its columns"):
        parsed(each, "mariadb" if flavour == "mysql" else "mysql")


@pytest.mark.parametrize("fields", [optional(3, bytes((8, 63, 45))), optional(2, bytes((45, 0, 8, 1, 63)))])
def test_mysql_counts_vectors_among_columns_of_character(fields: bytes) -> None:
    table = parsed(fields, types=bytes((15, 242, 252)), metas=bytes((10, 0, 4, 2)))
    assert table.charsets == {0: 8, 2: 45}


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(Terminal, match=r"field 4 of shop\.t does not fit its columns"):
        parsed(optional(4, b"\x01a\x01a"), types=b"\x03\x03", metas=b"")


def test_charsets_of_enum_and_set_stand_apart() -> None:
    assert parsed(optional(10, b"\x08")).charsets == {3: 8, 4: 8}
    assert parsed(optional(10, b"\x08\x01\x2d")).charsets == {3: 8, 4: 45}
    assert parsed(optional(11, b"\x08\xfc\x00\x09")).charsets == {3: 8, 4: 2304}


def test_labels_are_bytes_of_the_columns_charset() -> None:
    table = parsed(optional(5, b"\x02\x01x\x02yy") + optional(6, b"\x01\x02\xc3\xa9"))
    assert table.labels == {4: (b"x", b"yy"), 3: (b"\xc3\xa9",)}


def test_names_keys_and_what_else_full_metadata_says() -> None:
    names = b"".join(bytes((len(n),)) + n for n in (b"a", b"b", b"c", b"d", b"e", b"f", b"g", "ü".encode()))
    table = parsed(optional(4, names) + optional(8, b"\x00\x07") + optional(7, b"\x02") + optional(12, b"\xfe"))
    assert table.names == ("a", "b", "c", "d", "e", "f", "g", "ü")
    assert (table.key, table.key_prefixed) == ((0, 7), False)
    assert (table.geometry_types, table.invisible) == ({2: 2}, {7})
    assert parsed(optional(9, b"\x01\x04\x00\x00")).key == (1, 0)
    assert parsed(optional(9, b"\x01\x04\x00\x00")).key_prefixed


def test_vectors_have_dimensions() -> None:
    table = parsed(optional(13, b"\x03\xfc\x00\x10"), types=bytes((242, 3, 242)), metas=b"\x04\x04")
    assert table.vector_dimensions == {0: 3, 2: 4096}


def test_a_field_that_is_not_known_is_left_out() -> None:
    assert parsed(optional(99, b"\xff\xff")) == parsed(b"")


@pytest.mark.parametrize(
    "fields",
    [
        optional(1, b""),
        optional(1, b"\0\0"),
        optional(2, b""),
        optional(2, b"\x21\x05\x21"),
        optional(2, b"\x21\x01"),
        optional(2, b"\x21") + optional(3, b"\x21\x21"),
        optional(3, b"\x21"),
        optional(4, b"\x01a"),
        optional(4, b"\x09a"),
        optional(5, b"\x01\x01x\x01\x01x"),
        optional(6, b"\x02\x01x"),
        optional(7, b"\x01\x01"),
        optional(8, b"\x08"),
        optional(8, b"\x00\x00"),
        optional(8, b"\x00") + optional(9, b"\x01\x02"),
        optional(9, b"\x01"),
        optional(10, b"\x08\x02\x08"),
        optional(12, b""),
        optional(13, b"\x03"),
        optional(1, b"\0") + optional(1, b"\0"),
        b"\x01\x09\0",
        b"\x01\xff",
        b"\x01",
    ],
)
def test_a_field_that_does_not_fit_its_columns_is_refused(fields: bytes) -> None:
    with pytest.raises(Terminal, match=r"cut short or malformed.*cause=.*file='bin\.000001', pos=700"):
        parsed(fields)


def test_metadata_must_end_with_its_columns() -> None:
    for metas in (METAS + b"\0", METAS[:-1]):
        with pytest.raises(Terminal, match=r"metadata of shop\.t|ends too early"):
            parsed(b"", metas=metas)


def test_a_type_that_nobody_knows_is_named_with_table_and_column() -> None:
    with pytest.raises(Terminal, match="type code is not known") as refused:
        parsed(b"", types=bytes((3, 77)), metas=b"")
    assert (refused.value.details["table"], refused.value.details["column"], refused.value.details["type"]) == (
        "shop.t",
        "@2",
        77,
    )


def test_equal_maps_are_equal_under_any_id() -> None:
    one = parse_table_map(event(table_map_body(1, "t")))
    two = parse_table_map(event(table_map_body(2, "t")))
    assert one == two
    assert hash(one) == hash(two)
    assert one.table_id != two.table_id


def test_the_name_is_told_without_the_rest() -> None:
    assert table_name(event(table_map_body(1, "ö", "d`b", types=b"\x4d"))) == ("d`b", "ö")


def test_a_map_cut_at_any_byte_is_refused() -> None:
    names = b"".join(bytes((len(n),)) + n for n in (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"))
    body = table_map_body(7, "t", types=TYPES, metas=METAS, fields=optional(1, b"\0") + optional(4, names))
    bare = len(table_map_body(7, "t", types=TYPES, metas=METAS))
    # Before its fields, and between two of them, a map is a legal one that says less.
    for cut in set(range(len(body))) - {bare, bare + 3}:
        with pytest.raises(Terminal):
            parse_table_map(event(body[:cut]))
