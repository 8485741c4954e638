"""Dates and times of row images → Avro pieces (`avro`): days, microseconds.

A writer takes a value's bytes and returns (piece, text): text is None, or what the server shows of a value that no
calendar has (zero and impossible dates), beside the piece of null. Bytes that no server writes raise `ValueError`.
Bit fields: `my_time.cc` of the servers (`TIME_from_longlong_datetime_packed`, `my_timestamp_from_binary`, …).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from include.source.malformed import Malformed
from include.source.rows.avro import LAST, MORE, MORE_PIECE, NULL, long_piece, micros_piece
from include.source.rows.layout import FRACTION_BYTES, Field

__all__ = ["Moment", "moment_writer", "parts_piece"]

Moment = Callable[[bytes], tuple[bytes, str | None]]

_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000
_LONGEST_TIME_US: Final = (838 * 3600 + 59 * 60 + 59) * 1_000_000 + 999_999
# MariaDB's TIME before 10.1 is kept as its distance from the least one, in units of its last digit.
_HIRES_ZERO_S: Final = 3_020_400
_REMEMBERED: Final = 4096
# Between them `avro.micros_piece` takes one look.
_EARLY_US, _LATE_US = 1 << 46, 1 << 54


def moment_writer(field: Field) -> Moment:
    """The writer of a date, datetime, timestamp or time."""
    makers: dict[str, Callable[[int], Moment]] = {
        "date": lambda _: _date,
        "datetime": _datetime,
        "datetime_old": lambda _: _datetime_old,
        "datetime_hires": _datetime_hires,
        "timestamp": _timestamp,
        "timestamp_old": lambda _: _timestamp_old,
        "timestamp_hires": _timestamp_hires,
        "time": _time,
        "time_old": lambda _: _time_old,
        "time_hires": _time_hires,
    }
    return makers[field.kind](field.a)


@lru_cache(_REMEMBERED)
def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970, None for a day that no calendar has; `ValueError` for what no server can hold."""
    if year > 9999 or month > 12 or day > 31:
        raise Malformed("a date that no server holds")
    try:
        return dt.date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def parts_piece(
    year: int, month: int, day: int, second: int, micros: int, digits: int | None
) -> tuple[bytes, str | None]:
    """Makes the piece of a date or a datetime from its parts.

    Args:
        year: 0 to 9999.
        month: 0 to 12.
        day: of the month, 0 to 31.
        second: of the day.
        micros: microseconds of the second.
        digits: of the second's fraction in the column's type; None: the piece is that of a date.

    Returns:
        (piece, None), or for a day that no calendar has (null, the text that the server shows).

    Raises:
        Malformed: the date is one that no server holds.
    """
    days = _days(year, month, day)
    if days is not None:
        return (
            long_piece(days) if digits is None else micros_piece(days * _DAY_US + second * 1_000_000 + micros)
        ), None
    text = f"{year:04}-{month:02}-{day:02}"
    return NULL, text if digits is None else f"{text} {_clock(second, micros, digits)}"


def _clock(second: int, micros: int, digits: int) -> str:
    text = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{text}.{micros:06}"[: 9 + digits] if digits else text


def _second(hour: int, minute: int, second: int, most: int = 23) -> int:
    if hour > most or minute > 59 or second > 59:
        raise Malformed("a time that no server holds")
    return (hour * 60 + minute) * 60 + second


def _micros(raw: int, digits: int) -> int:
    """A stored fraction: hundredths, ten-thousandths or millionths by the bytes that `digits` takes."""
    size = FRACTION_BYTES[digits]
    if raw >= 100**size:
        raise Malformed(f"a fraction beyond its {size} bytes")
    return int(raw * 10 ** (6 - 2 * size))


@lru_cache(_REMEMBERED)
def _date(data: bytes) -> tuple[bytes, str | None]:
    raw = int.from_bytes(data, "little")
    return parts_piece(raw >> 9, raw >> 5 & 15, raw & 31, 0, 0, None)


@lru_cache(1)
def _clocks() -> list[int]:
    """Microseconds of the day by the 17 bits of hour, minute and second; -1 where no clock shows them."""
    return [
        (hour * 3600 + minute * 60 + second) * 1_000_000 if hour < 24 and minute < 60 and second < 60 else -1
        for hour in range(32)
        for minute in range(64)
        for second in range(64)
    ]


