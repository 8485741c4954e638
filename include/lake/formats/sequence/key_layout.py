"""Definitions of key layouts of SequenceFiles: a layout turns messages into keys and values, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from struct import Struct
from typing import Final, Literal, Protocol

from include.lake.formats.sequence.sequence_header import LONG_WRITABLE
from include.lake.message import Message

__all__ = ["KeyLayout", "NullValue", "OffsetKey", "null_value_refusal", "plain_values"]

NullValue = Literal["refuse", "empty"]
"""What becomes of a null value where the layout has no place for one: set aside, or stored like an empty value."""

_LONG: Final = Struct(">q")
_VALUE: Final = attrgetter("value")


class KeyLayout(Protocol):
    """Stateless. Batches, as a call per record is what a writer cannot afford."""

    @property
    def key_class(self) -> str:
        """Hadoop's class of the keys; that of the values is BytesWritable."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """The entries of the layout in the file's header."""

    def refuses(self, message: Message) -> str:
        """Why it has no place for this message, "" when it has."""

    def keys(self, messages: Sequence[Message]) -> list[bytes]:
        """For each message its key as Hadoop serialises it."""

    def values(self, messages: Sequence[Message]) -> list[bytes]:
        """For each message the content of its value."""

    def message(self, key: int | bytes, value: bytes) -> Message:
        """A message from the contents of key and value; `ValueError` with the reason for what is none."""


def plain_values(messages: Sequence[Message], null_value: NullValue) -> list[bytes]:
    """The values of messages in a layout that has no place for null; none is null where those are refused."""
    if null_value == "empty":
        return [each.value or b"" for each in messages]
    return list(map(_VALUE, messages))


def null_value_refusal(message: Message, null_value: NullValue) -> str:
    """Why a layout without a place for null does not take this message, "" when it does."""
    if message.value is None and null_value == "refuse":
        return "it has no value, and this layout cannot tell null from empty"
    return ""


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """The legacy layout: LongWritable(offset), BytesWritable(value). Key, headers and timestamp are not kept."""

    null_value: NullValue = "refuse"

    @property
    def key_class(self) -> str:
        """LongWritable."""
        return LONG_WRITABLE

    @property
    def metadata(self) -> Mapping[str, str]:
        """None."""
        return {}

    def refuses(self, message: Message) -> str:
        """A null value, unless it is stored as empty."""
        return null_value_refusal(message, self.null_value)

    def keys(self, messages: Sequence[Message]) -> list[bytes]:
        """Eight bytes each."""
        pack = _LONG.pack
        return [pack(each.offset) for each in messages]

    def values(self, messages: Sequence[Message]) -> list[bytes]:
        """The values."""
        return plain_values(messages, self.null_value)

    def message(self, key: int | bytes, value: bytes) -> Message:
        """Offset and value."""
        if type(key) is not int:
            raise ValueError("its key is no number")
        if key < 0:
            raise ValueError("its key is no offset")
        return Message(key, None, value)
