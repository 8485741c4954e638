"""Times written as text → microseconds since 1970 UTC, in integers: ISO 8601, or a declared pattern.

Patterns are strptime's, with English names, ASCII digits and no locale: %Y %m %d %j %b %B %a %A %H %I %p %M %S %f
(1 to 9 digits) %z (Z, +02, +0200, +02:00) %%. What is finer than a microsecond is cut off. Second 60, a leap second,
counts as 59: the day in which it was written holds it.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

__all__ = ["TextTime", "iso_8601", "pattern"]

TextTime = Callable[[str], int]
"""Text → microseconds; `ValueError` says what is wrong with it."""

_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_MONTHS: Final = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]
_DAYS: Final = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_DIRECTIVES: Final = {
    "Y": r"(?P<Y>[0-9]{4})",
    "m": r"(?P<m>[0-9]{1,2})",
    "d": r"(?P<d>[0-9]{1,2})",
    "j": r"(?P<j>[0-9]{1,3})",
    "b": r"(?P<b>[A-Za-z]{3})",
    "B": r"(?P<B>[A-Za-z]{3,9})",
    "a": r"(?P<a>[A-Za-z]{3})",
    "A": r"(?P<A>[A-Za-z]{6,9})",
    "H": r"(?P<H>[0-9]{1,2})",
    "I": r"(?P<I>[0-9]{1,2})",
    "p": r"(?P<p>[AaPp][Mm])",
    "M": r"(?P<M>[0-9]{1,2})",
    "S": r"(?P<S>[0-9]{1,2})",
    "f": r"(?P<f>[0-9]{1,9})",
    "z": r"(?P<z>Z|[+-][0-9]{2}(?::?[0-9]{2})?)",
    "%": "%",
}
_ISO: Final = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})-([0-9]{2})|([0-9]{2})([0-9]{2}))"
    r"(?:[T ]([0-9]{2}):?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]{1,18}))?)?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)


def iso_8601(zone: ZoneInfo) -> TextTime:
    """Reads ISO 8601: extended or basic calendar dates, alone (its first moment) or with a time.

    A time without an offset is of `zone`.
    """

    def read(text: str) -> int:
        found = _ISO.fullmatch(text)
        if found is None:
            raise ValueError("no ISO 8601 time")
        year, month, day, basic_month, basic_day, hour, minute, second, fraction, offset = found.groups()
        return _moment(
            _day(int(year), int(month or basic_month), int(day or basic_day)),
            _of_day(int(hour or 0), int(minute or 0), int(second or 0)),
            _micros(fraction),
            offset,
            zone,
        )

    return read


def pattern(written: str, zone: ZoneInfo) -> TextTime:
    """Reads times by a pattern; one without %z is of `zone`. `ValueError` for a pattern that names no whole day."""
    expression, names = _expression(written)
    compiled = re.compile(expression)
    if "Y" not in names or not ("j" in names or ("d" in names and names & {"m", "b", "B"})):
        raise ValueError(f"the pattern {written!r} names no day: it needs %Y with %m and %d, or with %j")
    if ("I" in names) != ("p" in names):
        raise ValueError(f"the pattern {written!r} has only one of %I and %p")

    def read(text: str) -> int:
        found = compiled.fullmatch(text)
        if found is None:
            raise ValueError(f"not of the pattern {written}")
        parts = found.groupdict()
        day = _date(parts)
        if parts.get("p"):
            if not 1 <= int(parts["I"]) <= 12:
                raise ValueError("no such hour")
            hour = int(parts["I"]) % 12 + (12 if parts["p"] in ("PM", "pm", "Pm", "pM") else 0)
        else:
            hour = int(parts.get("H") or 0)
        clock = _of_day(hour, int(parts.get("M") or 0), int(parts.get("S") or 0))
        return _moment(day, clock, _micros(parts.get("f")), parts.get("z"), zone)

    return read


def _expression(written: str) -> tuple[str, set[str]]:
    pieces, names = [], set[str]()
    index = 0
    while index < len(written):
        if written[index] != "%":
            pieces.append(re.escape(written[index]))
            index += 1
            continue
        name = written[index + 1 : index + 2]
        if name not in _DIRECTIVES:
            raise ValueError(f"no directive %{name} in a date pattern; there are %{' %'.join(_DIRECTIVES)}")
        if name in names:
            raise ValueError(f"the pattern {written!r} has %{name} twice")
        if name != "%":
            names.add(name)
        pieces.append(_DIRECTIVES[name])
        index += 2
    return "".join(pieces), names


def _date(parts: dict[str, str]) -> int:
    year = int(parts["Y"])
    if parts.get("j"):
        most = 366 if calendar.isleap(year) else 365
        if not 1 <= int(parts["j"]) <= most:
            raise ValueError("no such day of the year")
        day = _day(year, 1, 1) + int(parts["j"]) - 1
    else:
        month = int(parts["m"]) if parts.get("m") else _month(parts)
        day = _day(year, month, int(parts["d"]))
    named = (parts.get("A") or parts.get("a") or "").lower()
    if named and named not in (name := _DAYS[(day + 3) % 7], name[:3]):
        raise ValueError(f"that day is no {named}")
    return day


def _month(parts: dict[str, str]) -> int:
    text = (parts.get("B") or parts.get("b") or "").lower()
    names = _MONTHS if parts.get("B") else [name[:3] for name in _MONTHS]
    if text not in names:
        raise ValueError(f"no month {text}")
    return names.index(text) + 1


@lru_cache(4096)
def _day(year: int, month: int, day: int) -> int:
    """Days since 1970."""
    return dt.date(year, month, day).toordinal() - _EPOCH_DAY


def _of_day(hour: int, minute: int, second: int) -> int:
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError("no such time of day")
    return hour * 3600 + minute * 60 + min(second, 59)


def _micros(fraction: str | None) -> int:
    return int(fraction[:6].ljust(6, "0")) if fraction else 0


def _moment(day: int, clock: int, micros: int, offset: str | None, zone: ZoneInfo) -> int:
    seconds = day * 86_400 + clock
    return (seconds - (_local(seconds, zone) if offset is None else _offset(offset))) * 1_000_000 + micros


@lru_cache(256)
def _offset(text: str) -> int:
    if text == "Z":
        return 0
    hours, minutes = int(text[1:3]), int(text[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(f"no such offset as {text}")
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)


@lru_cache(4096)
def _local(seconds: int, zone: ZoneInfo) -> int:
    """Offset in seconds of a local time; of an hour that happens twice its first, one that never does is refused."""
    local = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)  # noqa: DTZ001 - local on purpose
    offset = local.replace(tzinfo=zone).utcoffset()
    assert offset is not None  # noqa: S101 - a ZoneInfo always knows
    there = (local - offset).replace(tzinfo=dt.UTC).astimezone(zone).replace(tzinfo=None)
    if there != local:
        raise ValueError(f"the clocks of {zone.key} left that time out")
    return int(offset.total_seconds())