def _datetime(digits: int) -> Moment:
    shift = 8 * FRACTION_BYTES[digits]
    unit, most, mask = 10 ** (6 - 2 * FRACTION_BYTES[digits]), 100 ** FRACTION_BYTES[digits], (1 << shift) - 1
    days: dict[int, int] = {}
    clocks, number = _clocks(), int.from_bytes
    piece, more, last = MORE_PIECE, MORE, LAST

    def write(data: bytes) -> tuple[bytes, str | None]:
        raw = number(data, "big")
        part, clock, date = raw & mask, clocks[raw >> shift & 0x1FFFF], raw >> (shift + 17)
        day = days.get(date)
        if day is not None and clock >= 0 and part < most:
            micros = day + clock + part * unit
            if _EARLY_US <= micros < _LATE_US:
                # As `micros_piece`, written out: a call costs as much as the rest.
                z = micros + micros
                return piece[z & 16383] + more[z >> 14 & 16383] + more[z >> 28 & 16383] + last[z >> 42], None
            return micros_piece(micros), None
        if not date >> 22:
            raise Malformed("a negative datetime")
        months, seconds = (date >> 5) & 0x1FFFF, raw >> shift
        year, month, of_month = months // 13, months % 13, date & 31
        known = _days(year, month, of_month)
        if known is not None:
            if len(days) >= _REMEMBERED:
                days.clear()
            days[date] = known * _DAY_US
        second = _second(seconds >> 12 & 31, seconds >> 6 & 63, seconds & 63)
        return parts_piece(year, month, of_month, second, _micros(part, digits), digits)

    return write


def _datetime_old(data: bytes) -> tuple[bytes, str | None]:
    rest, digits = int.from_bytes(data, "little"), []
    for _ in range(5):
        rest, part = divmod(rest, 100)
        digits.append(part)
    second, minute, hour, day, month = digits
    return parts_piece(rest, month, day, _second(hour, minute, second), 0, 0)


def _datetime_hires(digits: int) -> Moment:
    def write(data: bytes) -> tuple[bytes, str | None]:
        rest, part = divmod(int.from_bytes(data, "big"), 10**digits)
        rest, second = divmod(rest, 60)
        rest, minute = divmod(rest, 60)
        rest, hour = divmod(rest, 24)
        rest, day = divmod(rest, 32)
        year, month = divmod(rest, 13)
        clock = _second(hour, minute, second)
        return parts_piece(year, month, day, clock, part * 10 ** (6 - digits), digits)

    return write


def _stamp(seconds: int, micros: int, digits: int) -> tuple[bytes, str | None]:
    if seconds:
        return micros_piece(seconds * 1_000_000 + micros), None
    # The server keeps 0 for the zero date alone: 1970-01-01 00:00:00 UTC cannot be stored.
    return NULL, "0000-00-00 " + _clock(0, micros, digits)


def _timestamp(digits: int) -> Moment:
    shift = 8 * FRACTION_BYTES[digits]
    unit, most, mask = 10 ** (6 - 2 * FRACTION_BYTES[digits]), 100 ** FRACTION_BYTES[digits], (1 << shift) - 1
    number = int.from_bytes
    piece, more, last = MORE_PIECE, MORE, LAST

    def write(data: bytes) -> tuple[bytes, str | None]:
        raw = number(data, "big")
        seconds, part = raw >> shift, raw & mask
        if seconds and part < most:
            micros = seconds * 1_000_000 + part * unit
            if micros >= _EARLY_US:
                z = micros + micros
                return piece[z & 16383] + more[z >> 14 & 16383] + more[z >> 28 & 16383] + last[z >> 42], None
            return micros_piece(micros), None
        return _stamp(seconds, _micros(part, digits), digits)

    return write


def _timestamp_old(data: bytes) -> tuple[bytes, str | None]:
    return _stamp(int.from_bytes(data, "little"), 0, 0)


def _timestamp_hires(digits: int) -> Moment:
    def write(data: bytes) -> tuple[bytes, str | None]:
        part = int.from_bytes(data[4:], "big")
        if part >= 10**digits:
            raise Malformed(f"a fraction beyond its {digits} digits")
        return _stamp(int.from_bytes(data[:4], "big"), part * 10 ** (6 - digits), digits)

    return write


def _signed_time(micros: int) -> tuple[bytes, str | None]:
    if abs(micros) > _LONGEST_TIME_US:
        raise Malformed("a time longer than a server holds")
    return long_piece(micros), None


def _time(digits: int) -> Moment:
    extra = FRACTION_BYTES[digits]
    shift = 8 * extra

    def write(data: bytes) -> tuple[bytes, str | None]:
        raw = int.from_bytes(data, "big") - (0x800000 << shift)
        sign, raw = (-1, -raw) if raw < 0 else (1, raw)
        clock, part = raw >> shift, raw & ((1 << shift) - 1)
        seconds = _second(clock >> 12 & 1023, clock >> 6 & 63, clock & 63, 838)
        if clock >> 22:
            raise Malformed("a time beyond its range")
        return _signed_time(sign * (seconds * 1_000_000 + _micros(part, digits)))

    return write


def _time_old(data: bytes) -> tuple[bytes, str | None]:
    raw = int.from_bytes(data, "little", signed=True)
    sign, raw = (-1, -raw) if raw < 0 else (1, raw)
    return _signed_time(sign * _second(raw // 10_000, raw // 100 % 100, raw % 100, 838) * 1_000_000)


def _time_hires(digits: int) -> Moment:
    unit = 10 ** (6 - digits)
    zero = _HIRES_ZERO_S * 10**digits

    def write(data: bytes) -> tuple[bytes, str | None]:
        return _signed_time((int.from_bytes(data, "big") - zero) * unit)

    return write
