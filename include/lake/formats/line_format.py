"""Reads and writes files of lines for the formats of lines: a line for each message, compressed as a whole or not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, ClassVar

from typing_extensions import override

from include.lake.formats.compressed_file import CompressedFile, Compression, read_lines
from include.lake.formats.port import ClosedFile, FileIdentity, FileWriter, Format
from include.lake.message import Message

__all__ = ["LineFormat"]


class LineFormat(Format, ABC):
    """A `Format` without its lines."""

    suffix: ClassVar[str]

    def __init__(self, compression: Compression) -> None:
        self._compression = compression

    @abstractmethod
    def lines(self, messages: Sequence[Message]) -> bytes | bytearray:
        """A line of each, with its line feed; `Terminal` for a message that the format `refuses`."""

    @abstractmethod
    def message(self, line: bytes, number: int) -> Message:
        """Of a line without its line feed; `Terminal` naming the line's number for what is none."""

    @property
    @override
    def extension(self) -> str:
        return self.suffix + self._compression.extension

    @property
    @override
    def versions(self) -> dict[str, str]:
        return self._compression.versions

    @override
    def names(self, message: Message) -> tuple[str, ...]:
        return ()

    @override
    def open(self, stream: BinaryIO, identity: FileIdentity) -> FileWriter:
        return _LineWriter(CompressedFile(stream, self._compression), self.lines)

    @override
    def read(self, stream: BinaryIO) -> Iterator[Message]:
        for number, line in enumerate(read_lines(stream, self._compression), 1):
            yield self.message(line, number)


class _LineWriter(FileWriter):
    def __init__(self, file: CompressedFile, lines: Callable[[Sequence[Message]], bytes | bytearray]) -> None:
        self._file, self._lines = file, lines
        self._records = 0

    @property
    @override
    def bytes_so_far(self) -> int:
        return self._file.bytes_so_far

    @override
    def write(self, messages: Sequence[Message]) -> None:
        self._file.write(self._lines(messages))
        self._records += len(messages)

    @override
    def close(self) -> ClosedFile:
        return self._file.close(self._records)
