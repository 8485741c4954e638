from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.lake.parsing.fields import WantedValue
from include.lake.parsing.readers.thrift_binary import MOST_DEPTH
from include.lake.parsing.readers.thrift_fields import thrift_reader

# A value is (type, Python's); types by the names of the interface language.
BINARY = {"bool": 2, "byte": 3, "double": 4, "i16": 6, "i32": 8, "i64": 10, "binary": 11, "struct": 12, "map": 13}
BINARY |= {"set": 14, "list": 15, "uuid": 16}
COMPACT = {
    "bool": 1,
    "byte": 3,
    "i16": 4,
    "i32": 5,
    "i64": 6,
    "double": 7,
    "binary": 8,
    "list": 9,
    "set": 10,
    "map": 11,
}
COMPACT |= {"struct": 12, "uuid": 13}
LETTERS = {"byte": "b", "i16": "h", "i32": "i", "i64": "q", "double": "d"}
RANGES = {"byte": 8, "i16": 16, "i32": 32, "i64": 64}
Typed = tuple[str, Any]


def scalars(kind: str) -> st.SearchStrategy[Any]:
    if kind in RANGES:
        return st.integers(-(1 << (RANGES[kind] - 1)), (1 << (RANGES[kind] - 1)) - 1)
    sizes = {"bool": st.booleans(), "double": st.floats(allow_nan=False), "binary": st.binary(max_size=200)}
    return sizes.get(kind, st.binary(min_size=16, max_size=16))


SCALARS = st.sampled_from(["bool", "byte", "i16", "i32", "i64", "double", "binary"]).flatmap(
    lambda kind: st.tuples(st.just(kind), scalars(kind))
)


