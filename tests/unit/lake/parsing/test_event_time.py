from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from include.errors import InvalidRecord
from include.lake.parsing.event_time import LEAST_US, MOST_US, EventTimeField, clocked
from include.lake.parsing.fields import Instant

KAFKA_MS = 1_700_000_000_000
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def clock(unit: str = "ms", **more: Any) -> Any:
    return clocked(EventTimeField.model_validate({"field": "ts", "unit": unit, **more}))


def free(unit: str, **more: Any) -> Any:
    return clock(unit, behind_s=None, ahead_s=None, **more)


@pytest.mark.parametrize(
    ("unit", "value", "us"),
    [
        ("s", 1_700_000_000, 1_700_000_000_000_000),
        ("ms", 1_700_000_000_123, 1_700_000_000_123_000),
        ("us", 1_700_000_000_123_456, 1_700_000_000_123_456),
        ("ns", 1_700_000_000_123_456_789, 1_700_000_000_123_456),
        ("ns", -1, -1),
        ("ms", b"1700000000123", 1_700_000_000_123_000),
        ("ms", "1700000000123", 1_700_000_000_123_000),
        ("s", "1700000000.1234567", 1_700_000_000_123_456),
        ("s", b"-1.5", -1_500_000),
        ("s", Decimal("1700000000.9999999"), 1_700_000_000_999_999),
        ("s", Decimal("1.7E+9"), 1_700_000_000_000_000),
        ("s", Decimal("0E-999"), 0),
        ("ms", 1.5, 1_500),
        ("instant", Instant(1_700_000_000_123_456_789), 1_700_000_000_123_456),
        ("iso8601", "2023-11-14T22:13:20Z", 1_700_000_000_000_000),
        ("iso8601", b"2023-11-14T22:13:20Z", 1_700_000_000_000_000),
    ],
)
def test_a_time_of_each_unit_is_cut_off_to_whole_microseconds(unit: str, value: Any, us: int) -> None:
    assert free(unit)(value, -1) == us


@settings(max_examples=40)
@given(
    unit=st.sampled_from(sorted(PER_SECOND)),
    value=st.integers(-(10**18), 10**18)
    | st.decimals(-(10**12), 10**12, places=9)
    | st.floats(-1e12, 1e12, allow_nan=False),
)
def test_no_arithmetic_is_done_in_floats(unit: str, value: Any) -> None:
    exact = floor(Fraction(value) * 10**6 / PER_SECOND[unit])
    if LEAST_US <= exact < MOST_US:
        assert free(unit)(value, -1) == exact
    else:
        with pytest.raises(InvalidRecord, match="no year"):
            free(unit)(value, -1)


def test_the_last_moment_of_an_hour_does_not_round_into_the_next() -> None:
    assert free("s")(Decimal("1699999199.9999999999999"), -1) == 1_699_999_199_999_999


@pytest.mark.parametrize("unit", ["s", "ms", "iso8601", "instant"])
@pytest.mark.parametrize(
    "value",
    [
        True,
        "",
        "x",
        b"\xff",
        "١٢",
        "1e9",
        "0x10",
        " 1",
        "1" * 30,
        Decimal("1E+999999999"),
        Decimal("NaN"),
        float("nan"),
        float("inf"),
        1e300,
        {},
        [],
        ("a",),
        Decimal("1E-999999999"),
        "nan",
    ],
)
def test_what_is_no_time_is_refused(unit: str, value: Any) -> None:
    with pytest.raises(InvalidRecord) as refused:
        free(unit)(value, KAFKA_MS)
    assert refused.value.details["reason"].startswith("time")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [10**18, -(10**17), "99999999999999999999"])
def test_a_time_in_no_year_of_the_calendar_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRecord, match="no year"):
        free("s")(value, KAFKA_MS)


def test_no_unit_is_guessed_by_magnitude() -> None:
    assert free("ms")(1_700_000_000, -1) == 1_700_000_000_000
    with pytest.raises(InvalidRecord, match="too far"):
        clock("ms")(1_700_000_000, KAFKA_MS)


def test_the_bounds_hold_to_the_microsecond() -> None:
    bounded = clock("us", behind_s=60, ahead_s=10)
    kafka_us = KAFKA_MS * 1000
    assert bounded(kafka_us - 60_000_000, KAFKA_MS) == kafka_us - 60_000_000
    assert bounded(kafka_us + 10_000_000, KAFKA_MS) == kafka_us + 10_000_000
    for far in (kafka_us - 60_000_001, kafka_us + 10_000_001):
        with pytest.raises(InvalidRecord, match="too far"):
            bounded(far, KAFKA_MS)


def test_one_bound_may_be_left_out() -> None:
    assert clock("s", behind_s=None)(0, KAFKA_MS) == 0
    assert clock("s", ahead_s=None)(4_000_000_000, KAFKA_MS) == 4_000_000_000_000_000


def test_bounds_cannot_be_held_without_a_kafka_timestamp() -> None:
    with pytest.raises(InvalidRecord, match="no Kafka timestamp"):
        clock("ms")(KAFKA_MS, -1)


def test_a_missing_time_is_refused_unless_kafkas_may_stand_for_it() -> None:
    with pytest.raises(InvalidRecord, match="no event time"):
        clock()(None, KAFKA_MS)
    assert clock(missing="kafka")(None, KAFKA_MS) == KAFKA_MS * 1000
    with pytest.raises(InvalidRecord, match="no Kafka timestamp"):
        clock(missing="kafka")(None, -1)


def test_without_a_field_the_kafka_timestamp_is_the_time() -> None:
    assert clocked(EventTimeField())(None, 5) == 5000
    with pytest.raises(InvalidRecord):
        clocked(EventTimeField())(None, -1)


@pytest.mark.parametrize("kafka_ms", [MOST_US // 1000, 1_700_000_000_000_000, (1 << 63) - 1])
def test_a_kafka_timestamp_in_no_year_of_the_calendar_is_refused(kafka_ms: int) -> None:
    for definition in (
        EventTimeField(),
        EventTimeField.model_validate({"field": "ts", "unit": "ms", "missing": "kafka"}),
    ):
        with pytest.raises(InvalidRecord, match="no year that there is"):
            clocked(definition)(None, kafka_ms)
    assert clocked(EventTimeField())(None, MOST_US // 1000 - 1) == MOST_US - 1000


@pytest.mark.parametrize(
    "wrong",
    [
        {"field": "ts"},
        {"unit": "s"},
        {"field": "ts", "unit": "pattern"},
        {"field": "ts", "unit": "s", "pattern": "%Y"},
        {"field": "ts", "unit": "pattern", "pattern": "%H:%M"},
        {"field": "ts", "unit": "minutes"},
        {"field": "", "unit": "s"},
        {"field": "a..b", "unit": "s"},
        {"field": [], "unit": "s"},
        {"field": [True], "unit": "s"},
        {"field": "ts", "unit": "s", "zone": "Mars/Base"},
        {"field": "ts", "unit": "s", "behind_s": -1},
    ],
)
def test_a_definition_that_says_nothing_whole_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EventTimeField.model_validate(wrong)


def test_a_pattern_reads_text_in_its_zone() -> None:
    read = free("pattern", pattern="%d/%b/%Y:%H:%M:%S", zone="Europe/Berlin")
    assert read(b"14/Nov/2023:23:13:20", -1) == 1_700_000_000_000_000
    with pytest.raises(InvalidRecord, match="cannot be read"):
        read(b"14/Nov/2023", -1)
