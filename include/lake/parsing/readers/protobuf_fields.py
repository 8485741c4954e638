"""Values of Protobuf messages by field names, guided by a descriptor set, without generated classes.

Only what is on the wire is walked over; nothing is decoded that is not wanted. As the format asks, the last of
several values of a field counts, and several parts of one message are one. An event time that is absent is missing,
never 1970; other absent fields of proto3 without presence have their type's zero.

Not read by google.protobuf's dynamic messages, although they take 1.1 µs for a record that takes 6.1 µs here: they
refuse a record for a text that is no UTF-8 in a field that nobody wants, and read a wanted field of another wire type
as absent, so that records of another schema would be filed under a zero.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

from include.lake.parsing.fields import Instant, ReadFields, WantedValue, invalid, shown
from include.lake.parsing.readers.descriptor_set import DescriptorSet, FieldType, MessageType
from include.lake.parsing.readers.thrift_compact import varint

__all__ = ["ProtobufFraming", "protobuf_reader"]

ProtobufFraming = Literal["none", "confluent"]
"""none: the message alone; confluent: 0x00, schema id in 4 bytes, the message's index in its file."""

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
# Types on the wire. Groups, which nobody makes any more, are passed over; numbers come unsigned.
_VARINT, _FIXED64, _SIZED, _GROUP_TYPE, _END, _FIXED32 = range(6)
_MOST_DEPTH: Final = 64


def _signed(bits: int) -> Callable[[int], int]:
    # 32-bit numbers are cut to their low bits, as every reader does.
    mask, top = (1 << bits) - 1, 1 << (bits - 1)
    return lambda raw: ((raw & mask) ^ top) - top


def _zigzag(bits: int) -> Callable[[int], int]:
    mask = (1 << bits) - 1
    return lambda raw: ((raw & mask) >> 1) ^ -(raw & 1)


# By `FieldDescriptorProto.Type`: wire type, what makes a value of its raw number or bytes, zero.
_KINDS: Final[dict[int, tuple[int, Callable[[Any], Any], Any]]] = {
    1: (_FIXED64, lambda raw: struct.unpack("<d", raw.to_bytes(8, "little"))[0], 0.0),
    2: (_FIXED32, lambda raw: struct.unpack("<f", raw.to_bytes(4, "little"))[0], 0.0),
    3: (_VARINT, _signed(64), 0),
    4: (_VARINT, int, 0),
    5: (_VARINT, _signed(32), 0),
    6: (_FIXED64, int, 0),
    7: (_FIXED32, int, 0),
    8: (_VARINT, bool, False),
    9: (_SIZED, bytes.decode, ""),
    12: (_SIZED, bytes, b""),
    13: (_VARINT, lambda raw: raw & 0xFFFFFFFF, 0),
    15: (_FIXED32, _signed(32), 0),
    16: (_FIXED64, _signed(64), 0),
    17: (_VARINT, _zigzag(32), 0),
    18: (_VARINT, _zigzag(64), 0),
}

# Of a message, by field number: (wire type, conversion, places) or (_MESSAGE, plan below, ()).
_Plan = dict[int, tuple[int, Any, list[int]]]


def protobuf_reader(
    wanted: Sequence[WantedValue], types: DescriptorSet, message: str, framing: ProtobufFraming
) -> ReadFields:
    """Reads values, enums by name, `google.protobuf.Timestamp` as `Instant`. `ValueError` for paths that are none."""
    root = _message(types, message)
    tree: _Plan = {}
    defaults: list[Any] = []
    parents: list[list[int]] = []
    for index, want in enumerate(wanted):
        default, parent = _add(types, root, want, index, tree)
        defaults.append(default)
        parents.append(parent)
    # Zero of a field stands only where its message is: which ones were met is noted by their first field numbers.
    zeros = [(index, zero, tuple(parents[index])) for index, zero in enumerate(defaults) if zero is not None]
    framed, count = framing == "confluent", len(wanted)

    def read(data: bytes) -> Sequence[Any]:
        values: list[Any] = [None] * count
        met: set[tuple[int, ...]] = {()}
        try:
            start = _unframe(data, root) if framed else 0
            _walk(data, start, len(data), tree, values, met, ())
        except IndexError:
            raise invalid("the Protobuf message is cut short", "Protobuf", size=len(data), head=data) from None
        except (ValueError, struct.error) as error:
            raise invalid("the message is no Protobuf of its type", f"Protobuf: {error}", head=data) from None
        for index, zero, parent in zeros:
            if values[index] is None and parent in met:
                values[index] = zero
        return values

    return read


def _message(types: DescriptorSet, name: str) -> MessageType:
    if name not in types.messages:
        raise ValueError(f"no message {name} in the descriptor set; there are {', '.join(sorted(types.messages))}")
    return types.messages[name]


