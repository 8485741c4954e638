"""When an hour or a day is over, against every minute of the zone's own clock."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.lake.dates.event_hours import CalendarPeriod, folder_of
from include.lake.parsing.zones import zone

MINUTE = dt.timedelta(minutes=1)
# Zone, first and last UTC day of a stretch: hours twice and never, half hours, changes at midnight and a minute after
# it, a day that was skipped, days and hours that are entered again.
STRETCHES = [
    ("Europe/Berlin", "2024-10-26", "2024-10-28"),
    ("Europe/Berlin", "2024-03-30", "2024-04-01"),
    ("America/St_Johns", "2006-10-28", "2006-10-30"),
    ("America/St_Johns", "2006-04-01", "2006-04-03"),
    ("Australia/Lord_Howe", "2024-04-06", "2024-04-07"),
    ("Australia/Lord_Howe", "2024-10-05", "2024-10-06"),
    ("America/Sao_Paulo", "2017-10-14", "2017-10-16"),
    ("America/Sao_Paulo", "2018-02-17", "2018-02-18"),
    ("Pacific/Apia", "2011-12-29", "2012-01-01"),
    ("Asia/Kathmandu", "1985-12-30", "1986-01-02"),
    ("UTC", "2024-02-28", "2024-03-01"),
]


def ms(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)


def minutes(name: str, first: str, last: str) -> dict[CalendarPeriod, dt.datetime]:
    """Each day and hour that occurs → the end of its last minute."""
    where, ends = zone(name), defaultdict[CalendarPeriod, dt.datetime](lambda: dt.datetime.min.replace(tzinfo=dt.UTC))
    # A day on both sides, so that the first and last days are seen whole.
    at = dt.datetime.fromisoformat(first).replace(tzinfo=dt.UTC) - dt.timedelta(days=2)
    until = dt.datetime.fromisoformat(last).replace(tzinfo=dt.UTC) + dt.timedelta(days=3)
    while at < until:
        local = at.astimezone(where)
        ends[CalendarPeriod(local.date(), local.hour)] = ends[CalendarPeriod(local.date())] = at + MINUTE
        at += MINUTE
    return ends


@pytest.mark.parametrize(("name", "first", "last"), STRETCHES)
def test_ends_equal_those_of_every_minute_of_the_zone(name: str, first: str, last: str) -> None:
    ends = minutes(name, first, last)
    day, last_day = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    while day <= last_day:
        for period in (CalendarPeriod(day), *(CalendarPeriod(day, hour) for hour in range(24))):
            expected = ms(ends[period]) if period in ends else None
            assert period.end_ms(name) == expected, period
        day += dt.timedelta(days=1)


def length_h(day: str, name: str) -> float:
    period = CalendarPeriod(dt.date.fromisoformat(day))
    before = CalendarPeriod(period.day - dt.timedelta(days=1))
    end, start = period.end_ms(name), before.end_ms(name)
    assert end is not None
    assert start is not None
    return (end - start) / 3_600_000


def test_days_have_23_and_25_hours() -> None:
    assert length_h("2024-03-31", "Europe/Berlin") == 23
    assert length_h("2024-10-27", "Europe/Berlin") == 25
    assert length_h("2024-10-28", "Europe/Berlin") == 24


def test_an_hour_that_happens_twice_is_over_after_the_second() -> None:
    end = CalendarPeriod(dt.date(2024, 10, 27), 2).end_ms("Europe/Berlin")
    assert end == ms(dt.datetime(2024, 10, 27, 2, tzinfo=dt.UTC))


def test_hours_and_days_that_never_were_have_no_end() -> None:
    assert CalendarPeriod(dt.date(2024, 3, 31), 2).end_ms("Europe/Berlin") is None
    assert CalendarPeriod(dt.date(2011, 12, 30)).end_ms("Pacific/Apia") is None


def test_a_day_that_is_entered_again_is_over_the_second_time() -> None:
    # At 00:01 of the 29th the clock went back to 23:01 of the 28th.
    end, begun = (
        CalendarPeriod(dt.date(2006, 10, 28)).end_ms("America/St_Johns"),
        dt.datetime(2006, 10, 29, 2, 30, tzinfo=dt.UTC),
    )
    assert end == ms(begun + dt.timedelta(hours=1))


@settings(max_examples=100)
@given(
    st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2090, 1, 1)),
    st.sampled_from(sorted({name for name, _, _ in STRETCHES})),
)
def test_no_instant_has_a_name_that_is_over(moment: dt.datetime, name: str) -> None:
    instant = moment.replace(tzinfo=dt.UTC, microsecond=999_000)
    local = instant.astimezone(zone(name))
    for period in (CalendarPeriod(local.date(), local.hour), CalendarPeriod(local.date())):
        end = period.end_ms(name)
        assert end is not None
        assert ms(instant) < end <= ms(instant) + 50 * 3_600_000
        later = dt.datetime.fromtimestamp(end / 1000, dt.UTC).astimezone(zone(name))
        assert CalendarPeriod(later.date(), later.hour if period.hour is not None else None) != period


def test_the_edges_of_the_calendar_have_ends() -> None:
    assert CalendarPeriod(dt.date.min).end_ms("Europe/Berlin") is not None
    assert CalendarPeriod(dt.date.max, 23).end_ms("Pacific/Apia") is not None


@pytest.mark.parametrize(
    ("names", "period"),
    [
        (("dt=2024-05-01", "hr=07"), CalendarPeriod(dt.date(2024, 5, 1), 7)),
        (("country=de", "dt=2024-05-01"), CalendarPeriod(dt.date(2024, 5, 1))),
        (("dt=2024-05-01", "country=de"), CalendarPeriod(dt.date(2024, 5, 1))),
        (("2024-05-01", "07"), CalendarPeriod(dt.date(2024, 5, 1), 7)),
        (("2024-05-01", "hr=07"), CalendarPeriod(dt.date(2024, 5, 1))),
        (("2024-05-01", "hr=77"), CalendarPeriod(dt.date(2024, 5, 1))),
        (("dt=2024-02-30",), None),
        (("dt=__HIVE_DEFAULT_PARTITION__",), None),
        (("offset=3000000",), None),
        ((), None),
    ],
)
def test_names_tell_their_period(names: tuple[str, ...], period: CalendarPeriod | None) -> None:
    assert CalendarPeriod.of(names) == period


def test_success_stands_where_the_period_does() -> None:
    assert folder_of(("dt=2024-05-01", "hr=07", "schema=7")) == ("dt=2024-05-01", "hr=07")
    assert folder_of(("country=de", "dt=2024-05-01", "schema=7")) == ("country=de", "dt=2024-05-01")
    assert folder_of(("2024-05-01", "07", "x=1")) == ("2024-05-01", "07")
    assert folder_of(("offset=0",)) == ()


def test_a_zone_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        CalendarPeriod(dt.date(2024, 1, 1)).end_ms("Europe/Nowhere")
