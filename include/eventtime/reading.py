"""From a record of a source to an element: its fields, its key, its event time.

A value is Avro or JSON Schema's where it begins as the registry's wire format does, else JSON as it is. Of a change
topic the newer image of a row is the element; a delete is none.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import orjson

from include.errors import InvalidRecord
from include.eventtime.algorithm.order import ArrivedElement, key_text
from include.eventtime.config.definition import JobSourceDefinition, TimeUnit
from include.eventtime.model.process import Key
from include.eventtime.restored import RestoredSource
from include.log import topics
from include.record.json.formats import FormatSchemas, Values, parsed

__all__ = ["ElementReader"]

_WIRE: Final = b"\x00"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_US: Final = dt.timedelta(microseconds=1)
_EARLIEST: Final = (dt.datetime(1900, 1, 1, tzinfo=dt.UTC) - _EPOCH) // _US
_LATEST: Final = (dt.datetime(9999, 1, 1, tzinfo=dt.UTC) - _EPOCH) // _US
_PER: Final[Mapping[TimeUnit, int]] = {"s": 1_000_000, "ms": 1_000, "us": 1}


class ElementReader:
    """Reads the records of one source.

    Args:
        rank: of the source among the job's.
        source: what is declared of it.
        key: the type of the process's keys.
        schemas: of the registry.
        restored: where the records are read; elements have the offsets that they had.
    """

    def __init__(
        self,
        rank: int,
        source: JobSourceDefinition,
        key: type,
        schemas: FormatSchemas,
        restored: RestoredSource | None = None,
    ) -> None:
        self._rank, self._source, self._key_type, self._restored = rank, source, key, restored
        change = topics.TopicName.parse(source.topic).kind == "change"
        self._values = Values(schemas, "change" if change else "plain")
        self._key = _at(source.key)
        self._time = None if source.time.field is None else _at(source.time.field)
        self._value = None if source.value is None else _at(source.value)
        self._us = _iso if source.time.unit == "iso" else _number(source.time.unit)
        self._ahead_us = round(source.ahead_s * 1_000_000)

    def read(self, partition: int, offset: int, timestamp_ms: int, value: bytes | None) -> ArrivedElement | None:
        """The element of a record (`timestamp_ms`: Kafka's own); None: it is none, as a tombstone or a delete.

        Raises:
            InvalidRecord: the value cannot be read, key or time are missing or of another type, or the time is later
                than Kafka's by more than the source allows.
        """
        if value is None:
            return None
        if value[:1] == _WIRE:
            body = self._values(value)
            if body is None:
                return None
            fields = orjson.loads(body)
        else:
            body, fields = value, parsed(value)
        if not isinstance(fields, dict):
            raise InvalidRecord("value is no record of fields", reason="value", got=type(fields).__name__)
        key = self._key(fields)
        if type(key) is not self._key_type:
            raise InvalidRecord(
                "key is not of the job's type", reason="key", field=self._source.key, got=type(key).__name__
            )
        kafka_us = timestamp_ms * 1_000
        time = kafka_us if self._time is None else self._us(self._time(fields), self._source.time.field)
        if time - kafka_us > self._ahead_us:
            raise InvalidRecord(
                "event time is later than the record's own: a wrong clock would make all others late",
                reason="ahead",
                ahead_s=(time - kafka_us) // 1_000_000,
                allowed=self._source.ahead_s,
            )
        if self._value is not None:
            body = self._inner(self._value(fields))
        if self._restored is not None:
            offset = self._restored.was(partition, offset)
        return ArrivedElement(time, self._rank, partition, offset, key_text(cast("Key", key)), body)

    def _inner(self, value: Any) -> bytes:
        if not isinstance(value, dict):
            got = type(value).__name__
            raise InvalidRecord("value is no record of fields", reason="value", field=self._source.value, got=got)
        return orjson.dumps(value)


def _at(path: str) -> Callable[[Mapping[str, Any]], Any]:
    """What gives the value of a field, dotted inside others; None where it is missing."""
    first, *others = path.split(".")
    if not others:
        return lambda fields: fields.get(first)

    def inner(fields: Mapping[str, Any]) -> Any:
        value = fields.get(first)
        for name in others:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    return inner


def _iso(value: Any, field: str | None) -> int:
    try:
        moment = dt.datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidRecord("event time is not ISO 8601", reason="time", field=field, got=repr(value)[:80]) from error
    return _possible(((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH) // _US, value, field)


def _possible(found: int, value: Any, field: str | None) -> int:
    """Refuses what no calendar has, and what a clock says that was never set: year 1, or 1899."""
    if not _EARLIEST <= found < _LATEST:
        raise InvalidRecord(
            "event time is out of range",
            reason="time",
            field=field,
            got=repr(value)[:80],
            allowed="1900 to 9998",
        )
    return found


def _number(unit: TimeUnit) -> Callable[[Any, str | None], int]:
    def us(value: Any, field: str | None) -> int:
        if type(value) is int:
            time_us = value // 1_000 if unit == "ns" else value * _PER[unit]
        elif type(value) is float and unit != "ns" and math.isfinite(value * _PER[unit]):
            time_us = round(value * _PER[unit])
        else:
            raise InvalidRecord("event time is no number", reason="time", field=field, got=repr(value)[:80])
        return _possible(time_us, value, field)

    return us
