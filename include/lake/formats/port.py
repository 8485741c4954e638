"""Definition of the port of a file format: it opens writers of local files, and reads finished bytes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from include.lake.message import Message

__all__ = ["ClosedFile", "FileIdentity", "FileWriter", "Format"]


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The identity of a file: all that its bytes may depend on besides the messages and the configuration.

    No generation: a backfill has to make the same bytes under the next one.
    """

    topic: str
    topic_id: str
    partition: int
    first: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClosedFile:
    """A whole file. `sha256` is hexadecimal, of all its bytes."""

    records: int
    bytes: int
    sha256: str


class FileWriter(Protocol):
    """Writes one file. Bytes depend on identity, messages and configuration only, not on how messages were batched."""

    @property
    def bytes_so_far(self) -> int:
        """About how many bytes the file has, those not written yet included; grows with each message."""

    def write(self, messages: Sequence[Message]) -> None:
        """Add messages, in the order of their offsets; none that the format `refuses`."""

    def close(self) -> ClosedFile:
        """Finish the file; its stream stays open for whoever opened it."""


class Format(Protocol):
    """One format with its configuration. Stateless; may be used from several threads."""

    @property
    def extension(self) -> str:
        """The ending of object names, with its dot; may be empty."""

    @property
    def versions(self) -> dict[str, str]:
        """Libraries whose version decides on bytes (name → version), for the commit record."""

    def names(self, message: Message) -> tuple[str, ...]:
        """Folders below its partition names that tell this message from those that cannot share a file with it.

        Of messages that it does not `refuse` only.
        """

    def refuses(self, message: Message) -> str:
        """Why the format cannot hold this message, "" when it can: such records are set aside beforehand."""

    def open(self, stream: BinaryIO, identity: FileIdentity) -> FileWriter:
        """Begin a file on a seekable stream that can be read back."""

    def read(self, stream: BinaryIO) -> Iterator[Message]:
        """The messages of a finished file, as far as the format keeps them; `Terminal` naming the byte otherwise."""
