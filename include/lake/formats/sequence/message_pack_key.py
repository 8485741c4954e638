"""Keys as MessagePack maps, as Secor writes them: {1: offset, 3: timestamp in ms, 2: key}, in this order.

https://github.com/msgpack/msgpack/blob/master/spec.md. Written is the smallest form of a number, and bytes as bin. 3
is left out unless asked for and where a record has none, 2 where the key is null or empty: the layout does not tell
these apart. No other entry may be added, as Secor's reader does not pass over what it does not know; ours does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct, error
from typing import Any, Final

from include.lake.formats.sequence.key_layout import NullValue, null_value_refusal, plain_values
from include.lake.formats.sequence.sequence_header import BYTES_WRITABLE
from include.lake.message import Message

__all__ = ["MessagePackKey", "packed_bytes", "packed_int", "packed_text", "unpacked_map"]

_SMALL: Final = [bytes((n,)) for n in range(0x80)]
_LENGTH: Final = Struct(">I")
_U8, _U16, _U32, _U64 = Struct(">BB"), Struct(">BH"), Struct(">BI"), Struct(">BQ")
_I8, _I16, _I32, _I64 = Struct(">Bb"), Struct(">Bh"), Struct(">Bi"), Struct(">Bq")
_DEEPEST: Final = 16
# First byte → the number behind it, and the bytes of both.
_NUMBERS: Final[Mapping[int, tuple[Callable[[bytes, int], tuple[Any, ...]], int]]] = {
    0xCC: (Struct(">B").unpack_from, 2),
    0xCD: (Struct(">H").unpack_from, 3),
    0xCE: (Struct(">I").unpack_from, 5),
    0xCF: (Struct(">Q").unpack_from, 9),
    0xD0: (Struct(">b").unpack_from, 2),
    0xD1: (Struct(">h").unpack_from, 3),
    0xD2: (Struct(">i").unpack_from, 5),
    0xD3: (Struct(">q").unpack_from, 9),
    0xCA: (Struct(">f").unpack_from, 5),
    0xCB: (Struct(">d").unpack_from, 9),
}
_WIDTHS: Final = {0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
_EXTENSIONS: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16, 0xC7: -1, 0xC8: -2, 0xC9: -4}
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}


def packed_int(n: int) -> bytes:
    """A number in its smallest form; `n` fits 64 bits."""
    if n >= 0:
        if n < 0x80:
            return _SMALL[n]
        if n < 0x100:
            return _U8.pack(0xCC, n)
        if n < 0x10000:
            return _U16.pack(0xCD, n)
        return _U32.pack(0xCE, n) if n < 0x100000000 else _U64.pack(0xCF, n)
    if n >= -0x20:
        return bytes((n & 0xFF,))
    if n >= -0x80:
        return _I8.pack(0xD0, n)
    if n >= -0x8000:
        return _I16.pack(0xD1, n)
    return _I32.pack(0xD2, n) if n >= -0x80000000 else _I64.pack(0xD3, n)


def packed_bytes(data: bytes) -> bytes:
    """Bytes as bin."""
    size = len(data)
    if size < 0x100:
        return _U8.pack(0xC4, size) + data
    return (_U16.pack(0xC5, size) if size < 0x10000 else _U32.pack(0xC6, size)) + data


def packed_text(data: bytes) -> bytes:
    """UTF-8 as str."""
    size = len(data)
    if size < 0x20:
        return bytes((0xA0 | size,)) + data
    if size < 0x100:
        return _U8.pack(0xD9, size) + data
    return (_U16.pack(0xDA, size) if size < 0x10000 else _U32.pack(0xDB, size)) + data


def unpacked_map(data: bytes) -> dict[Any, Any]:
    """The one map that `data` is; texts come as their UTF-8, extensions as their bytes; `ValueError` if it is none."""
    try:
        found, end = _value(data, 0, 0)
    except (IndexError, error) as reason:
        raise ValueError("its key ends inside a MessagePack value") from reason
    if not isinstance(found, dict) or end != len(data):
        raise ValueError("its key is not one MessagePack map")
    return found


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    first = data[at]
    if first < 0x80:
        return first, at + 1
    known = _NUMBERS.get(first)
    if known:
        number, size = known
        return number(data, at + 1)[0], at + size
    if first == 0xC4:
        at += 2
        end = at + data[at - 1]
        if end > len(data):
            raise IndexError
        return data[at:end], end
    if first >= 0xE0:
        return first - 0x100, at + 1
    if first in _CONSTANTS:
        return _CONSTANTS[first], at + 1
    if first in _EXTENSIONS:
        size = _EXTENSIONS[first]
        at += 1
        if size < 0:
            size, at = int.from_bytes(_taken(data, at, -size), "big"), at - size
        # Its type stands in front of its bytes.
        return _taken(data, at + 1, size), at + 1 + size
    if first in _WIDTHS:
        width = _WIDTHS[first]
        size = int.from_bytes(_taken(data, at + 1, width), "big")
        at += 1 + width
    else:
        size = first & (0x1F if 0xA0 <= first < 0xC0 else 0x0F)
        at += 1
    if 0xA0 <= first < 0xC0 or first in (0xC5, 0xC6, 0xD9, 0xDA, 0xDB):
        return _taken(data, at, size), at + size
    if first == 0xC1 or depth == _DEEPEST:
        raise ValueError("its key holds what MessagePack has not, or too deep a nesting")
    return _collection(data, at, size, depth + 1, is_map=first < 0x90 or first > 0xDD)


def _collection(data: bytes, at: int, size: int, depth: int, *, is_map: bool) -> tuple[Any, int]:
    if size > len(data):
        raise ValueError("its key ends inside a MessagePack value")
    found: list[Any] = []
    for _ in range(size + size if is_map else size):
        each, at = _value(data, at, depth)
        found.append(each)
    if not is_map:
        return found, at
    try:
        entries = dict(zip(found[::2], found[1::2], strict=True))
    except TypeError:
        raise ValueError("its key names an entry by what is no name") from None
    if len(entries) < size:
        raise ValueError("its key names an entry twice")
    return entries, at


def _taken(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("its key ends inside a MessagePack value")
    return data[at : at + size]


@dataclass(frozen=True, slots=True)
class MessagePackKey:
    """BytesWritable(map), BytesWritable(value). Headers and the timestamp's type are not kept, empty keys are null."""

    timestamp: bool = False
    null_value: NullValue = "refuse"

    @property
    def key_class(self) -> str:
        """BytesWritable."""
        return BYTES_WRITABLE

    @property
    def metadata(self) -> Mapping[str, str]:
        """None."""
        return {}

    def refuses(self, message: Message) -> str:
        """A null value, unless it is stored as empty."""
        return null_value_refusal(message, self.null_value)

    def keys(self, messages: Sequence[Message]) -> list[bytes]:
        """The maps, each behind its length."""
        found: list[bytes] = []
        add, length, integer = found.append, _LENGTH.pack, packed_int
        for offset, key, _, _, timestamp_ms, _ in messages:
            if self.timestamp and timestamp_ms != -1:
                packed = (b"\x83\x01" if key else b"\x82\x01") + integer(offset) + b"\x03" + integer(timestamp_ms)
            else:
                packed = (b"\x82\x01" if key else b"\x81\x01") + integer(offset)
            if key:
                packed += b"\x02" + packed_bytes(key)
            add(length(len(packed)) + packed)
        return found

    def values(self, messages: Sequence[Message]) -> list[bytes]:
        """The values."""
        return plain_values(messages, self.null_value)

    def message(self, key: int | bytes, value: bytes) -> Message:
        """Offset, key, value and timestamp, whose type is not known."""
        if type(key) is not bytes:
            raise ValueError("its key is no MessagePack map")
        entries = unpacked_map(key)
        offset, timestamp_ms, name = entries.get(1), entries.get(3, -1), entries.get(2)
        if type(offset) is not int or offset < 0 or type(timestamp_ms) is not int:
            raise ValueError("its key names no offset, or a timestamp that is no number")
        if name is not None and type(name) is not bytes:
            raise ValueError("the record's key is not bytes")
        return Message(offset, name, value, (), timestamp_ms)
