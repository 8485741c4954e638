"""A chunk's pieces between their reading and their way out: in memory, beyond a limit in a file without a name.

So the server is asked as fast as it answers, and its snapshot and metadata lock end before anybody waits for the stream
or for a limit of rows a second.
"""

from __future__ import annotations

import marshal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from typing import IO, Final

from include.errors import Transient
from include.source.rows.shape import EncodedImage
from include.source.snapshot.chunk import ChunkPiece

__all__ = ["SpooledRows"]

_ROW: Final = itemgetter(0)


class SpooledRows:
    """Append, then iterate once. Every call may raise `Transient` for a disk that is full or fails; `close` it."""

    def __init__(self, memory_bytes: int, folder: str = "") -> None:
        """`memory_bytes` is about what rows may take in memory; "": the system's folder for such files."""
        self._room, self._folder = memory_bytes, folder
        self._pieces: list[ChunkPiece] = []
        # Pieces from this one on have their rows in the file.
        self._in_memory = 0
        self._file: IO[bytes] | None = None

    def append(self, piece: ChunkPiece) -> None:
        """Add a piece at the end."""
        if self._file is None:
            self._room -= sum(map(len, map(_ROW, piece.images)))
            if self._room >= 0 or not piece.images:
                self._pieces.append(piece)
                self._in_memory += 1
                return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="lyrebird-snapshot-", dir=self._folder or None)  # noqa: SIM115
            marshal.dump(list(map(tuple, piece.images)), self._file)
        except OSError as refusal:
            raise self._full(refusal) from refusal
        self._pieces.append(replace(piece, images=[]))

    def __iter__(self) -> Iterator[ChunkPiece]:
        yield from self._pieces[: self._in_memory]
        if self._file is None:
            return
        try:
            self._file.seek(0)
            for piece in self._pieces[self._in_memory :]:
                yield replace(piece, images=[EncodedImage(*image) for image in marshal.load(self._file)])  # noqa: S302 - our own
        except OSError as refusal:
            raise self._full(refusal) from refusal

    def close(self) -> None:
        """Give the file up; may be called twice."""
        if self._file is not None:
            self._file.close()

    def _full(self, refusal: OSError) -> Transient:
        return Transient(
            "rows of a snapshot do not fit on disk while they wait for the stream",
            system="disk",
            folder=self._folder or tempfile.gettempdir(),
            answer=refusal.strerror or str(refusal),
            fix="Make room in that folder (`spill_folder` of the source), or give a table that has none a key.",
        )
