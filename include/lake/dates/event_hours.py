"""Hours and days of a zone as partition names have them, and the instant from which none is to come.

An hour of the clock may happen twice, be cut short or not exist, and a day may have 23 or 25 hours, be skipped, or be
entered again after the next one has begun; a name is over when the last instant that carries it has passed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from include.lake.parsing.zones import zone

__all__ = ["CalendarPeriod", "folder_of"]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S
# Offsets from UTC are less than a day; with an hour to spare.
_MARGIN_S: Final = 25 * _HOUR_S
_DAY: Final = re.compile(r"(dt=)?([0-9]{4})-([0-9]{2})-([0-9]{2})")
_HIVE_HOUR: Final = re.compile(r"hr=([0-9]{2})")
_PLAIN_HOUR: Final = re.compile(r"([0-9]{2})")


class CalendarPeriod(NamedTuple):
    """A day of the calendar, or one hour of it (0-23)."""

    day: dt.date
    hour: int | None = None

    @classmethod
    def of(cls, names: Sequence[str]) -> CalendarPeriod | None:
        """That of partition names, `dt=…[/hr=…]` or plain (`2026-11-21[/10]`); None when they have no date."""
        return _found(names)[0]

    def end_ms(self, zone_name: str) -> int | None:
        """Epoch milliseconds from which no instant has this name in the zone; None when none ever has.

        Raises `ValueError` for a zone that there is not.
        """
        edges = _edges_ms(self, zone_name)
        return edges[1] if edges else None

    def begin_ms(self, zone_name: str) -> int | None:
        """Epoch milliseconds of the first instant that has this name in the zone; None and raises as `end_ms`."""
        edges = _edges_ms(self, zone_name)
        return edges[0] if edges else None


def folder_of(names: Sequence[str]) -> tuple[str, ...]:
    """The names down to those of the period, where its `_SUCCESS` stands; empty when they have no date."""
    return tuple(names[: _found(names)[1]])


def _found(names: Sequence[str]) -> tuple[CalendarPeriod | None, int]:
    """The period, and how many names lead to it."""
    for depth, name in enumerate(names, 1):
        match = _DAY.fullmatch(name)
        if match is None:
            continue
        try:
            day = dt.date(int(match[2]), int(match[3]), int(match[4]))
        except ValueError:
            continue
        pattern = _HIVE_HOUR if match[1] else _PLAIN_HOUR
        hour = pattern.fullmatch(names[depth]) if depth < len(names) else None
        return (
            (CalendarPeriod(day, int(hour[1])), depth + 1)
            if hour and int(hour[1]) < 24
            else (CalendarPeriod(day), depth)
        )
    return None, 0


@lru_cache(maxsize=65536)
def _edges_ms(period: CalendarPeriod, zone_name: str) -> tuple[int, int] | None:
    where = zone(zone_name)
    # Seconds of the local clock, counted as if it never changed.
    start = (period.day.toordinal() - _EPOCH.toordinal()) * _DAY_S + (period.hour or 0) * _HOUR_S
    end = start + (_DAY_S if period.hour is None else _HOUR_S)
    carried = [
        (max(since, start - offset), min(until, end - offset))
        for since, until, offset in _spans(where, start - _MARGIN_S, end + _MARGIN_S)
        if max(since, start - offset) < min(until, end - offset)
    ]
    if not carried:
        return None
    return min(begin for begin, _ in carried) * 1000, max(ended for _, ended in carried) * 1000


def _spans(where: ZoneInfo, since: int, until: int) -> list[tuple[int, int, int]]:
    """[since, until) in epoch seconds as spans of one offset each (since, until, offset in seconds)."""
    spans: list[tuple[int, int, int]] = []
    begin, reached, offset = since, since, _offset(where, since)
    while reached < until:
        following = min(reached + _HOUR_S, until)
        changed = _offset(where, following)
        if changed != offset:
            turn = _turn(where, reached, following)
            spans.append((begin, turn, offset))
            begin, offset = turn, changed
        reached = following
    return [*spans, (begin, until, offset)]


def _turn(where: ZoneInfo, before: int, after: int) -> int:
    """The second at which the offset becomes what it is at `after`."""
    old = _offset(where, before)
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(where, middle) == old:
            before = middle
        else:
            after = middle
    return after


def _offset(where: ZoneInfo, second: int) -> int:
    try:
        local = (_EPOCH + dt.timedelta(seconds=second)).astimezone(where)
    except OverflowError:
        # At the edges of the calendar: years 1 and 9999, in which no zone has a rule of its own.
        return 0
    offset = local.utcoffset() or dt.timedelta()
    return offset // dt.timedelta(seconds=1)
