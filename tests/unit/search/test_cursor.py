from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.clock import iso
from include.errors import SettingsError
from include.search.cursor import DistanceCursor, ListPlace, field_of, moment_us

US = st.integers(0, 4_102_444_800_000_000)


@given(US, st.text(min_size=1))
def test_the_end_of_a_page_reads_as_it_was_written(at_us: int, doc_id: str) -> None:
    assert ListPlace.parse(str(ListPlace(at_us, doc_id))) == ListPlace(at_us, doc_id)


@given(st.floats(0, 3e7), st.text(min_size=1))
def test_the_end_of_a_page_by_distance_keeps_every_digit(metres: float, doc_id: str) -> None:
    assert DistanceCursor.parse(str(DistanceCursor(metres, doc_id))) == DistanceCursor(metres, doc_id)


@given(US)
def test_moments_are_read_to_the_microsecond(at_us: int) -> None:
    assert moment_us(iso(at_us)) == at_us


def test_a_moment_without_a_zone_is_utc_and_others_are_brought_there() -> None:
    assert (
        moment_us("2026-11-02T03:04:05") == moment_us("2026-11-02T03:04:05Z") == moment_us("2026-11-02T05:04:05+02:00")
    )


@pytest.mark.parametrize("text", ["", "7", "[1]", '["2026-11-02T03:04:05Z"]', '[7,"1"]', '["soon","1"]', '["2026",1]'])
def test_a_text_that_ends_no_page_is_refused_with_the_next_step(text: str) -> None:
    with pytest.raises(SettingsError, match="Give `next` of the page before"):
        ListPlace.parse(text)


@pytest.mark.parametrize("text", ["", '["x","1"]', '[true,"1"]', "[1.5,2]"])
def test_a_text_that_ends_no_page_by_distance_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        DistanceCursor.parse(text)


def test_a_document_without_the_moment_comes_last() -> None:
    with_one = ListPlace.of({"at": "1970-01-01T00:00:01Z"}, "at", "1")
    assert ListPlace.of({}, "at", "9") < with_one
    assert ListPlace.of({"at": None}, "at", "9") < with_one


def test_where_the_index_keeps_milliseconds_places_do_too() -> None:
    body = {"at": "1970-01-01T00:00:01.234567Z"}
    assert ListPlace.of(body, "at", "1") == ListPlace(1_234_567, "1")
    assert ListPlace.of(body, "at", "1", 1000) == ListPlace(1_234_000, "1")


def test_fields_are_found_by_their_path() -> None:
    body = {"a": {"b": {"c": 7}}, "d": None}
    assert field_of(body, "a.b.c") == 7
    assert field_of(body, "a.x.c") is None
    assert field_of(body, "d.e") is None
