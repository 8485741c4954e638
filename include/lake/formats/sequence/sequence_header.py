"""Writes the header of a Hadoop SequenceFile, and the integers of variable length in it.

https://hadoop.apache.org/docs/stable/api/org/apache/hadoop/io/SequenceFile.html, `WritableUtils.writeVLong`. Written is
version 6; 4 and 5, which lack metadata (and in 4 the name of the codec), are read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = [
    "BYTES_WRITABLE",
    "ESCAPE",
    "LONG_WRITABLE",
    "MAGIC",
    "SYNC_BYTES",
    "TEXT",
    "SequenceCompression",
    "SequenceHeader",
    "vint",
]

SequenceCompression = Literal["NONE", "RECORD", "BLOCK"]
"""NONE: as it is; RECORD: each value alone; BLOCK: many records' keys together, and their values together."""

MAGIC: Final = b"SEQ"
ESCAPE: Final = b"\xff\xff\xff\xff"
"""In the place of a length: a sync marker follows."""
SYNC_BYTES: Final = 16
LONG_WRITABLE: Final = "org.apache.hadoop.io.LongWritable"
BYTES_WRITABLE: Final = "org.apache.hadoop.io.BytesWritable"
TEXT: Final = "org.apache.hadoop.io.Text"


def vint(n: int) -> bytes:
    """Hadoop's VInt or VLong: one byte for -112…127, else a byte with sign and length, and the number."""
    if -112 <= n <= 127:
        return (n & 0xFF).to_bytes(1, "big")
    first, rest = (136, ~n) if n < 0 else (144, n)
    size = (rest.bit_length() + 7) >> 3
    return (first - size).to_bytes(1, "big") + rest.to_bytes(size, "big")


def _text(value: str) -> bytes:
    data = value.encode()
    return vint(len(data)) + data


@dataclass(frozen=True, slots=True)
class SequenceHeader:
    """The header in front of the records. `codec` is a class name, "" without compression."""

    key_class: str
    value_class: str
    compression: SequenceCompression
    codec: str
    sync: bytes
    metadata: Mapping[str, str] = field(default_factory=dict)
    version: int = 6

    def __bytes__(self) -> bytes:
        """Its bytes in version 6; the last sixteen are the sync marker."""
        parts = [
            MAGIC,
            b"\x06",
            _text(self.key_class),
            _text(self.value_class),
            b"\x00" if self.compression == "NONE" else b"\x01",
            b"\x01" if self.compression == "BLOCK" else b"\x00",
        ]
        if self.compression != "NONE":
            parts.append(_text(self.codec))
        parts.append(len(self.metadata).to_bytes(4, "big"))
        # Hadoop keeps metadata in a TreeMap of Text: by the bytes of the name.
        parts += [_text(name) + _text(self.metadata[name]) for name in sorted(self.metadata, key=str.encode)]
        return b"".join((*parts, self.sync))
