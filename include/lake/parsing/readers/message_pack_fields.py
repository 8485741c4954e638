"""Values of MessagePack messages by names: only what is wanted is made an object.

Names are keys of maps (text or raw bytes), numbers are integer keys of maps or indexes of arrays. The whole message
is walked, to its last byte; of a key that stands twice the last one counts. What is not wanted may be anything that
has MessagePack's form, nested up to 1,024 deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgpack

from include.lake.parsing.fields import Instant, ReadFields, WantedValue, invalid, plan

__all__ = ["message_pack_reader"]

_MAPS: Final = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})
_ARRAYS: Final = frozenset({*range(0x90, 0xA0), 0xDC, 0xDD})
_RAW: Final = frozenset({0xC4, 0xC5, 0xC6})
_TEXTS: Final = frozenset({*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB})
_INTEGERS: Final = frozenset({*range(0x80), *range(0xCC, 0xD4), *range(0xE0, 0x100)})
# First bytes of keys that a step of a path may mean.
_KEYS: Final = _RAW | _TEXTS | _INTEGERS
# Bytes that an unpacker takes for itself; with a longer message it grows, and is not kept.
_BUFFER: Final = 65_536


def message_pack_reader(wanted: Sequence[WantedValue]) -> ReadFields:
    """Reads values as Python's own; the timestamp extension as `Instant`, other wanted containers are refused."""
    tree = _raw(plan(wanted))
    count = len(wanted)
    # To make one takes as long as to read a small message. A thread takes one for as long as it reads.
    idle: list[msgpack.Unpacker] = []

    def read(data: bytes) -> Sequence[Any]:
        values: list[Any] = [None] * count
        try:
            unpacker = idle.pop()
        except IndexError:
            unpacker = _unpacker()
        begin = unpacker.tell()
        unpacker.feed(data)
        try:
            _into(data, begin, unpacker, tree, values)
        except (IndexError, msgpack.OutOfData):
            raise invalid("the MessagePack message is cut short", "MessagePack", size=len(data), head=data) from None
        except ValueError as error:
            reason = error if str(error) else "a byte C1, which no value begins with, or too deep a nesting"
            raise invalid("the message is no MessagePack", f"MessagePack: {reason}", head=data) from None
        if unpacker.tell() - begin != len(data):
            what = "the MessagePack message goes on after its end"
            raise invalid(what, "MessagePack", size=len(data), head=data)
        if len(data) <= _BUFFER:
            idle.append(unpacker)
        return values

    return read


def _unpacker() -> msgpack.Unpacker:
    # Texts stay bytes until they are wanted, as others need not be UTF-8.
    return msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0, read_size=_BUFFER)


def _raw(tree: dict[str | int, Any]) -> dict[Any, Any]:
    """The tree with names as bytes: keys are compared without decoding them."""
    return {
        step.encode() if isinstance(step, str) else step: _raw(below) if isinstance(below, dict) else below
        for step, below in tree.items()
    }


def _into(data: bytes, begin: int, unpacker: msgpack.Unpacker, tree: dict[Any, Any], values: list[Any]) -> None:
    """Walk over the next value, filling in the wanted ones below it. The data begin at `begin` of what was fed."""
    tell, unpack, skip = unpacker.tell, unpacker.unpack, unpacker.skip
    kind = data[tell() - begin]
    keyed = kind in _MAPS
    if not keyed and kind not in _ARRAYS:
        skip()
        return
    for index in range(unpacker.read_map_header() if keyed else unpacker.read_array_header()):
        if not keyed:
            below = tree.get(index)
        elif data[tell() - begin] in _KEYS:
            below = tree.get(unpack())
        else:
            skip()
            below = None
        if below is None:
            skip()
        elif type(below) is dict:
            _into(data, begin, unpacker, below, values)
        else:
            value = _value(data[tell() - begin], unpacker)
            for place in below:
                values[place] = value


def _value(kind: int, unpacker: msgpack.Unpacker) -> Any:
    """The next value, which begins with the byte `kind`."""
    if kind in _MAPS or kind in _ARRAYS:
        raise ValueError("a wanted value is a container")
    value = unpacker.unpack()
    if kind in _TEXTS:
        return value.decode()
    if type(value) is msgpack.Timestamp:
        return Instant(value.to_unix_nano())
    if type(value) is msgpack.ExtType:
        raise ValueError("a wanted value is an unknown extension")
    return value
