"""A sequence of steps that lies on disk beyond a limit of bytes: how a large transaction waits for its commit.

The file has no name from the moment that it is made, so a crash leaves nothing behind; it is never synced, as nothing
in it outlives the process. Where the disk is full capture waits for room, and nothing is lost by that: the position
that it goes on from moves only with whole transactions.

Beyond its steps memory holds each table map once, nothing for each step: a mark remembers where it stands, and a cut
goes back to marks only.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from include.errors import Terminal, Transient
from include.source.binlog.events import QueryEvent, RowOp
from include.source.binlog.step import RowsEvent, SourceStep, TransactionSteps
from include.source.binlog.table_map import TableMap

__all__ = ["Spill", "SpillMark"]

# What a step costs in memory beside its bytes, about.
_OVERHEAD: Final = 200
_PIECE: Final = 1 << 20
# Refusals of the folder itself, which no room mends.
_FOLDER: Final = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS}
_RECORD: Final = struct.Struct("<BII")
_QUERY, _TEXT, _PARTIAL = 3, 4, 8
_OPS: Final[tuple[RowOp, ...]] = ("c", "u", "d")


@dataclass(frozen=True, slots=True)
class SpillMark:
    """A place between two steps, for `cut` and `after`; good until a cut to an earlier place."""

    count: int
    held: int
    held_bytes: int
    offset: int
    text: str | None
    size_bytes: int


class Spill:
    """Append, mark, cut back to a mark; iterate as often as needed, also while another iteration runs.

    `memory_bytes` is about what steps may take in memory; what comes after goes to a file in `folder`. Every call may
    raise `Transient` for a disk that is full or fails, `Terminal` for a folder that cannot be used; the spill is of no
    use then. `size_bytes` counts the bytes of rows.
    """

    def __init__(self, memory_bytes: int, folder: Path) -> None:
        self.size_bytes = 0
        self._memory_bytes = memory_bytes
        self._folder = folder
        self._held: list[SourceStep] = []
        self._held_bytes = 0
        self._count = 0
        self._fd = -1
        self._pending = bytearray()
        self._written = 0
        self._text: str | None = None
        self._tables: list[TableMap] = []
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[SourceStep]:
        yield from self._held[:]
        yield from self._stored(0, None)

    @property
    def on_disk(self) -> bool:
        """Whether some of the steps are not in memory."""
        return self._count > len(self._held)

    def finished(self) -> TransactionSteps:
        """The steps, when no more will come: a tuple where all are in memory."""
        return self if self.on_disk else tuple(self._held)

    def append(self, step: SourceStep) -> None:
        """Add a step at the end."""
        size = len(step.body) if isinstance(step, RowsEvent) else len(step.text)
        self._count += 1
        self.size_bytes += size
        if self._held_bytes + size <= self._memory_bytes and self._fd < 0:
            self._held.append(step)
            self._held_bytes += size + _OVERHEAD
        else:
            self._store(step)

    def mark(self) -> SpillMark:
        """The place after the last step."""
        offset = self._written + len(self._pending)
        return SpillMark(self._count, len(self._held), self._held_bytes, offset, self._text, self.size_bytes)

    def after(self, mark: SpillMark) -> Iterator[SourceStep]:
        """The steps after `mark`."""
        yield from self._held[mark.held :]
        yield from self._stored(mark.offset, mark.text)

    def cut(self, mark: SpillMark) -> None:
        """Forget the steps after `mark`."""
        if self._fd >= 0:
            self._flush()
            with self._disk():
                os.ftruncate(self._fd, mark.offset)
            self._written = mark.offset
        del self._held[mark.held :]
        self._count, self._held_bytes, self._text = mark.count, mark.held_bytes, mark.text
        self.size_bytes = mark.size_bytes

    def _store(self, step: SourceStep) -> None:
        if self._fd < 0:
            with self._disk():
                self._fd, path = tempfile.mkstemp(prefix="lyrebird-spill-", dir=self._folder)
                weakref.finalize(self, os.close, self._fd)
                os.unlink(path)
        if isinstance(step, QueryEvent):
            self._record(_QUERY, 0, json.dumps([step.thread, step.database, step.text, step.sql_mode]).encode())
            return
        if step.query != self._text:
            self._text = step.query
            self._record(_TEXT, int(step.query is not None), (step.query or "").encode("utf-8", "surrogatepass"))
        number = self._numbers.get(id(step.table))
        if number is None:
            number = self._numbers[id(step.table)] = len(self._tables)
            self._tables.append(step.table)
        self._record(_OPS.index(step.op) | (_PARTIAL if step.partial else 0), number, step.body)

    def _record(self, kind: int, number: int, data: bytes) -> None:
        self._pending += _RECORD.pack(kind, number, len(data))
        self._pending += data
        if len(self._pending) >= _PIECE:
            self._flush()

    def _flush(self) -> None:
        view = memoryview(self._pending)
        done = 0
        with self._disk(), view:
            while done < len(view):
                done += os.pwrite(self._fd, view[done:], self._written + done)
        self._written += done
        self._pending = bytearray()

    def _stored(self, offset: int, text: str | None) -> Iterator[SourceStep]:
        if self._fd < 0:
            return
        self._flush()
        end = self._written
        buffer, consumed = b"", 0
        while offset + consumed < end:
            if len(buffer) - consumed < _RECORD.size:
                offset, consumed = offset + consumed, 0
                buffer = self._read(offset, min(_PIECE, end - offset))
            kind, number, size = _RECORD.unpack_from(buffer, consumed)
            start = consumed + _RECORD.size
            if len(buffer) < start + size:
                offset, consumed, start = offset + consumed, 0, _RECORD.size
                buffer = self._read(offset, min(max(_PIECE, start + size), end - offset))
            data = bytes(buffer[start : start + size])
            consumed = start + size
            if kind == _TEXT:
                text = data.decode("utf-8", "surrogatepass") if number else None
            elif kind == _QUERY:
                yield QueryEvent(*json.loads(data))
            else:
                yield RowsEvent(self._tables[number], _OPS[kind & 3], data, bool(kind & _PARTIAL), text)

    def _read(self, offset: int, size: int) -> bytes:
        pieces = []
        with self._disk():
            while size > 0:
                piece = os.pread(self._fd, size, offset)
                if not piece:
                    raise OSError("the file is shorter than what was written to it")
                pieces.append(piece)
                offset += len(piece)
                size -= len(piece)
        return b"".join(pieces)

    def _disk(self) -> _Disk:
        return _Disk(self._folder, self._written + len(self._pending))


@dataclass(frozen=True, slots=True)
class _Disk:
    """Turns what a disk says into what to do about it."""

    folder: Path
    size_bytes: int

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            details = {
                "folder": str(self.folder),
                "size_bytes": self.size_bytes,
                "answer": error.strerror or str(error),
            }
            if error.errno in _FOLDER:
                raise Terminal(
                    "a large transaction cannot wait on disk for its commit",
                    fix="Correct `spill_folder` of the source, or the rights there.",
                    **details,
                ) from error
            raise Transient(
                "a large transaction does not fit on disk while it waits for its commit",
                fix="Make room in that folder (`spill_folder` of the source): the transaction is then read again.",
                system="disk",
                **details,
            ) from error