def containers(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    lists = st.lists(inner, max_size=16).map(lambda items: [item for item in items if item[0] == items[0][0]])
    return st.one_of(
        st.tuples(st.sampled_from(["list", "set"]), lists),
        st.tuples(st.just("map"), lists.map(lambda items: list(zip(items, items, strict=True)))),
        st.tuples(st.just("struct"), st.dictionaries(st.integers(-(2**15), 2**15 - 1), inner, max_size=5)),
    )


VALUES = st.recursive(SCALARS | st.tuples(st.just("uuid"), scalars("uuid")), containers, max_leaves=6)


def binary(value: Typed) -> bytes:
    kind, content = value
    match kind:
        case "bool":
            return bytes([content])
        case "binary":
            return struct.pack(">i", len(content)) + content
        case "uuid":
            return bytes(content)
        case "list" | "set":
            head = bytes([BINARY[content[0][0]] if content else 0]) + struct.pack(">i", len(content))
            return head + b"".join(map(binary, content))
        case "map":
            kinds = [BINARY[each[0]] for each in content[0]] if content else [0, 0]
            return bytes(kinds) + struct.pack(">i", len(content)) + b"".join(binary(k) + binary(v) for k, v in content)
        case "struct":
            fields = (bytes([BINARY[v[0]]]) + struct.pack(">h", n) + binary(v) for n, v in content.items())
            return b"".join(fields) + b"\0"
    return struct.pack(">" + LETTERS[kind], content)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def zigzag(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def compact(value: Typed) -> bytes:
    kind, content = value
    match kind:
        case "bool":
            return b"\x01" if content else b"\x02"
        case "byte":
            return struct.pack("b", content)
        case "double":
            return struct.pack("<d", content)
        case "binary":
            return varint(len(content)) + content
        case "uuid":
            return bytes(content)
        case "list" | "set":
            of = COMPACT[content[0][0]] if content else 0
            size = len(content)
            head = bytes([size << 4 | of]) if size < 15 else bytes([0xF0 | of]) + varint(size)
            return head + b"".join(map(compact, content))
        case "map":
            if not content:
                return b"\0"
            kinds = COMPACT[content[0][0][0]] << 4 | COMPACT[content[0][1][0]]
            return varint(len(content)) + bytes([kinds]) + b"".join(compact(k) + compact(v) for k, v in content)
        case "struct":
            out, last = b"", 0
            for number, each in content.items():
                of = 2 if each == ("bool", False) else COMPACT[each[0]]
                delta = number - last
                out += bytes([delta << 4 | of]) if 0 < delta < 16 else bytes([of]) + zigzag(number)
                out += b"" if each[0] == "bool" else compact(each)
                last = number
            return out + b"\0"
    return zigzag(content)


WRITERS = {"binary": binary, "compact": compact}


def read(protocol: Any, data: bytes, *paths: tuple[int, ...]) -> list[Any]:
    return list(thrift_reader([WantedValue(path) for path in paths], protocol)(data))


@settings(max_examples=40)
@given(protocol=st.sampled_from(sorted(WRITERS)), value=SCALARS, other=VALUES, more=VALUES)
def test_a_value_is_found_between_any_others(protocol: str, value: Typed, other: Typed, more: Typed) -> None:
    data = WRITERS[protocol](("struct", {7: other, 1: value, -5: more, 3: ("struct", {2: more, 300: value})}))
    assert read(protocol, data, (1,), (3, 300), (3, 9), (4,)) == [value[1], value[1], None, None]


@settings(max_examples=40)
@given(protocol=st.sampled_from(sorted(WRITERS)), value=VALUES, cut=st.data())
def test_a_struct_cut_short_or_with_more_behind_is_refused(protocol: str, value: Typed, cut: st.DataObject) -> None:
    data = WRITERS[protocol](("struct", {1: ("i64", 5), 2: value}))
    end = cut.draw(st.integers(0, len(data) - 1))
    for bad in (data[:end], data + b"\0"):
        with pytest.raises(InvalidRecord):
            read(protocol, bad, (1,))


@pytest.mark.parametrize(
    ("protocol", "data"),
    [("binary", "0a00010000018bcfe568000b000200000002686900"), ("compact", "1680a0abfef9621802686900")],
)
def test_golden_structs(protocol: str, data: str) -> None:
    assert read(protocol, bytes.fromhex(data), (1,), (2,)) == [1_700_000_000_000, b"hi"]


def test_of_a_field_that_stands_twice_the_last_counts() -> None:
    assert read("binary", bytes.fromhex("030001010300010200"), (1,)) == [2]


@pytest.mark.parametrize("protocol", sorted(WRITERS))
def test_wanted_fields_of_other_kinds_are_refused(protocol: str) -> None:
    data = WRITERS[protocol](("struct", {1: ("list", [("i64", 5)]), 2: ("i64", 5), 3: ("struct", {})}))
    for path in ((1,), (3,), (2, 1)):
        with pytest.raises(InvalidRecord, match="is no"):
            read(protocol, data, path)


@pytest.mark.parametrize("protocol", sorted(WRITERS))
def test_depth_is_bounded(protocol: str) -> None:
    structs: Typed = ("i64", 1)
    lists: Typed = ("list", [])
    for _ in range(MOST_DEPTH + 2):
        structs, lists = ("struct", {1: structs}), ("list", [lists])
    for deep in (structs, ("struct", {1: lists})):
        with pytest.raises(InvalidRecord, match=r"deeper|cut"):
            read(protocol, WRITERS[protocol](deep), (2,))


@pytest.mark.parametrize(
    ("protocol", "data"),
    [
        ("binary", "0f00010c7fffffff"),
        ("binary", "0d00010b0bffffffff"),
        ("binary", "0b0001ffffffff"),
        ("binary", "630001"),
        ("binary", "0f000163000000010000"),
        ("compact", "19fcffffffff0f"),
        ("compact", "1bffffffff0f88"),
        ("compact", "18ffffffff0f"),
        ("compact", "16" + "ff" * 11),
        ("compact", "16" + "ff" * 9 + "7f00"),
        ("compact", "1f"),
        ("compact", ""),
    ],
)
def test_great_counts_and_unknown_types_are_refused_at_once(protocol: str, data: str) -> None:
    with pytest.raises(InvalidRecord):
        read(protocol, bytes.fromhex(data), (5,))


@pytest.mark.parametrize("path", [("a",), (1, "b"), (40_000,)])
def test_paths_are_field_ids(path: Any) -> None:
    with pytest.raises(ValueError, match="field ids"):
        thrift_reader([WantedValue(path)], "binary")
