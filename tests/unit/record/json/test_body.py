from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.record.json.body import body_json


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("12.30"), "12.30"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-0.01"), "-0.01"),
        (dt.datetime(2026, 11, 2, 3, 4, 5, 6, tzinfo=dt.UTC), "2026-11-02T03:04:05.000006Z"),
        (dt.datetime(2026, 11, 2, 3, 4, 5, tzinfo=dt.UTC), "2026-11-02T03:04:05.000000Z"),
        (dt.datetime(26, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1))), "0026-01-01T23:00:00.000000Z"),
        (dt.datetime(2026, 11, 2, 3, 4, 5), "2026-11-02T03:04:05.000000"),
        (dt.date(2026, 11, 2), "2026-11-02"),
        (dt.time(3, 4, 5, 6), "03:04:05.000006"),
        (b"\x00\xff", "AP8="),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (True, True),
        (None, None),
        (2**63 - 1, 2**63 - 1),
        (0.1, 0.1),
        ({"a": [{"b": Decimal("1.0")}]}, {"a": [{"b": "1.0"}]}),
    ],
)
def test_values_have_one_json_form(value: Any, expected: Any) -> None:
    assert orjson.loads(body_json(value)) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}, {"a": object()}, "\ud800"])
def test_what_json_lacks_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRecord):
        body_json(value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2))
def test_a_decimal_keeps_all_its_digits(value: Decimal) -> None:
    text = orjson.loads(body_json(value))
    assert Decimal(text) == value
    assert "E" not in text.upper()


def test_a_body_is_one_line() -> None:
    assert b"\n" not in body_json({"text": "a\nb"})
