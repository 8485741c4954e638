"""Values of MessagePack messages, found by walking over the bytes: only what is wanted is made an object.

Names are keys of maps (text or raw bytes), numbers are integer keys of maps or indexes of arrays. The whole message
is walked, to its last byte; of a key that stands twice the last one counts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from include.lake.parsing.fields import Instant, Read, WantedValue, invalid, plan

__all__ = ["message_pack_reader"]

# By the first byte: what follows of a fixed size; how many bytes tell the size, and what comes on top of it.
_FIXED: Final = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8} | {
    0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17
}  # fmt: skip
_SIZED: Final = {
    0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1),
    0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0),
}  # fmt: skip
# Bytes that tell the count, and values for each of it.
_COUNTED: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
_NUMBERS: Final = {
    kind: struct.Struct(">" + letter) for kind, letter in zip(range(0xCA, 0xD4), "fdBHIQbhiq", strict=True)
}
_BINARY: Final = (0xC4, 0xC5, 0xC6)
_TIMESTAMP: Final = -1
# By the first byte, how long a value is that says so there already; 0 of others.
_WHOLE: Final = [
    1 if kind < 0x80 or kind >= 0xE0 else kind - 0x9F if 0xA0 <= kind < 0xC0 else _FIXED.get(kind, -1) + 1
    for kind in range(256)
]


def message_pack_reader(wanted: Sequence[WantedValue]) -> Read:
    """Reads values as Python's own; the timestamp extension as `Instant`, other wanted containers are refused."""
    tree = _raw(plan(wanted))
    count = len(wanted)

    def read(data: bytes) -> Sequence[Any]:
        values: list[Any] = [None] * count
        try:
            end = _into(data, 0, tree, values)
        except (IndexError, struct.error):
            end = len(data) + 1
        except ValueError as error:
            raise invalid("the message is no MessagePack", f"MessagePack: {error}", head=data) from None
        if end != len(data):
            what = "is cut short" if end > len(data) else "goes on after its end"
            raise invalid(f"the MessagePack message {what}", "MessagePack", size=len(data), head=data)
        return values

    return read


def _raw(tree: dict[str | int, Any]) -> dict[Any, Any]:
    """The tree with names as bytes: keys are compared without decoding them."""
    return {
        step.encode() if isinstance(step, str) else step: _raw(below) if isinstance(below, dict) else below
        for step, below in tree.items()
    }


def _into(data: bytes, at: int, tree: dict[Any, Any], values: list[Any]) -> int:
    """Walk over the value at `at`, filling in the wanted ones below it; where it ends."""
    kind = data[at]
    if kind in (0xDC, 0xDD, 0xDE, 0xDF):
        width, per = _COUNTED[kind]
        count = int.from_bytes(data[at + 1 : at + 1 + width], "big")
        at += 1 + width
    elif 0x80 <= kind < 0xA0:
        count, per = kind & 15, 2 if kind < 0x90 else 1
        at += 1
    else:
        return _skip(data, at, 1)
    for index in range(count):
        if per == 1:
            below = tree.get(index)
        else:
            kind = data[at]
            if 0xA0 <= kind < 0xC0:
                start, at = at + 1, at + kind - 0x9F
                below = tree.get(data[start:at])
            else:
                key, at = _key(data, at)
                below = tree.get(key)
        if below is None:
            whole = _WHOLE[data[at]]
            at = at + whole if whole else _skip(data, at, 1)
        elif type(below) is dict:
            at = _into(data, at, below, values)
        else:
            value, at = _value(data, at)
            for place in below:
                values[place] = value
    return at


def _key(data: bytes, at: int) -> tuple[Any, int]:
    """A key of another form than the short text that is usual."""
    kind = data[at]
    if kind < 0x80:
        return kind, at + 1
    if kind in _SIZED and _SIZED[kind][1] == 0:
        start = at + 1 + _SIZED[kind][0]
        end = start + int.from_bytes(data[at + 1 : start], "big")
        return data[start:end], end
    if kind >= 0xE0:
        return kind - 256, at + 1
    if 0xCC <= kind < 0xD4:
        return _NUMBERS[kind].unpack_from(data, at + 1)[0], at + 1 + _FIXED[kind]
    return None, _skip(data, at, 1)


def _value(data: bytes, at: int) -> tuple[Any, int]:
    kind = data[at]
    end = _skip(data, at, 1)
    if end > len(data):
        raise IndexError
    if kind in (0xC0, 0xC2, 0xC3):
        return (None, False, True)[max(0, kind - 0xC1)], end
    if kind in _NUMBERS:
        return _NUMBERS[kind].unpack_from(data, at + 1)[0], end
    if kind < 0x80 or kind >= 0xE0:
        return kind if kind < 0x80 else kind - 256, end
    if 0xA0 <= kind < 0xC0:
        return data[at + 1 : end].decode(), end
    if kind in (0xD6, 0xD7, 0xC7):
        # Type and data of an extension of 4, 8 or a told number of bytes.
        return _instant(data[at + 2 if kind == 0xC7 else at + 1 : end]), end
    if kind in _SIZED and _SIZED[kind][1] == 0:
        body = data[at + 1 + _SIZED[kind][0] : end]
        return body if kind in _BINARY else body.decode(), end
    raise ValueError("a wanted value is a container or an unknown extension")


def _instant(extension: bytes) -> Instant:
    body = extension[1:]
    if struct.unpack(">b", extension[:1])[0] != _TIMESTAMP or len(body) not in (4, 8, 12):
        raise ValueError("a wanted value is an unknown extension")
    if len(body) == 4:
        seconds, nanos = int.from_bytes(body, "big"), 0
    elif len(body) == 8:
        both = int.from_bytes(body, "big")
        seconds, nanos = both & ((1 << 34) - 1), both >> 34
    else:
        nanos, seconds = struct.unpack(">Iq", body)
    if nanos > 999_999_999:
        raise ValueError("a timestamp of more nanoseconds than a second has")
    return Instant(seconds * 1_000_000_000 + nanos)


def _skip(data: bytes, at: int, count: int) -> int:
    """Where the `count` values at `at` end; beyond the data when it ends before."""
    while count:
        count -= 1
        kind = data[at]
        whole = _WHOLE[kind]
        if whole:
            at += whole
        elif kind == 0xD9:
            at += 2 + data[at + 1]
        elif kind < 0x90:
            count += 2 * (kind & 15)
            at += 1
        elif kind < 0xA0:
            count += kind & 15
            at += 1
        elif kind in _SIZED:
            width, more = _SIZED[kind]
            at += 1 + width + more + int.from_bytes(data[at + 1 : at + 1 + width], "big")
        elif kind in _COUNTED:
            width, per = _COUNTED[kind]
            count += per * int.from_bytes(data[at + 1 : at + 1 + width], "big")
            at += 1 + width
        else:
            raise ValueError("a byte C1, which no value begins with")
    return at
