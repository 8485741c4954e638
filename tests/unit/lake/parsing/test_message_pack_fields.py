from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.lake.parsing.fields import Instant, WantedValue
from include.lake.parsing.readers.message_pack_fields import message_pack_reader

NUMBERS = [(0xCC, "B"), (0xCD, "H"), (0xCE, "I"), (0xCF, "Q"), (0xD0, "b"), (0xD1, "h"), (0xD2, "i"), (0xD3, "q")]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(max_size=40)
    | st.binary(max_size=300)
    | st.floats()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=17) | st.dictionaries(st.text(max_size=3) | st.integers(-40, 300), inner, max_size=17)
    ),
    max_leaves=8,
)


def packed(value: Any) -> bytes:
    """The specification's smallest forms."""
    match value:
        case None | bool():
            return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
        case int() if -32 <= value < 128:
            return struct.pack("b", value)
        case int():
            for first, letter in NUMBERS[:4] if value >= 0 else NUMBERS[4:]:
                try:
                    return bytes([first]) + struct.pack(">" + letter, value)
                except struct.error:
                    continue
            raise OverflowError
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case str():
            body = value.encode()
            return sized(len(body), [(32, 0xA0), (0xD9, 1), (0xDA, 2), (0xDB, 4)]) + body
        case bytes():
            return sized(len(value), [(0, 0), (0xC4, 1), (0xC5, 2), (0xC6, 4)]) + value
        case list():
            return sized(len(value), [(16, 0x90), (0, 0), (0xDC, 2), (0xDD, 4)]) + b"".join(map(packed, value))
        case dict():
            body = b"".join(packed(k) + packed(v) for k, v in value.items())
            return sized(len(value), [(16, 0x80), (0, 0), (0xDE, 2), (0xDF, 4)]) + body
    raise TypeError(value)


def sized(size: int, forms: list[tuple[int, int]]) -> bytes:
    below, first = forms[0]
    if size < below:
        return bytes([first + size])
    return next(
        bytes([kind]) + size.to_bytes(width, "big") for kind, width in forms[1:] if width and size < 1 << 8 * width
    )


def read(data: bytes, *paths: tuple[str | int, ...]) -> list[Any]:
    return list(message_pack_reader([WantedValue(path) for path in paths])(data))


@settings(max_examples=40)
@given(
    value=SCALARS.filter(lambda v: v == v),
    before=VALUES,
    after=VALUES,
    key=st.sampled_from(["ts", 7, "", 200, -3, "k" * 40]),
)
def test_a_value_is_found_between_any_others(value: Any, before: Any, after: Any, key: str | int) -> None:
    data = packed({"before": before, "deep": {"list": [after, {key: value}]}, "after": after, "top": value})
    assert read(data, ("deep", "list", 1, key), ("top",), ("deep", "none")) == [value, value, None]


@settings(max_examples=40)
@given(value=VALUES, cut=st.data())
def test_a_message_cut_short_or_with_more_behind_is_refused(value: Any, cut: st.DataObject) -> None:
    data = packed({"ts": 5, "x": value})
    end = cut.draw(st.integers(0, len(data) - 1))
    for bad in (data[:end], data + b"\x00"):
        with pytest.raises(InvalidRecord):
            read(bad, ("ts",))


@pytest.mark.parametrize(
    ("hexadecimal", "value"),
    [
        ("d6ff65a1b2c3", 1705095875 * 10**9),
        ("d7ff" + f"{123456789 << 34 | 1700000000:016x}", 1700000000123456789),
        ("c70cff" + "00000001" + "ffffffffffffffff", -(10**9) + 1),
    ],
)
def test_the_timestamp_extension_says_its_unit_itself(hexadecimal: str, value: int) -> None:
    assert read(b"\x81\xa2ts" + bytes.fromhex(hexadecimal), ("ts",)) == [Instant(value)]


@pytest.mark.parametrize(
    "value",
    [
        "d6fe65a1b2c3",
        "d7ff" + "ffffffff00000001",
        "c703ff010203",
        "d4ff01",
        "90",
        "80",
        "c1",
        "d5ff0102",
        "a1ff",
        "d8" + "00" * 17,
    ],
)
def test_wanted_values_of_no_use_are_refused(value: str) -> None:
    with pytest.raises(InvalidRecord):
        read(b"\x81\xa2ts" + bytes.fromhex(value), ("ts",))


@pytest.mark.parametrize(
    "value", ["d6fe65a1b2c3", "c703ff010203", "d4ff01", "90", "80", "a1ff", "d8" + "00" * 17, "ca3fc00000"]
)
def test_the_same_values_may_stand_elsewhere(value: str) -> None:
    assert read(b"\x82\xa1x" + bytes.fromhex(value) + b"\xa2ts\x05", ("ts",)) == [5]


def test_the_keys_of_secor_are_numbers() -> None:
    assert read(bytes.fromhex("83010503cf0000018bcfe5680002c4016b"), (1,), (3,), (2,)) == [5, 1700000000000, b"k"]


def test_of_a_key_that_stands_twice_the_last_counts() -> None:
    assert read(b"\x82\xa1a\x01\xa1a\x02", ("a",)) == [2]


def test_names_may_be_raw_bytes_and_floats_are_no_numbers_of_keys() -> None:
    assert read(b"\x82\xc4\x01a\x01\xcb" + struct.pack(">d", 1.0) + b"\x02", ("a",), (1,)) == [1, None]


@pytest.mark.parametrize(
    "data", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff\x00", b"\xc6\xff\xff\xff\xff", b"\x91" * 100_000]
)
def test_great_counts_and_depths_cost_nothing(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        read(data, ("a",))
