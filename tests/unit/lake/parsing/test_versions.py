from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from include.errors import Terminal
from include.lake.parsing.versions import DeclaredVersions, ParserVersions

ANY: TypeAdapter[Any] = TypeAdapter(DeclaredVersions)
PARSER = {"format": "json", "time": {"field": "ts", "unit": "ms"}}
ADDED = "2026-11-0{}T00:00:00Z"


def version(number: int, **start: Any) -> dict[str, Any]:
    return {"version": number, "added": ADDED.format(number), "parser": PARSER, **start}


def versions(*declared: dict[str, Any]) -> ParserVersions:
    return ParserVersions("clicks", ANY.validate_python(declared))


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).astimezone(dt.UTC)


THREE = versions(
    version(1), version(2, from_offsets={0: 100, 1: 50}), version(4, from_time="2026-11-04T00:00:00.5+00:00")
)
FOURTH_MS = 1_793_750_400_500


@pytest.mark.parametrize(
    ("partition", "first", "timestamp_ms", "holds"),
    [
        (0, 99, 0, 1),
        (0, 100, 0, 2),
        (1, 49, -1, 1),
        (1, 50, -1, 2),
        (7, 0, 0, 2),
        (0, 99, FOURTH_MS, 4),
        (0, 500, FOURTH_MS - 1, 2),
        (0, 500, -1, 2),
    ],
)
def test_the_last_declared_whose_start_is_reached_holds(
    partition: int, first: int, timestamp_ms: int, holds: int
) -> None:
    assert THREE.holding(partition, first, timestamp_ms).version == holds


@settings(max_examples=40)
@given(starts=st.lists(st.integers(0, 60), max_size=3), first=st.integers(0, 60), later=st.integers(0, 60))
def test_between_borders_one_version_holds(starts: list[int], first: int, later: int) -> None:
    found = versions(version(1), *(version(i, from_offsets={0: start}) for i, start in enumerate(starts, start=2)))
    border = found.border(0, first)
    if first <= later and (border is None or later < border):
        assert found.holding(0, later, 0) == found.holding(0, first, 0)
    if border is not None:
        assert border > first
        assert border in starts


def test_as_of_sees_what_was_declared_by_then() -> None:
    assert THREE.as_of(utc("2026-11-03T00:00:00+00:00")).holding(0, 100, FOURTH_MS).version == 2
    assert THREE.as_of(utc("2026-11-01T01:00:00+01:00")).holding(0, 100, FOURTH_MS).version == 1
    assert THREE.as_of(utc("2026-11-09T00:00:00+00:00")).versions == list(THREE.versions)
    with pytest.raises(Terminal, match="no parser was declared yet"):
        THREE.as_of(utc("2026-10-31T23:59:59+00:00"))


def test_one_version_may_be_asked_for_everywhere() -> None:
    only = THREE.only(2)
    assert [only.holding(0, first, 0).version for first in (0, 99, 100)] == [2, 2, 2]
    assert only.border(0, 0) is None
    with pytest.raises(Terminal) as refused:
        THREE.only(3)
    assert refused.value.details["allowed"] == [1, 2, 4]


@pytest.mark.parametrize(
    "declared",
    [
        [],
        [version(1, from_offsets={0: 5})],
        [version(1), version(2)],
        [version(2), version(1, from_offsets={})],
        [version(1), version(1, from_offsets={})],
        [version(1), version(2, from_offsets={0: 1}, from_time="2026-11-02T00:00:00Z")],
        [version(1), version(2, from_offsets={0: -1})],
        [version(1), version(2, from_time="2026-11-02T00:00:00")],
        [version(0)],
    ],
)
def test_versions_that_leave_an_offset_open_or_undecided_are_refused(declared: list[dict[str, Any]]) -> None:
    with pytest.raises(ValidationError):
        ANY.validate_python(declared)
