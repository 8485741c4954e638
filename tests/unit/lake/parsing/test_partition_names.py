from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from include.errors import InvalidRecord
from include.lake.parsing.event_time import LEAST_US, MOST_US
from include.lake.parsing.partition_names import (
    HIVE_NULL,
    ContentName,
    OffsetName,
    TimeName,
    check_names,
    content_names,
    offset_name,
    time_names,
)
from include.lake.parsing.zones import zone

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Monrovia"]
NAMERS = {name: time_names(TimeName(by="hour", zone=name)) for name in ZONES}
ESCAPED = "\"#%'*/:=?\\{[]^\x00\x1f\x7f"


def by_content(**more: Any) -> Any:
    return content_names(ContentName.model_validate({"by": "field", "name": "country", "field": "c", **more}))


@settings(max_examples=40)
@given(name=st.sampled_from(ZONES), us=st.integers(LEAST_US, MOST_US - 1) | st.integers(0, 2_000_000_000_000_000))
def test_days_and_hours_are_those_of_the_zone(name: str, us: int) -> None:
    local = (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=us)).astimezone(zone(name))
    assert NAMERS[name](us) == (f"dt={local.date().isoformat()}", f"hr={local.hour:02}")


@settings(max_examples=40)
@given(name=st.sampled_from(ZONES), minutes=st.lists(st.integers(-180, 180), min_size=1))
def test_names_around_changes_of_the_clock_follow_the_zone(name: str, minutes: list[int]) -> None:
    names = time_names(TimeName(by="hour", zone=name))
    for change in (1_698_541_200, 1_679_792_400, 1_699_164_000, 1_696_087_800, 63_593_070):
        for minute in minutes:
            us = (change + minute * 60 - 1) * 1_000_000
            local = dt.datetime.fromtimestamp(us // 1_000_000, zone(name))
            assert names(us) == (f"dt={local.date().isoformat()}", f"hr={local.hour:02}")


def test_hours_that_began_at_odd_seconds_are_told_apart_to_the_second() -> None:
    # Monrovia was 44 minutes 30 seconds behind UTC until 1972.
    names = NAMERS["Africa/Monrovia"]
    assert names((44 * 60 + 30) * 1_000_000 - 1) == ("dt=1969-12-31", "hr=23")
    assert names((44 * 60 + 30) * 1_000_000) == ("dt=1970-01-01", "hr=00")


def test_times_of_one_hour_share_one_tuple() -> None:
    names = time_names(TimeName(by="hour"))
    assert names(0) is names(3_599_999_999)
    assert names(0) is not names(3_600_000_000)


def test_layouts_of_hive_and_secor() -> None:
    us = 1_700_000_000_000_000
    assert time_names(TimeName(by="day"))(us) == ("dt=2023-11-14",)
    assert time_names(TimeName(by="day", layout="secor"))(us) == ("2023-11-14",)
    assert time_names(TimeName(by="hour", layout="secor"))(us) == ("2023-11-14", "22")


def test_memory_of_names_is_bounded_and_forgetting_changes_nothing() -> None:
    names = time_names(TimeName(by="hour"))
    first = [names(hour * 3_600_000_000) for hour in range(9000)]
    assert [names(hour * 3_600_000_000) for hour in range(9000)] == first


@settings(max_examples=40)
@given(offset=st.integers(0, 1 << 62), step=st.integers(1, 1 << 40))
def test_an_offset_is_rounded_down_to_its_step(offset: int, step: int) -> None:
    rounded = int(offset_name(offset, step).removeprefix("offset="))
    assert rounded % step == 0
    assert rounded <= offset < rounded + step


def test_a_step_is_at_least_one() -> None:
    with pytest.raises(ValidationError):
        OffsetName(by="offset", step=0)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("de", "de"),
        (5, "5"),
        (-5, "-5"),
        (True, "true"),
        (False, "false"),
        (b"de", "de"),
        (None, HIVE_NULL),
        ("", HIVE_NULL),
        (b"", HIVE_NULL),
        (HIVE_NULL, "%5F_HIVE_DEFAULT_PARTITION__"),
        ("..", ".."),
        ("a/b=c", "a%2Fb%3Dc"),
        ("a%2Fb", "a%252Fb"),
        ("new\nline", "new%0Aline"),
        ("Zürich", "Zürich"),
        ("a b", "a b"),
    ],
)
def test_a_value_becomes_a_name_as_hive_writes_it(value: Any, name: str) -> None:
    assert by_content()(value) == (f"country={name}",)


@settings(max_examples=40)
@given(value=st.text(st.characters(max_codepoint=0x7F) | st.sampled_from(ESCAPED), min_size=1, max_size=60))
def test_readers_get_every_text_back(value: str) -> None:
    (name,) = by_content()(value)
    shown = name.removeprefix("country=")
    assert unquote(shown) == value
    assert not set(shown) & set(ESCAPED.replace("%", ""))


@settings(max_examples=40)
@given(values=st.lists(st.text(max_size=20), min_size=2, max_size=2, unique=True))
def test_different_texts_have_different_names(values: list[str]) -> None:
    names = []
    for value in values:
        try:
            names.append(by_content()(value))
        except InvalidRecord:
            return
    assert names[0] != names[1]


def test_equal_keys_of_python_are_different_names() -> None:
    names = by_content()
    assert [names(value) for value in (1, True, "1", "true")] == [
        (f"country={text}",) for text in ("1", "true", "1", "true")
    ]


@pytest.mark.parametrize(
    "value", [1.5, {}, [], object(), b"\xff", "\ud800", "\x85", "\u2028", "\uffff", "x" * 300, 1 << 70]
)
def test_values_that_make_no_name_are_refused(value: Any) -> None:
    with pytest.raises(InvalidRecord) as refused:
        by_content()(value)
    assert refused.value.details["reason"].startswith("name")
    str(refused.value).encode()


@pytest.mark.parametrize("value", [None, "", b""])
def test_null_may_be_refused(value: Any) -> None:
    with pytest.raises(InvalidRecord, match="null or empty"):
        by_content(null="refuse")(value)


@pytest.mark.parametrize(
    "names",
    [
        ("",),
        (".",),
        ("..",),
        ("a/b",),
        ("a\\b",),
        ("a\x00",),
        ("_hidden",),
        (".hidden",),
        (5,),
        ("x" * 256,),
        (chr(0xD800),),
        ("ü" * 128,),
        ("x" * 200, "y" * 200, "z" * 200),
    ],
)
def test_names_that_cannot_be_nested_folders_are_refused(names: Any) -> None:
    with pytest.raises(InvalidRecord):
        check_names(names)


def test_names_up_to_the_bounds_pass() -> None:
    check_names(("x" * 255, "y" * 255))
    check_names(("x" * 255, "y" * 254, "z"))
    with pytest.raises(InvalidRecord, match="together"):
        check_names(("x" * 255, "y" * 254, "zz"))


@pytest.mark.parametrize("name", ["_country", "dt=", "a b", "", "1a", "ü"])
def test_a_column_has_a_plain_name(name: str) -> None:
    with pytest.raises(ValidationError):
        ContentName.model_validate({"by": "field", "name": name, "field": "c"})
