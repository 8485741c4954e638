"""Writers of SequenceFiles, version 6: for the same sync marker the bytes are those of Hadoop's writers.

Hadoop draws its sync marker at random. Here it comes from which file this is, so that files can be made again byte for
byte. A payload may hold it all the same, by chance or by intent, and a reader that begins at a split would then begin
inside that payload. So markers are counted: where the body has more than were written, all are replaced by the next
one (they have one length, so nothing moves) and counted again.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, count
from operator import add
from struct import Struct
from typing import BinaryIO, Final

from include.lake.formats.port import ClosedFile, FileIdentity
from include.lake.formats.sequence.codecs import Codec
from include.lake.formats.sequence.key_layout import KeyLayout
from include.lake.formats.sequence.sequence_header import (
    BYTES_WRITABLE,
    ESCAPE,
    SYNC_BYTES,
    SequenceCompression,
    SequenceHeader,
    vint,
)
from include.lake.message import Message

__all__ = ["BLOCK_BYTES", "SYNC_INTERVAL", "BlockWriter", "RecordWriter", "sync_markers"]

SYNC_INTERVAL: Final = 102_400
"""Bytes after which a marker is due in front of the next record (Hadoop 3)."""
BLOCK_BYTES: Final = 1_000_000
"""Bytes of keys and values that end a block: Hadoop's `io.seqfile.compress.blocksize`."""

_LENGTH: Final = Struct(">i")
_LENGTHS: Final = Struct(">ii")
_VINTS: Final = [vint(n) for n in range(1 << 14)]
_SEAM: Final = SYNC_BYTES - 1
_READ_BYTES: Final = 1 << 20


def sync_markers(identity: FileIdentity) -> Iterator[bytes]:
    """The markers that a file may have, best first: hashes of which file it is, without its generation.

    None of them overlaps itself, so that counting its occurrences finds each.
    """
    for counter in count():
        place = f"{identity.topic_id}\n{identity.partition}\n{identity.first}\n{counter}"
        marker = hashlib.sha256(place.encode()).digest()[:SYNC_BYTES]
        if not any(marker[:size] == marker[-size:] for size in range(1, SYNC_BYTES)):
            yield marker


class _Body(ABC):
    """What the writers share: header, markers, digest."""

    def __init__(
        self,
        stream: BinaryIO,
        layout: KeyLayout,
        markers: Iterator[bytes],
        compression: SequenceCompression,
        codec: Codec | None,
    ) -> None:
        self._stream = stream
        self._layout = layout
        self._markers = markers
        self._sync = next(markers)
        class_name = codec.class_name if codec else ""
        header = SequenceHeader(
            layout.key_class, BYTES_WRITABLE, compression, class_name, self._sync, dict(layout.metadata)
        )
        data = bytes(header)
        stream.write(data)
        self._digest = hashlib.sha256(data)
        self._header_bytes = self._position = len(data)
        self._records = 0
        self._marks: list[int] = []  # where the markers of the body are
        self._found = 0  # how often the marker is in the body, by whatever way it came there
        self._tail = b""

    @abstractmethod
    def _flush(self) -> None:
        """Write what is held back."""

    def _count(self, data: bytes) -> None:
        self._found += data.count(self._sync) + (self._tail + data[:_SEAM]).count(self._sync)
        self._tail = data[-_SEAM:] if len(data) >= _SEAM else (self._tail + data)[-_SEAM:]

    def _put(self, data: bytes) -> None:
        self._digest.update(data)
        self._count(data)
        self._stream.write(data)

    def _replace_marker(self) -> None:
        self._sync = next(self._markers)
        stream = self._stream
        for place in (self._header_bytes - SYNC_BYTES, *self._marks):
            stream.seek(place)
            stream.write(self._sync)
        stream.seek(0)
        head = stream.read(self._header_bytes)
        self._digest = hashlib.sha256(head)
        self._found, self._tail = 0, b""
        while data := stream.read(_READ_BYTES):
            self._digest.update(data)
            self._count(data)

    def close(self) -> ClosedFile:
        """Finish the file; its stream stays open."""
        self._flush()
        while self._found > len(self._marks):
            self._replace_marker()
        return ClosedFile(self._records, self._position, self._digest.hexdigest())


