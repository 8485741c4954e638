"""The verbatim profile of a SequenceFile: all of a message survives.

Its header says `profile=verbatim-1`. Keys are MessagePack maps of six entries in this order:
{1: offset, 3: timestamp in ms, 2: key or nil, 4: [[name, bytes or nil]…], 5: timestamp type, 6: flags}; flags are 1 for
a null value and 2 for a key that is there. The order and repeats of headers are kept, and null is not empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from include.lake.formats.sequence.message_pack_key import packed, unpacked_map
from include.lake.formats.sequence.sequence_header import BYTES_WRITABLE
from include.lake.message import Message, TimestampType

__all__ = ["PROFILE", "VerbatimKey"]

PROFILE: Final = {"profile": "verbatim-1"}

_LENGTH: Final = Struct(">I")
_KINDS: Final[tuple[TimestampType, ...]] = (0, 1, 2)
_NULL_VALUE: Final = 1
_KEY_THERE: Final = 2
_TAILS: Final = [[bytes((5, kind, 6, flags)) for flags in range(4)] for kind in range(3)]
_ENDS: Final = [[b"\x04\x90" + tail for tail in tails] for tails in _TAILS]
_SHORTEST: Final = 25
# What a key begins with, by the first byte of its offset; a timestamp takes eight bytes since 1970-02-20.
_HEADS: Final = {0xCE: Struct(">HBIHQBB"), 0xCF: Struct(">HBQHQBB")}
_USUAL_TAILS: Final = {_ENDS[kind][flags]: (kind, flags) for kind in _KINDS for flags in range(4)}
# How most keys begin, with their length in front: offsets from, to, the first byte of one, all up to the record's key
# or, as the last one has it, up to that key's bytes.
_STARTS: Final = (
    (0x10000, 0xFFFFFFFF, 0xCE, Struct(">IHBIHQH"), Struct(">IHBIHQHB")),
    (0x100000000, 0xFFFFFFFFFFFFFFFF, 0xCF, Struct(">IHBQHQH"), Struct(">IHBQHQHB")),
)
_LEAST_LONG: Final = 0x100000000
_NAMES: Final = {1, 2, 3, 4, 5, 6}

_Headers = tuple[tuple[str, bytes | None], ...]


def _whole(message: Message) -> bytes:
    """The map of any message, behind its length."""
    offset, key, value, headers, timestamp_ms, kind = message
    flags = (value is None) + (0 if key is None else _KEY_THERE)
    data = packed({1: offset, 3: timestamp_ms, 2: key, 4: headers, 5: kind, 6: flags})
    return _LENGTH.pack(len(data)) + data


def _headers(found: Any) -> _Headers:
    if type(found) is not list:
        raise ValueError("its headers are no list")
    for each in found:
        if type(each) is not list or len(each) != 2 or type(each[0]) is not bytes:
            raise ValueError("a header is no pair of name and value")
        if each[1] is not None and type(each[1]) is not bytes:
            raise ValueError("a header's value is not bytes")
    return tuple((name.decode("utf-8", "surrogateescape"), value) for name, value in found)


def _entries(key: bytes) -> tuple[int, int, bytes | None, TimestampType, int, _Headers]:
    entries = unpacked_map(key)
    if entries.keys() != _NAMES:
        raise ValueError("its key has not just the entries of the verbatim profile")
    offset, timestamp_ms, name, headers, kind, flags = (entries[entry] for entry in (1, 3, 2, 4, 5, 6))
    if type(offset) is not int or offset < 0:
        raise ValueError("its offset is none")
    if type(timestamp_ms) is not int or type(kind) is not int or kind not in _KINDS:
        raise ValueError("its timestamp or type of timestamp is none")
    if type(flags) is not int or flags not in range(4):
        raise ValueError("it has flags that are not known")
    if name is not None and type(name) is not bytes:
        raise ValueError("the record's key is not bytes")
    return offset, timestamp_ms, name, _KINDS[kind], flags, _headers(headers)


def _usual(key: bytes) -> tuple[int, int, bytes | None, TimestampType, int] | None:
    """Offset, timestamp, key, its type and flags of a key as most are, several times as fast; None for all others."""
    if len(key) < _SHORTEST:
        return None
    head = _HEADS.get(key[2])
    if not head:
        return None
    start, _, offset, middle, timestamp_ms, last, kind = head.unpack_from(key)
    if start != 0x8601 or middle != 0x03CF or last != 0x02:
        return None
    index = head.size
    name = None
    if kind == 0xC4:
        end = index + 1 + key[index]
        name = key[index + 1 : end]
        index = end
    elif kind != 0xC0:
        return None
    tail = _USUAL_TAILS.get(key[index:])
    return None if tail is None else (offset, timestamp_ms, name, *tail)


@dataclass(frozen=True, slots=True)
class VerbatimKey:
    """BytesWritable(map of all but the value), BytesWritable(value); a null value is stored empty, with its flag."""

    @property
    def key_class(self) -> str:
        """BytesWritable."""
        return BYTES_WRITABLE

    @property
    def metadata(self) -> Mapping[str, str]:
        """The profile's name."""
        return PROFILE

    def refuses(self, message: Message) -> str:
        """Nothing."""
        return ""

    def keys(self, messages: Sequence[Message]) -> list[bytes]:
        """The maps, each behind its length."""
        if not messages:
            return []
        least, most, mark, null, named = _STARTS[messages[-1].offset >= _LEAST_LONG]
        begin_null, begin_named, ends = null.pack, named.pack, _ENDS
        # The length does not count itself.
        size_null, size_named = null.size - 4 + len(ends[0][0]), named.size - 4 + len(ends[0][0])
        keys: list[bytes] = []
        add = keys.append
        for message in messages:
            offset, key, value, headers, timestamp_ms, kind = message
            if headers or timestamp_ms < _LEAST_LONG or not least <= offset <= most:
                add(_whole(message))
            elif key is None:
                head = begin_null(size_null, 0x8601, mark, offset, 0x03CF, timestamp_ms, 0x02C0)
                add(head + ends[kind][value is None])
            elif (size := len(key)) < 0x100:
                head = begin_named(size_named + size, 0x8601, mark, offset, 0x03CF, timestamp_ms, 0x02C4, size)
                add(head + key + ends[kind][(value is None) + _KEY_THERE])
            else:
                add(_whole(message))
        return keys

    def values(self, messages: Sequence[Message]) -> list[bytes]:
        """The values, null as empty."""
        return [each.value or b"" for each in messages]

    def message(self, key: int | bytes, value: bytes) -> Message:
        """The message as it was."""
        if type(key) is not bytes:
            raise ValueError("its key is no MessagePack map")
        usual = _usual(key)
        if usual:
            offset, timestamp_ms, name, kind, flags = usual
            headers: _Headers = ()
        else:
            offset, timestamp_ms, name, kind, flags, headers = _entries(key)
        if (name is None) is bool(flags & _KEY_THERE):
            raise ValueError("its flags and its key do not agree")
        if flags & _NULL_VALUE and value:
            raise ValueError("its flags say that there is no value, and there is one")
        return Message(offset, name, None if flags & _NULL_VALUE else value, headers, timestamp_ms, kind)
