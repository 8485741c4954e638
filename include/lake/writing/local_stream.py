"""A local file that holds no handle between writes: a cut may have a thousand of them open at once.

What is written gathers in memory up to `BUFFER_BYTES` and is appended then. Local files are disposable: nothing is
synced, a crash loses them all, and the cut is read again.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from include.errors import Transient

__all__ = ["BUFFER_BYTES", "LocalStream"]

BUFFER_BYTES: Final = 32 << 10
T = TypeVar("T")


class LocalStream(io.RawIOBase):
    """A new file at `path`, empty whatever was there. Written to its end until the first `seek`; then as any file.

    Raises `Transient` when the disk refuses, which may pass.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._buffer = bytearray()
        self._size = 0
        self._file: BinaryIO | None = None
        self._do(lambda: path.write_bytes(b""))

    def writable(self) -> bool:
        """It is."""
        return True

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """All of `data`."""
        file = self._file
        if file is not None:
            return self._do(lambda: file.write(data))
        buffer, size = self._buffer, len(data)
        if size >= BUFFER_BYTES:
            # As it is: to copy it costs as much as to write it.
            self._append()
            self._do(lambda: self._write_out(data))
        else:
            buffer += data
            if len(buffer) >= BUFFER_BYTES:
                self._append()
        self._size += size
        return size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """From now on a handle is open, until `close`."""
        file = self._opened()
        return self._do(lambda: file.seek(offset, whence))

    def tell(self) -> int:
        """Where the next byte goes."""
        return self._size if self._file is None else self._file.tell()

    def read(self, size: int = -1) -> bytes:
        """As of any file."""
        file = self._opened()
        return self._do(lambda: file.read(size))

    def readinto(self, room: Any) -> int:
        """As of any file."""
        data = self.read(len(room))
        room[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Append what is left; may be called twice."""
        if self.closed:
            return
        try:
            if self._file is not None:
                self._do(self._file.close)
            else:
                self._append()
        finally:
            super().close()

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._append()
            self._file = self._do(lambda: self._path.open("r+b"))
            self._file.seek(0, io.SEEK_END)
        return self._file

    def _append(self) -> None:
        if self._buffer:
            self._do(lambda: self._write_out(self._buffer))
            self._buffer.clear()

    def _write_out(self, data: Any) -> None:
        with memoryview(data) as left:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                done = os.write(handle, left)
                while done < len(left):
                    done += os.write(handle, left[done:])
            finally:
                os.close(handle)

    def _do(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except OSError as refused:
            raise Transient(
                "the disk takes no more of a cut's files",
                system="disk",
                path=str(self._path),
                reason=refused.strerror or str(refused),
                fix="Make room there; the cut is read again.",
            ) from refused
