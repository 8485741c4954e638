"""Keys as MessagePack maps, as Secor writes them: {1: offset, 3: timestamp in ms, 2: key}, in this order.

3 is left out unless asked for and where a record has none, 2 where the key is null or empty: the layout does not tell
these apart. No other entry may be added, as Secor's reader does not pass over what it does not know; ours does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import msgpack

from include.lake.formats.sequence.key_layout import NullValue, null_value_refusal, plain_values
from include.lake.formats.sequence.sequence_header import BYTES_WRITABLE
from include.lake.message import Message

__all__ = ["MessagePackKey", "packed", "unpacked_map"]

_LENGTH: Final = Struct(">I")

# Any bytes are one text this way, and that text those bytes.
packed: Final[Callable[[Any], bytes]] = msgpack.Packer(unicode_errors="surrogateescape").pack
"""A value in its smallest form, bytes as bin."""


def unpacked_map(data: bytes) -> dict[Any, Any]:
    """The one map that `data` is; texts come as their UTF-8, extensions as bytes, -1 as time; else `ValueError`."""
    try:
        unpacked = msgpack.unpackb(
            data, raw=True, strict_map_key=False, object_pairs_hook=_entries, ext_hook=lambda _code, body: body
        )
    except (TypeError, ValueError) as reason:
        raise ValueError(f"its key is not one MessagePack map: {str(reason) or 'a byte C1, or too deep'}") from reason
    if type(unpacked) is not dict:
        raise ValueError("its key is not one MessagePack map")
    return unpacked


def _entries(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("it names an entry twice")
    return entries


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
        keys: list[bytes] = []
        add, length, pack = keys.append, _LENGTH.pack, packed
        for offset, key, _, _, timestamp_ms, _ in messages:
            entries: dict[int, int | bytes] = {1: offset}
            if self.timestamp and timestamp_ms != -1:
                entries[3] = timestamp_ms
            if key:
                entries[2] = key
            data = pack(entries)
            add(length(len(data)) + data)
        return keys

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
