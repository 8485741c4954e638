"""Protobuf's descriptor sets (`protoc --include_imports -o`), as far as finding values by field names needs them.

They are taken as messages of `descriptor.proto`, not into a pool, which asks for every import and for editions' rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.protobuf import descriptor_pb2

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
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.message import DecodeError

        try:
            files = FileDescriptorSet.FromString(data).file
        except DecodeError as error:
            raise ValueError(f"no descriptor set: {error}") from None
        descriptors = cls()
        for file in files:
            syntax = file.syntax or "proto2"
            if syntax not in ("proto2", _IMPLICIT):
                raise ValueError(f"a descriptor set of syntax {syntax}; there are proto2 and proto3")
            descriptors._enums(file.enum_type, file.package)
            for index, message in enumerate(file.message_type):
                descriptors._message(message, file.package, (index,), syntax == _IMPLICIT)
        if not descriptors.messages:
            raise ValueError("no descriptor set: it has no message")
        return descriptors

    def _message(
        self, message: descriptor_pb2.DescriptorProto, scope: str, index: tuple[int, ...], implicit: bool
    ) -> None:
        name = _within(scope, message.name)
        members = {each.name: _field(each, implicit) for each in message.field}
        self.messages[name] = MessageType(name, members, index)
        self._enums(message.enum_type, name)
        for inner, each in enumerate(message.nested_type):
            self._message(each, name, (*index, inner), implicit)

    def _enums(self, enums: Iterable[descriptor_pb2.EnumDescriptorProto], scope: str) -> None:
        for enum in enums:
            # Of aliases the first is the name.
            names = {each.number: each.name for each in reversed(enum.value)}
            self.enums[_within(scope, enum.name)] = names


def _within(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _field(field: descriptor_pb2.FieldDescriptorProto, implicit: bool) -> FieldType:
    if not field.HasField("type"):
        # By default it would be a double.
        raise ValueError(f"field {field.name} of a descriptor set has no type")
    # In proto3, members of a oneof (`optional` makes one) and messages can be absent.
    absent = field.HasField("oneof_index") or field.type in (field.TYPE_GROUP, field.TYPE_MESSAGE)
    return FieldType(
        name=field.name,
        number=field.number,
        kind=field.type,
        repeated=field.label == field.LABEL_REPEATED,
        type_name=field.type_name.lstrip("."),
        implicit=implicit and not absent,
    )