def _add(types: DescriptorSet, root: MessageType, want: WantedValue, place: int, tree: _Plan) -> tuple[Any, list[int]]:
    """Put a wanted path into the plan; its zero (None without one) and the numbers of the messages around it."""
    message, numbers, level = root, list[int](), tree
    for depth, step in enumerate(want.path):
        field = message.fields.get(str(step))
        if field is None:
            raise ValueError(f"{message.name} has no field {step}; it has {', '.join(message.fields)}")
        if field.repeated or field.kind == _GROUP:
            raise ValueError(f"{shown(want.path)} leads through {step}, which is repeated or a group")
        last = depth == len(want.path) - 1
        if field.kind != _MESSAGE:
            if not last:
                raise ValueError(f"{shown(want.path)} goes on after {step}, which is no message")
            if want.instant:
                raise ValueError(f"{shown(want.path)} is no {_TIMESTAMP}: declare its unit")
            kind, convert, zero = _kind(types, field)
            _leaf(level, field.number, kind, convert, place)
            return (zero if field.implicit and not want.time else None), numbers
        if last:
            if field.type_name != _TIMESTAMP:
                raise ValueError(f"{shown(want.path)} is the message {field.type_name}: name a field of it")
            if want.time and not want.instant:
                raise ValueError(f"{shown(want.path)} says its unit itself: declare unit: instant")
            _leaf(level, field.number, _SIZED, _instant, place)
            return None, numbers
        below: _Plan = {}
        found = level.setdefault(field.number, (_MESSAGE, below, []))
        if found[0] != _MESSAGE:
            raise ValueError(f"{shown(want.path)} goes on where another path ends")
        level, message = found[1], _message(types, field.type_name)
        numbers.append(field.number)
    raise ValueError("an empty path")


def _leaf(level: _Plan, number: int, kind: int, convert: Any, place: int) -> None:
    found = level.setdefault(number, (kind, convert, []))
    if found[0] == _MESSAGE:
        raise ValueError("a path ends where another goes on")
    found[2].append(place)


def _kind(types: DescriptorSet, field: FieldType) -> tuple[int, Callable[[Any], Any], Any]:
    if field.kind != _ENUM:
        return _KINDS[field.kind]
    names, signed = types.enums.get(field.type_name, {}), _signed(32)
    return _VARINT, lambda raw: names.get(signed(raw), signed(raw)), names.get(0, 0)


def _walk(
    data: bytes, at: int, end: int, tree: _Plan, values: list[Any], met: set[tuple[int, ...]], here: tuple[int, ...]
) -> None:
    while at < end:
        # Tags of fields below 16 take one byte.
        tag = data[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        start = at
        if kind == _SIZED and number:
            size, start = varint(data, at)
            at = start + size
        else:
            at = _skip(data, at, number, kind)
        if at > end:
            raise IndexError
        wanted = tree.get(number)
        if wanted is None:
            continue
        expected, convert, places = wanted
        if kind != (_SIZED if expected == _MESSAGE else expected):
            raise ValueError(f"field {number} has wire type {kind}, not that of its type")
        if expected == _MESSAGE:
            inside = (*here, number)
            met.add(inside)
            _walk(data, start, at, convert, values, met, inside)
            continue
        if kind == _SIZED:
            # Parts of one message are put together.
            body = data[start:at]
            value = convert(body) if convert is not _instant else _instant(body, values[places[0]])
        else:
            value = convert(varint(data, start)[0] if kind == _VARINT else int.from_bytes(data[start:at], "little"))
        for place in places:
            values[place] = value


def _instant(body: bytes, before: Instant | None) -> Instant:
    parts = dict(_fields_of(body))
    known = divmod(before.ns if before else 0, 1_000_000_000)
    seconds, nanos = parts.get(1, known[0]), parts.get(2, known[1])
    if isinstance(seconds, bytes) or isinstance(nanos, bytes) or nanos > 999_999_999:
        raise ValueError("no google.protobuf.Timestamp")
    return Instant(_signed(64)(seconds) * 1_000_000_000 + nanos)


def _unframe(data: bytes, root: MessageType) -> int:
    """Where the message begins; it must be the one at the declared message's index."""
    if data[0] != 0:
        raise ValueError("no Confluent framing in front of it")
    count, begin = varint(data, 5)
    # One index of 0 is written as a count of 0.
    index: list[int] = [] if count else [0]
    for _ in range(count >> 1):
        raw, begin = varint(data, begin)
        index.append(raw >> 1)
    if tuple(index) != root.index:
        raise ValueError(f"it is the message at {index} of its file, {root.name} stands at {list(root.index)}")
    return begin


def _fields_of(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field number and value of each field in turn, groups left out; `ValueError` or `IndexError` for a bad message."""
    offset, size = 0, len(data)
    while offset < size:
        tag, offset = varint(data, offset)
        number, kind = tag >> 3, tag & 7
        start = offset
        offset = _skip(data, offset, number, kind)
        if offset > size:
            raise ValueError("the message is cut short")
        if kind == _VARINT:
            yield number, varint(data, start)[0]
        elif kind == _SIZED:
            length, start = varint(data, start)
            yield number, data[start : start + length]
        elif kind != _GROUP_TYPE:
            yield number, int.from_bytes(data[start:offset], "little")


def _skip(data: bytes, at: int, number: int, kind: int, depth: int = 0) -> int:
    """Where the value at `at` of the field `number` ends; beyond the data when it is cut short."""
    if not 0 < number < 1 << 29:
        raise ValueError(f"no field number {number}")
    if kind == _VARINT:
        return varint(data, at)[1]
    if kind == _SIZED:
        size, at = varint(data, at)
        return at + size
    if kind == _FIXED64:
        return at + 8
    if kind == _FIXED32:
        return at + 4
    if kind != _GROUP_TYPE or depth > _MOST_DEPTH:
        raise ValueError(f"wire type {kind} of field {number} at byte {at}")
    while True:
        tag, at = varint(data, at)
        if tag & 7 == _END:
            if tag >> 3 != number:
                raise ValueError(f"group {number} ends as {tag >> 3}")
            return at
        at = _skip(data, at, tag >> 3, tag & 7, depth + 1)
