"""Protobuf's descriptor sets (`protoc --include_imports -o`), as far as finding values by field names needs them.

They are messages themselves, and are read by the same walk over the wire format as the records. Field numbers:
`descriptor.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from include.lake.parsing.readers.wire import fields_of

__all__ = ["DescriptorSet", "FieldType", "MessageType"]

_IMPLICIT: Final = "proto3"


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field. `kind` is `FieldDescriptorProto.Type`; `implicit`: absent on the wire means its type's zero."""

    name: str
    number: int
    kind: int
    repeated: bool
    type_name: str
    implicit: bool


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message's fields by name. `index`: where it stands in its file, as Confluent's framing tells it."""

    name: str
    fields: dict[str, FieldType]
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescriptorSet:
    """Message types and enums (number → name) by full name, without a dot in front."""

    messages: dict[str, MessageType] = field(default_factory=dict)
    enums: dict[str, dict[int, str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: bytes) -> DescriptorSet:
        """Reads a serialised `FileDescriptorSet`; `ValueError` for bytes that are none."""
        found = cls()
        try:
            for number, value in fields_of(data):
                if number == 1:
                    found._file(_body(value))
        except (IndexError, TypeError, AttributeError, UnicodeDecodeError) as error:
            raise ValueError(f"no descriptor set: {error!r}") from None
        if not found.messages:
            raise ValueError("no descriptor set: it has no message")
        return found

    def _file(self, data: bytes) -> None:
        parts = list(fields_of(data))
        package = _text(parts, 2)
        syntax = _text(parts, 12) or "proto2"
        if syntax not in ("proto2", _IMPLICIT):
            raise ValueError(f"a descriptor set of syntax {syntax}; there are proto2 and proto3")
        self._enums(parts, 5, package)
        for index, value in enumerate(_all(parts, 4)):
            self._message(value, package, (index,), syntax == _IMPLICIT)

    def _message(self, data: bytes, scope: str, index: tuple[int, ...], implicit: bool) -> None:
        parts = list(fields_of(data))
        name = ".".join(filter(None, (scope, _text(parts, 1))))
        members = [_field(value, implicit) for value in _all(parts, 2)]
        self.messages[name] = MessageType(name, {member.name: member for member in members}, index)
        self._enums(parts, 4, name)
        for inner, value in enumerate(_all(parts, 3)):
            self._message(value, name, (*index, inner), implicit)

    def _enums(self, parts: list[tuple[int, Any]], number: int, scope: str) -> None:
        for value in _all(parts, number):
            enum = list(fields_of(value))
            names: dict[int, str] = {}
            for each in _all(enum, 2):
                entry = list(fields_of(each))
                # Of aliases the first is the name.
                names.setdefault(_signed(_number(entry, 2)), _text(entry, 1))
            self.enums[".".join(filter(None, (scope, _text(enum, 1))))] = names


def _field(data: bytes, implicit: bool) -> FieldType:
    parts = list(fields_of(data))
    kind = _number(parts, 5)
    # In proto3, members of a oneof (`optional` makes one) and messages can be absent.
    absent = any(number == 9 for number, _ in parts) or kind in (10, 11)
    return FieldType(
        name=_text(parts, 1),
        number=_number(parts, 3),
        kind=kind,
        repeated=_number(parts, 4) == 3,
        type_name=_text(parts, 6).lstrip("."),
        implicit=implicit and not absent,
    )


def _body(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError("a number where a message is")
    return value


def _all(parts: list[tuple[int, Any]], number: int) -> Iterator[bytes]:
    return (_body(value) for found, value in parts if found == number)


def _text(parts: list[tuple[int, Any]], number: int) -> str:
    return next((value.decode() for found, value in parts if found == number), "")


def _number(parts: list[tuple[int, Any]], number: int) -> int:
    return next((value for found, value in parts if found == number), 0)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
