"""Encodes the keys of elements, timers and kept state; a bucket's embedded store sorts them by event time.

```
e time source partition offset   elements that are buffered, under the earliest one of them (`buffer`)
t time key                       at this time a timer of the key may be due
k key                            what is kept of a key (`kept`)
```
Numbers are big-endian, so that bytes sort as the numbers do; a time is shifted by 2^63.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import orjson

from include.eventtime.model.process import Key

__all__ = [
    "ELEMENTS",
    "TIMERS",
    "ArrivedElement",
    "element_key",
    "kept_key",
    "key_of",
    "key_text",
    "time_of",
    "timer_key",
    "timer_of",
]

ELEMENTS: Final = b"e"
TIMERS: Final = b"t"
_KEPT: Final = b"k"
_ELEMENT: Final = struct.Struct(">cQHIQ")
_TIME: Final = struct.Struct(">cQ")
_ZERO: Final = 1 << 63


class ArrivedElement(NamedTuple):
    """An element on its way to the process; as a tuple it sorts as elements of one key come.

    Args:
        time: its event time, µs.
        source: the rank of its topic among the job's sources.
        partition: where it was read.
        offset: where it was read.
        key: of the process, as `key_text`.
        value: its fields as JSON.
    """

    time: int
    source: int
    partition: int
    offset: int
    key: bytes
    value: bytes


def key_text(key: Key) -> bytes:
    """A key as bytes: JSON, so that 1 and "1" are two."""
    return orjson.dumps(key)


def key_of(text: bytes) -> Key:
    """Inverse of `key_text`."""
    found: Key = orjson.loads(text)
    return found


def element_key(element: ArrivedElement) -> bytes:
    """The key of a row of elements whose earliest this is."""
    return _ELEMENT.pack(ELEMENTS, element.time + _ZERO, element.source, element.partition, element.offset)


def time_of(key: bytes) -> int:
    """The time in the key of elements or a timer."""
    found: int = _TIME.unpack_from(key)[1]
    return found - _ZERO


def timer_key(time: int, key: bytes) -> bytes:
    """The key of the store's entry that says: at this time a timer of `key` may be due."""
    return _TIME.pack(TIMERS, time + _ZERO) + key


def timer_of(key: bytes) -> bytes:
    """The key whose timers an entry of the index is about."""
    return key[_TIME.size :]


def kept_key(key: bytes) -> bytes:
    """The key of the store's entry that has what is kept of `key`."""
    return _KEPT + key
