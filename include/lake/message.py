"""A Kafka record as the lake keeps it: all of it, null unlike empty."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Message", "TimestampType"]

TimestampType = Literal[0, 1, 2]
"""0: it has none; 1: the producer's (CreateTime); 2: the broker's (LogAppendTime)."""


class Message(NamedTuple):
    """One committed record of a partition. `value` None is a tombstone, unlike b''; headers keep order and repeats.

    `timestamp_ms` is -1 where the record has none. Bytes of a header's name that are not UTF-8 are lone surrogates
    (`surrogateescape`) in it.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = -1
    timestamp_type: TimestampType = 0
