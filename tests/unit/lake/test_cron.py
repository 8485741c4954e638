"""Schedules of groups: the minutes that a text of five fields has."""

from __future__ import annotations

import datetime as dt

import pytest

from include.lake.cron import Cron


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("cron", "holds", "does_not"),
    [
        ("0 * * * *", "2026-11-22T05:00", "2026-11-22T05:01"),
        ("*/15 6-8 * * *", "2026-11-22T07:45", "2026-11-22T09:00"),
        ("5/20 3 * * *", "2026-11-22T03:45", "2026-11-22T03:00"),
        ("30 2 1,15 * *", "2026-11-15T02:30", "2026-11-16T02:30"),
        ("0 0 * 2 *", "2028-02-29T00:00", "2028-03-01T00:00"),
        # 2026-11-22 is a Sunday.
        ("0 4 * * 0", "2026-11-22T04:00", "2026-11-23T04:00"),
        ("0 4 * * 7", "2026-11-22T04:00", "2026-11-23T04:00"),
        ("0 4 * * 5-7", "2026-11-20T04:00", "2026-11-19T04:00"),
        ("0 4 1 * 1", "2026-11-23T04:00", "2026-11-24T04:00"),
        ("0 4 1 * 1", "2026-12-01T04:00", "2026-12-02T04:00"),
    ],
)
def test_a_schedule_has_some_minutes_and_not_others(cron: str, holds: str, does_not: str) -> None:
    assert Cron.parse(cron).holds(at(holds))
    assert not Cron.parse(cron).holds(at(does_not))


def test_a_minute_is_meant_in_utc_whatever_zone_asks() -> None:
    tokyo = dt.timezone(dt.timedelta(hours=9))
    assert Cron.parse("0 4 * * *").holds(dt.datetime(2026, 11, 22, 13, 0, tzinfo=tokyo))


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 * * *", "five fields"),
        ("60 * * * *", "'60' is no minute"),
        ("* 5-4 * * *", "'5-4' is no hour"),
        ("* * 0 * *", "'0' is no day of month"),
        ("* * * */0 *", "in steps of 1 or more"),
        ("* * * jan *", "'jan' is no month"),
        ("* * * * 8", "'8' is no day of week"),
        ("@daily", "five fields"),
    ],
)
def test_what_is_no_schedule_is_refused_by_its_field(cron: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Cron.parse(cron)


def test_a_time_that_came_meanwhile_is_found_also_when_a_run_was_late_or_left_out() -> None:
    daily = Cron.parse("0 3 * * *")
    assert daily.came(at("2026-11-22T02:55"), at("2026-11-22T03:05"))
    assert daily.came(at("2026-11-22T02:55"), at("2026-11-22T03:00"))
    assert not daily.came(at("2026-11-22T03:00"), at("2026-11-22T03:05"))
    assert daily.came(at("2020-01-01T00:00"), at("2026-11-22T02:00"))
    assert not Cron.parse("0 0 30 2 *").came(at("2020-01-01T00:00"), at("2026-11-22T02:00"))
