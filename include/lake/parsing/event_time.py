"""Converts a message's value of a declared unit into its event time: integer microseconds since 1970 UTC.

No arithmetic is done in floats, and no unit guessed by magnitude. A binary float (Avro, MessagePack, Thrift, Protobuf)
counts as the exact number that it is. Times are cut off downwards to whole microseconds.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from include.lake.parsing.date_pattern import TextTime, iso_8601, pattern
from include.lake.parsing.fields import Instant, PathField, invalid, shown
from include.lake.parsing.zones import ZoneName, zone
from include.settings.deployment import Strict

__all__ = ["LEAST_US", "MOST_US", "Clocked", "EventTimeField", "FieldTimeUnit", "clocked"]

FieldTimeUnit = Literal["s", "ms", "us", "ns", "iso8601", "pattern", "instant"]
"""s, ms, us, ns: a number since 1970 UTC, or its digits as text. iso8601, pattern: text. instant: the value says its
unit itself (Avro's timestamp types, MessagePack's timestamp extension, Protobuf's Timestamp)."""

Clocked = Callable[[Any, int], int]
"""(value at the field, Kafka timestamp in ms or -1) → microseconds; `InvalidRecord` for what is no such time."""

LEAST_US: Final = (dt.date(1, 1, 2).toordinal() - dt.date(1970, 1, 1).toordinal()) * 86_400_000_000
"""Of event times the earliest that is a day of the calendar in every zone."""
MOST_US: Final = (dt.date(9999, 12, 31).toordinal() - dt.date(1970, 1, 1).toordinal()) * 86_400_000_000
"""The first that is too late to be one."""

_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_DAY_S: Final = 86_400


class EventTimeField(Strict):
    """Where a message says when it happened, and how far that may lie from when Kafka got it."""

    field: PathField | None = Field(default=None, description="path of the value; none: the record's Kafka timestamp")
    unit: FieldTimeUnit | None = None
    """What the value is; `instant`: a value that says its own unit (Avro, MessagePack, Protobuf)."""
    pattern: str | None = Field(default=None, description="for unit pattern, e.g. %d/%b/%Y:%H:%M:%S %z")
    zone: ZoneName = Field(default="UTC", description="of texts that name no offset")
    missing: Literal["refuse", "kafka"] = Field(
        default="refuse", description="of messages without a value: refuse, or take the Kafka timestamp"
    )
    behind_s: int | None = Field(default=30 * _DAY_S, ge=0, description="most seconds before the Kafka timestamp")
    ahead_s: int | None = Field(default=_DAY_S, ge=0, description="most seconds after it")

    @model_validator(mode="after")
    def _whole(self) -> EventTimeField:
        if (self.field is None) != (self.unit is None):
            raise ValueError("field and unit belong together; without both, the Kafka timestamp is taken")
        if (self.pattern is None) != (self.unit != "pattern"):
            raise ValueError("pattern belongs to unit: pattern")
        if self.pattern is not None:
            pattern(self.pattern, zone(self.zone))
        return self


def clocked(definition: EventTimeField) -> Clocked:
    """The function that gives event times as declared."""
    if definition.field is None:
        return lambda _, kafka_ms: _kafka_us(kafka_ms)
    name = shown(definition.field)
    convert = _converter(definition, name)
    by_kafka = definition.missing == "kafka"
    behind_us = None if definition.behind_s is None else definition.behind_s * 1_000_000
    ahead_us = None if definition.ahead_s is None else definition.ahead_s * 1_000_000
    bounded = behind_us is not None or ahead_us is not None

    def clock(value: Any, kafka_ms: int) -> int:
        if value is None:
            if by_kafka:
                return _kafka_us(kafka_ms)
            raise invalid("the message has no event time", "time missing", field=name)
        us = convert(value)
        if not LEAST_US <= us < MOST_US:
            raise invalid("the event time is in no year that there is", "time bounds", field=name, value=value)
        if bounded:
            if kafka_ms < 0:
                raise invalid(
                    "the record has no Kafka timestamp to hold its event time against", "time bounds", field=name
                )
            ahead = us - kafka_ms * 1000
            if (ahead_us is not None and ahead > ahead_us) or (behind_us is not None and -ahead > behind_us):
                raise invalid(
                    "the event time lies too far from the Kafka timestamp",
                    "time bounds",
                    field=name,
                    value=value,
                    ahead_s=ahead // 1_000_000,
                )
        return us

    return clock


def _kafka_us(kafka_ms: int) -> int:
    if kafka_ms < 0:
        raise invalid("the record has no Kafka timestamp", "time missing")
    us = kafka_ms * 1000
    # Producers write what they like there, microseconds say.
    if us >= MOST_US:
        raise invalid("the Kafka timestamp is in no year that there is", "time bounds", value=kafka_ms)
    return us


def _converter(definition: EventTimeField, name: str) -> Callable[[Any], int]:
    unit = definition.unit
    if unit == "instant":
        return lambda value: _instant(value, name)
    if unit == "iso8601":
        return _texts(iso_8601(zone(definition.zone)), name)
    if unit == "pattern":
        assert definition.pattern is not None  # noqa: S101 - the definition was validated
        return _texts(pattern(definition.pattern, zone(definition.zone)), name)
    per_second = _PER_SECOND[str(unit)]
    times, by = max(1, 1_000_000 // per_second), max(1, per_second // 1_000_000)

    def number(value: Any) -> int:
        kind = type(value)
        # Longer digits are refused below, as conversions of huge ones take long.
        if kind is int or (kind is bytes and len(value) <= 20 and value.isdigit()):
            return int(value) * times // by
        over, under = _ratio(value, name)
        return over * times // (under * by)

    return number


def _instant(value: Any, name: str) -> int:
    if not isinstance(value, Instant):
        raise invalid("the value does not say the unit of its time", "time type", field=name, value=value)
    return value.ns // 1000


def _texts(read: TextTime, name: str) -> Callable[[Any], int]:
    def text(value: Any) -> int:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if type(value) is not str:
            raise invalid("the event time is no text", "time type", field=name, value=value)
        try:
            return read(value)
        except (ValueError, OverflowError) as error:
            raise invalid("the event time cannot be read", f"time text: {error}", field=name, value=value) from None

    return text


def _ratio(value: Any, name: str) -> tuple[int, int]:
    """A number that is no plain int as an exact fraction."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise invalid("the event time is no number", "time text", field=name, value=value)
        value = Decimal(value)
    if isinstance(value, Decimal):
        # Exponents are bounded first: the fraction of 1E+999999 would fill the memory.
        if value.is_finite() and -64 < value.adjusted() < 64 and len(value.as_tuple().digits) <= 64:
            return value.as_integer_ratio()
        if value.is_zero():
            return 0, 1
    elif isinstance(value, float):
        if abs(value) < 1e30:
            return value.as_integer_ratio()
    elif isinstance(value, int) and not isinstance(value, bool):
        return int(value), 1
    raise invalid("the event time is no number", "time type", field=name, value=value)
