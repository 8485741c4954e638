"""What a deployment says of finalising, the markers' bytes, and event times told from names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.dates.event_hours import CalendarPeriod
from include.lake.dates.finalised import CommittedTimes
from include.lake.finalising.marker import LateArrivals, SuccessMarker, digest_of
from include.lake.finalising.scan import NamedTimes, committed_times
from include.lake.finalising_policy import Finalising, zones_of
from tests.support.lake.backfill_harness import group, version
from tests.support.lake.dates.harness import HOUR_MS, NOON, hourly
from tests.support.lake.harness import GROUP

HEADS = st.dictionaries(st.text("ab-_", min_size=1), st.dictionaries(st.integers(0, 9), st.integers(0, 1 << 62)))
NOON_HOUR = CalendarPeriod.of(("dt=2024-05-01", "hr=12"))


def test_the_first_pattern_that_has_a_topic_says_its_lateness() -> None:
    declared = Finalising.model_validate(
        {
            "lateness_s": 60,
            "topics": [{"topics": "slow*", "lateness_s": 7200}, {"topics": "*er", "lateness_s": 0}],
        }
    )
    assert [declared.lateness_of(topic) for topic in ("slower", "faster", "events")] == [7200, 0, 60]


def test_dates_are_those_of_all_zones_that_the_parser_ever_had() -> None:
    versions = group(hourly(zone="Europe/Berlin"), hourly(2, from_offsets={0: 9})).rules[0].versions or ()
    assert zones_of(Finalising(), versions) == ("Europe/Berlin", "UTC")
    assert zones_of(Finalising(zone="Asia/Tokyo"), versions) == ("Asia/Tokyo",)
    assert zones_of(Finalising(), ()) == ("UTC",)


def test_a_backup_has_no_dates_to_finalise() -> None:
    declared = GROUP.model_dump(exclude_defaults=True)
    with pytest.raises(ValueError, match="finalise belongs to a partition group"):
        type(GROUP).model_validate({**declared, "finalise": {"lateness_s": 1}})
    assert group(version(1, "at"), finalise={"lateness_s": 1}).finalise.lateness_of("e") == 1


@given(HEADS, st.integers(1, 9), st.booleans())
def test_markers_are_read_as_they_were_written(heads: dict[str, dict[int, int]], edition: int, told: bool) -> None:
    success = SuccessMarker(edition, "late", heads, 3, 4, 5, digest_of([("k", "s")]), told)
    assert SuccessMarker.parse(success.to_bytes(), "k") == success
    late = LateArrivals(edition, heads, heads, ("a", "b"))
    assert LateArrivals.parse(late.to_bytes(), "k") == late


def test_a_marker_that_is_no_marker_is_named() -> None:
    for parse in (SuccessMarker.parse, LateArrivals.parse):
        with pytest.raises(Terminal, match="folder/_SUCCESS"):
            parse(b"", "folder/_SUCCESS")
    wrong = SuccessMarker(1, "late", {}, 1, 1, 1, "").to_bytes().replace(b'"late"', b'"else"')
    with pytest.raises(Terminal, match="else"):
        SuccessMarker.parse(wrong, "k")
    with pytest.raises(Terminal, match="1 is no truth value"):
        SuccessMarker.parse(wrong.replace(b'"else"', b'"late"').replace(b"false", b"1"), "k")
    with pytest.raises(Terminal, match="no text"):
        LateArrivals.parse(LateArrivals(1, {}, {}, ("a",)).to_bytes().replace(b'"a"', b"1"), "k")


def test_an_empty_marker_of_another_program_is_not_overwritten_unread() -> None:
    with pytest.raises(Terminal, match="cannot be read"):
        SuccessMarker.parse(b"{}", "k")


def test_kafka_timestamps_tell_the_place_in_the_hour_that_the_name_says() -> None:
    def times(least: int | None, most: int | None) -> CommittedTimes:
        (found,) = committed_times([NamedTimes(NOON_HOUR, 5, least, most)], "UTC")
        return found

    assert times(NOON + 5, NOON + 9) == (5, NOON + 5, NOON + 9)
    assert times(NOON - 5, NOON + 2 * HOUR_MS) == (5, NOON, NOON + HOUR_MS - 1)
    assert times(None, None) == (5, NOON, NOON)


def test_filtered_records_are_where_their_timestamps_are_and_names_that_never_were_nowhere() -> None:
    assert committed_times([NamedTimes(None, 5, 1, 2), NamedTimes(None, 5, None, None)], "UTC") == [(5, 1, 2)]
    skipped = CalendarPeriod.of(("dt=2024-03-31", "hr=02"))
    assert committed_times([NamedTimes(skipped, 5, 1, 2)], "Europe/Berlin") == []


@given(st.integers(0, 2_000_000), st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"]))
def test_a_period_begins_where_the_one_before_it_ends(hours: int, zone: str) -> None:
    import datetime as dt

    day = dt.date(1970, 1, 1) + dt.timedelta(days=hours // 24)
    period, following = CalendarPeriod(day), CalendarPeriod(day + dt.timedelta(days=1))
    begin, end = period.begin_ms(zone), period.end_ms(zone)
    assert begin is not None
    assert end is not None
    assert begin < end
    assert following.begin_ms(zone) == end