class RecordWriter(_Body):
    """NONE, and with a codec RECORD: records one by one, a marker in front of one where it is due."""

    def __init__(
        self, stream: BinaryIO, layout: KeyLayout, markers: Iterator[bytes], codec: Codec | None = None
    ) -> None:
        super().__init__(stream, layout, markers, "RECORD" if codec else "NONE", codec)
        self._compress: Callable[[bytes], bytes] | None = codec.compress if codec else None
        self._due = SYNC_INTERVAL
        self._parts: list[bytes] = []

    @property
    def bytes_so_far(self) -> int:
        """The bytes that the file would have if it were closed now."""
        return self._position

    def write(self, messages: Sequence[Message]) -> None:
        """Add messages; every `SYNC_INTERVAL` what has gathered goes to the stream."""
        keys, values = self._layout.keys(messages), self._layout.values(messages)
        prefixes = list(map(_LENGTH.pack, map(len, values)))
        if self._compress:
            values = list(map(self._compress, map(add, prefixes, values)))
            prefixes = [b""] * len(values)
        inside = 0 if self._compress else 4
        key_bytes = list(map(len, keys))
        sizes = [size + inside + more for size, more in zip(key_bytes, map(len, values), strict=True)]
        heads = list(map(_LENGTHS.pack, sizes, key_bytes))
        # Where each record begins, and the last one ends, if no marker came in between.
        places = list(accumulate([8 + size for size in sizes], initial=self._position))
        markers, done, parts = 0, 0, self._parts
        while True:
            until = bisect_left(places, self._due - markers, done, len(keys))
            parts += chain.from_iterable(
                zip(heads[done:until], keys[done:until], prefixes[done:until], values[done:until], strict=True)
            )
            if until == len(keys):
                break
            parts += (ESCAPE, self._sync)
            self._marks.append(places[until] + markers + 4)
            markers += 4 + SYNC_BYTES
            self._due = places[until] + markers + SYNC_INTERVAL
            self._put(b"".join(parts))
            parts.clear()
            done = until
        self._position = places[-1] + markers
        self._records += len(messages)

    def _flush(self) -> None:
        self._put(b"".join(self._parts))
        self._parts.clear()


class BlockWriter(_Body):
    """BLOCK: so many records at a time as have `block_bytes` of keys and values, each block behind a marker.

    A writer holds up to a block back, besides what its codec needs.
    """

    def __init__(
        self,
        stream: BinaryIO,
        layout: KeyLayout,
        markers: Iterator[bytes],
        codec: Codec,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        super().__init__(stream, layout, markers, "BLOCK", codec)
        self._compress = codec.compress
        self._block_bytes = block_bytes
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._waiting = 0
        self._most = self._position

    @property
    def bytes_so_far(self) -> int:
        """What is written, and what waits for its block before compression; never less than it was."""
        self._most = max(self._most, self._position + self._waiting)
        return self._most

    def write(self, messages: Sequence[Message]) -> None:
        """Add messages; each block goes to the stream when it is full."""
        keys, values, waiting, limit = self._keys, self._values, self._waiting, self._block_bytes
        for key, value in zip(self._layout.keys(messages), self._layout.values(messages), strict=True):
            keys.append(key)
            values.append(value)
            waiting += len(key) + len(value) + 4
            if waiting >= limit:
                self._flush()
                waiting = 0
        self._waiting = waiting
        self._records += len(messages)

    def _flush(self) -> None:
        keys, values = self._keys, self._values
        if not keys:
            return
        length = _LENGTH.pack
        value_lengths = [len(value) for value in values]
        serialised: list[bytes] = []
        for size, value in zip(value_lengths, values, strict=True):
            serialised += (length(size), value)
        parts = [ESCAPE, self._sync, vint(len(keys))]
        for data in (
            _vints([len(key) for key in keys]),
            b"".join(keys),
            _vints([size + 4 for size in value_lengths]),
            b"".join(serialised),
        ):
            compressed = self._compress(data)
            parts += (vint(len(compressed)), compressed)
        block = b"".join(parts)
        self._marks.append(self._position + 4)
        self._put(block)
        self._position += len(block)
        keys.clear()
        values.clear()
        self._waiting = 0


def _vints(numbers: list[int]) -> bytes:
    known = _VINTS
    return b"".join([known[n] if n < len(known) else vint(n) for n in numbers])
