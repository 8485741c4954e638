from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.lake.parsing.date_pattern import iso_8601, pattern
from include.lake.parsing.zones import zone

UTC, BERLIN = zone("UTC"), zone("Europe/Berlin")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC))
OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda m: dt.timezone(dt.timedelta(minutes=m)))


def us(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


@settings(max_examples=40)
@given(moment=MOMENTS, offset=OFFSETS, separator=st.sampled_from("T "))
def test_iso_8601_is_read_as_python_writes_it(moment: dt.datetime, offset: dt.timezone, separator: str) -> None:
    assert iso_8601(UTC)(moment.astimezone(offset).isoformat(sep=separator)) == us(moment)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14", "2023-11-14T00:00:00+00:00"),
        ("20231114", "2023-11-14T00:00:00+00:00"),
        ("20231114T221320Z", "2023-11-14T22:13:20+00:00"),
        ("2023-11-14T22:13Z", "2023-11-14T22:13:00+00:00"),
        ("2023-11-14T22:13:20,5+01", "2023-11-14T21:13:20.500000+00:00"),
        ("2023-11-14 22:13:20.123456789-0530", "2023-11-15T03:43:20.123456+00:00"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59+00:00"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999+00:00"),
    ],
)
def test_each_form_of_iso_8601_is_read(text: str, expected: str) -> None:
    assert iso_8601(UTC)(text) == us(dt.datetime.fromisoformat(expected))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2023",
        "2023-11",
        "2023-02-29",
        "2023-13-01",
        "2023-11-14T24:00:00",
        "2023-11-14T22:60",
        "2023-W46-2",
        "2023-11-14T22:13:20+24:00",
        "2023-11-14T22:13:20 Z",
        "2023-11-14T22:13:61",
        "٢٠٢٣-11-14",
        "2023-11-14\n",
        "0000-01-01",
        "2023-11-14T22",
        "2023-11-14Tnow",
        " 2023-11-14",
    ],
)
def test_what_is_no_iso_8601_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        iso_8601(UTC)(text)


def test_local_times_follow_the_zone_and_an_hour_that_happens_twice_is_its_first() -> None:
    read = iso_8601(BERLIN)
    assert read("2023-07-01T12:00") == us(dt.datetime(2023, 7, 1, 10, tzinfo=dt.UTC))
    assert read("2023-10-29T02:30") == us(dt.datetime(2023, 10, 29, 0, 30, tzinfo=dt.UTC))
    assert read("2023-10-29T02:30+01:00") == us(dt.datetime(2023, 10, 29, 1, 30, tzinfo=dt.UTC))


def test_a_local_time_that_clocks_left_out_is_refused() -> None:
    with pytest.raises(ValueError, match="Europe/Berlin left that time out"):
        iso_8601(BERLIN)("2023-03-26T02:30")


@settings(max_examples=40)
@given(
    moment=MOMENTS.filter(lambda m: m.year >= 1000),
    offset=OFFSETS,
    written=st.sampled_from(
        ["%Y-%m-%d %H:%M:%S.%f %z", "%d/%b/%Y:%H:%M:%S.%f %z", "%A, %d. %B %Y %I:%M:%S.%f %p%z", "%a%Y%j%%%H%M%S%f%z"]
    ),
)
def test_patterns_read_what_strftime_writes(moment: dt.datetime, offset: dt.timezone, written: str) -> None:
    text = moment.astimezone(offset).strftime(written)
    assert pattern(written, UTC)(text) == us(moment)


def test_a_fraction_may_have_one_to_nine_digits() -> None:
    read = pattern("%Y-%m-%d %H:%M:%S,%f", UTC)
    assert read("1970-01-01 00:00:01,5") == 1_500_000
    assert read("1970-01-01 00:00:01,123456789") == 1_123_456


def test_a_pattern_without_a_time_is_the_first_moment_of_its_day() -> None:
    assert pattern("%d.%m.%Y", BERLIN)("1.7.2023") == us(dt.datetime(2023, 6, 30, 22, tzinfo=dt.UTC))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("%Y-%m-%d", "2023-02-30"),
        ("%Y-%m-%d", "2023-02-3x"),
        ("%Y %j", "2023 366"),
        ("%Y %j", "2023 0"),
        ("%d %b %Y", "1 Foo 2023"),
        ("%a %Y-%m-%d", "Mon 2023-11-14"),
        ("%Y-%m-%d %I %p", "2023-11-14 13 PM"),
        ("%Y-%m-%d %I %p", "2023-11-14 0 AM"),
        ("%Y-%m-%d %H", "2023-11-14 24"),
    ],
)
def test_texts_that_are_no_such_time_are_refused(written: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        pattern(written, UTC)(text)


@pytest.mark.parametrize(
    "written", ["%H:%M", "%Y", "%Y-%m", "%Y-%m-%d %q", "%Y-%m-%d %", "%Y-%m-%d %I", "%Y%m%d%d", "%Y %m %d %p"]
)
def test_patterns_that_name_no_day_or_no_hour_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"pattern"):
        pattern(written, UTC)
