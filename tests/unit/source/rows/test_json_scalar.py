"""Doubles, decimals, moments and opaque values inside of binary JSON: their text, and which are refused."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from include.source.rows.json.binary import json_text
from tests.support.binlog.binary_json import Opaque, document, opaque_decimal, opaque_moment, opaque_time

DOUBLES = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**18), 10**18).map(float))


def text(value: Any) -> str:
    return json_text(document(value)).decode()


@given(DOUBLES)
@example(0.0)
@example(-0.0)
@example(5e-324)
@example(1.7976931348623157e308)
@example(1e15)
@example(-1e15)
@example(1e16)
@example(999999999999999.0)
@example(1234567890123456.0)
@example(-1234567890123456.0)
@example(1234567890123456.5)
@example(1.2345678901234567e16)
@example(1e-15)
@example(9.999999999999999e-16)
@example(1.2345678901234567e-15)
def test_a_double_is_its_shortest_digits_without_exponent_where_the_server_shows_none(value: float) -> None:
    found = text(value)
    assert struct.pack("<d", float(found)) == struct.pack("<d", value)
    mantissa, _, exponent = found.partition("e")
    sign, digits, power = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(power, int)
    point = len(digits) + power if value else 1
    if -14 <= point <= 15 or 0 < point < len(digits):
        assert not exponent
        assert "." in mantissa
        assert mantissa.replace(".", "").strip("-0") == "".join(map(str, digits)).strip("0")
    else:
        assert int(exponent) == point - 1
        assert exponent == str(point - 1)
        assert mantissa == "-" * sign + str(digits[0]) + "." * (len(digits) > 1) + "".join(map(str, digits[1:]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.1, "0.1"), (1.0, "1.0"), (-0.0, "-0.0"), (1e14, "100000000000000.0"), (1e15, "1e15"), (1e100, "1e100"),
     (-2.5e-7, "-0.00000025"), (1e-15, "0.000000000000001"), (1.5e-16, "1.5e-16"), (123456789.125, "123456789.125"),
     (9007199254740993.0, "9.007199254740992e15"), (1234567890123456.5, "1234567890123456.5")],
)  # fmt: skip
def test_doubles_of_the_server_look_like_this(value: float, expected: str) -> None:
    assert text(value) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_double_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="a number that is none"):
        text([value])


@given(
    st.text(st.sampled_from("0123456789"), max_size=30),
    st.text(st.sampled_from("0123456789"), max_size=30),
    st.booleans(),
)
def test_a_decimal_keeps_its_digits_behind_the_point(whole: str, part: str, negative: bool) -> None:
    shown_whole = whole.lstrip("0") or "0"
    number = f"{shown_whole}.{part}" if part else shown_whole
    if negative and Decimal(number):
        number = "-" + number
    precision = max(len(whole), len(shown_whole) - (shown_whole == "0")) + len(part)
    if precision:
        assert text([opaque_decimal(number, precision)]) == f"[{number}]"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (opaque_moment(10, 2026, 11, 21), '"2026-11-21"'),
        (opaque_moment(10, 0, 0, 0), '"0000-00-00"'),
        (opaque_moment(12, 9999, 12, 31, 23, 59, 59, 999_999), '"9999-12-31 23:59:59.999999"'),
        (opaque_moment(7, 2026, 2, 3, 4, 5, 6), '"2026-02-03 04:05:06.000000"'),
        (opaque_time(838, 59, 59, 0), '"838:59:59.000000"'),
        (opaque_time(0, 0, 0, 1, -1), '"-00:00:00.000001"'),
        (Opaque(253, 'a"ü'.encode()), '"a\\"ü"'),
        (Opaque(252, b""), '"base64:type252:"'),
        (Opaque(15, b"\0\xff"), '"base64:type15:AP8="'),
        (Opaque(252, b"b" * 57), f'"base64:type252:{"YmJi" * 19}"'),
        (Opaque(252, b"b" * 58), f'"base64:type252:{"YmJi" * 19}\\nYg=="'),
        (opaque_decimal("-12345678901234567890.123456789", 40), "-12345678901234567890.123456789"),
        (opaque_decimal("0.00", 2), "0.00"),
    ],
)
def test_values_of_other_types_look_like_this(value: Opaque, expected: str) -> None:
    assert text(value) == expected
    assert text({"k": value}) == f'{{"k": {expected}}}'


@pytest.mark.parametrize(
    "value",
    [
        Opaque(12, b"1234567"),
        Opaque(11, b""),
        opaque_moment(12, 2026, 13, 32, 24),
        opaque_moment(12, 10_000, 1, 1),
        opaque_moment(12, -1, 1, 1),
        opaque_moment(7, 2026, 1, 1, 0, 60),
        opaque_moment(7, 2026, 1, 1, 0, 0, 60),
        opaque_time(839, 0, 0, 0),
        opaque_time(0, 0, 0, 1_000_000, -1),
        Opaque(246, b"\x02"),
        Opaque(246, b"\x42\x00" + bytes(30)),
        Opaque(246, b"\x02\x03\x80\x00"),
        Opaque(246, b"\x02\x03\x80" + bytes(5)),
        Opaque(246, b"\x04\x02\x80"),
        Opaque(246, b"\x04\x02\xff\x00"),
        Opaque(253, b"\xff"),
    ],
)
def test_values_of_other_types_that_no_server_has_are_refused(value: Opaque) -> None:
    with pytest.raises(ValueError, match=r"JSON|utf-8"):
        text([value])
