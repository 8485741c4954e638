"""Events out of binlog files, plain or compressed (.gz, .zst, .xz, .bz2), and out of archives of them (.tar, .zip).

First bytes tell what a file is, not its name. An archive's files come in the order of their names, as a server numbers
them; what servers keep beside them (.index, .state, .idx) is passed over, anything else that is no binlog is an error.
Nothing is unpacked to disk, and memory holds one event: of a tar whose members stand in another order the beginning is
read again.
"""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from include.source.binlog.reader import EventReader
from include.source.binlog.step import PlainRun
from include.source.binlog.transaction import Heartbeat, SourceTransaction, TransactionBuilder
from include.source.binlog.unpack import DAMAGE, BinlogFileError, BinlogInput, unpacked

__all__ = ["BinlogFile", "BinlogFileError", "binlog_files", "read_events"]

_MAGIC: Final = b"\xfebin"
_ENCRYPTED: Final = b"\xfdbin"
_HEADER_BYTES: Final = 19
# Below what malloc asks the system for, anew each time: zeroing those pages costs as much as reading.
_READ_BYTES: Final = (1 << 17) - 64
_PIECE: Final = 1 << 24
_SUFFIXES: Final = (".gz", ".zst", ".xz", ".bz2")
_ZIP_METHODS: Final = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
# What servers keep beside their binlogs: the list of them, and MariaDB's GTID state and indexes.
_BESIDE: Final = (".index", ".state", ".idx")
_NUMBERED: Final = re.compile(r"(.*)\.(\d+)", re.DOTALL)


class BinlogFile:
    """One binlog, to be read once, before the next one of its archive is asked for.

    `name` is what the server would call it (`bin.000007`, without folders and suffixes of compression), `place` where
    it was found.
    """

    def __init__(self, name: str, place: str, source: BinlogInput) -> None:
        self.name, self.place = name, place
        self._source = source
        self._at, self._held, self._here = 0, b"", 0

    def events(self) -> Iterator[bytes]:
        """Each event's bytes with header and checksum. What was whole is given before an error.

        Raises `BinlogFileError`, with the byte (of the unpacked file), for a file that is no binlog, or is cut short.
        """
        try:
            self._begin()
            while (event := self._event()) is not None:
                yield event
        except DAMAGE as damage:
            raise self._wrong("binlog file is damaged or ends too early", self._at, "Copy it again, whole.") from damage

    def transactions(self, reader: EventReader, builder: TransactionBuilder) -> Iterator[SourceTransaction | Heartbeat]:
        """Yields what `builder` makes of the events that `reader` parses; raises what they do, and as `events`."""
        for item in self.items(reader, builder):
            if isinstance(item, PlainRun):
                yield from item.transactions()
            else:
                yield item

    def items(
        self, reader: EventReader, builder: TransactionBuilder
    ) -> Iterator[PlainRun | SourceTransaction | Heartbeat]:
        """As `transactions`, with plain ones in runs where the event loop is compiled."""
        try:
            self._begin()
            while True:
                found, here, more = builder.take(reader, self._held, self._here, framed=False)
                self._at += here - self._here
                self._here = here
                yield from found
                if more and self._fill(_READ_BYTES):
                    continue
                event = self._event()
                if event is None:
                    return
                item = builder.on_event(reader.parse(event))
                if item is not None:
                    yield item
        except DAMAGE as damage:
            raise self._wrong("binlog file is damaged or ends too early", self._at, "Copy it again, whole.") from damage

    def _begin(self) -> None:
        magic = self._source.read(4)
        if magic != _MAGIC:
            raise self._wrong("not a binlog", 0, _advice(magic))
        self._at = 4

    def _event(self) -> bytes | None:
        """The next one, None where the file ends behind the last."""
        held, here = self._held, self._here
        if len(held) - here < _HEADER_BYTES:
            self._fill(_READ_BYTES)
            held, here = self._held, self._here
            if not held:
                return None
        size = int.from_bytes(held[here + 9 : here + 13], "little")
        if len(held) >= _HEADER_BYTES and size < _HEADER_BYTES:
            raise self._wrong("binlog file holds an event without room for its header", self._at)
        if len(held) - here < size:
            self._fill(max(size - len(held) + here, _READ_BYTES))
            held, here = self._held, self._here
        if len(held) - here < max(size, _HEADER_BYTES):
            raise self._wrong("binlog file ends inside of an event", self._at, "Copy the file again, whole.")
        self._at += size
        self._here = here + size
        return held[here : here + size]

    def _fill(self, size: int) -> bool:
        """Read `size` bytes more, less at the end; False there."""
        more = self._exactly(size)
        self._held, self._here = b"".join((memoryview(self._held)[self._here :], more)), 0
        return bool(more)

    def _exactly(self, size: int) -> bytes:
        """`size` bytes, less at the end; takes no more memory than there are bytes, whatever `size` says."""
        if size <= _PIECE:
            return self._source.read(size)
        found = bytearray()
        while len(found) < size and (piece := self._source.read(min(_PIECE, size - len(found)))):
            found += piece
        return bytes(found)

    def _wrong(self, what: str, at: int, fix: str = "") -> BinlogFileError:
        return BinlogFileError(what, file=self.place, byte=at, fix=fix)


def read_events(source: Path | IO[bytes]) -> Iterator[bytes]:
    """All events of all binlogs in a file, an archive or a stream; errors as those of `BinlogFile.events`."""
    for file in binlog_files(source):
        yield from file.events()


def binlog_files(source: Path | IO[bytes]) -> Iterator[BinlogFile]:
    """The binlogs in a file, an archive or a stream, in the order of their names.

    Of a stream, which cannot be read again, a tar must have its members in that order already, and a zip is refused.
    Raises `BinlogFileError` for what is neither binlog nor archive, cannot be opened, or ends too early.
    """
    source_name = str(source) if isinstance(source, Path) else "stream"
    try:
        if not isinstance(source, Path):
            yield from _members(unpacked(BinlogInput(source), source_name), None, source_name)
            return
        with source.open("rb") as stream:
            yield from _members(unpacked(BinlogInput(stream), source_name), source, source_name)
    except DAMAGE as damage:
        raise BinlogFileError(
            "not a binlog or an archive of binlogs, or damaged", file=source_name, byte=0, answer=str(damage)
        ) from damage


def _members(whole: BinlogInput, path: Path | None, place: str) -> Iterator[BinlogFile]:
    if whole.head.startswith(b"PK\x03\x04"):
        yield from _zip(whole, path, place)
    elif whole.head[257:262] != b"ustar":
        yield BinlogFile(_name(place), place, whole)
    elif path is None:
        yield from _ordered_tar(whole, place)
    else:
        yield from _tar(path, place)


def _zip(whole: BinlogInput, path: Path | None, place: str) -> Iterator[BinlogFile]:
    if whole.packed or path is None:
        raise BinlogFileError("a zip is read from a file only, which is not packed again", file=place, byte=0)
    with zipfile.ZipFile(path) as archive:
        held = {each.filename: each for each in archive.infolist() if not each.is_dir() and _counts(each.filename)}
        for name in _sorted(list(held), place):
            if held[name].compress_type not in _ZIP_METHODS:
                # zipfile unpacks these in pieces of any size.
                raise BinlogFileError(
                    "a zip's file is packed by a method that is not read: store or deflate are",
                    file=f"{place}/{name}",
                    byte=0,
                    fix="Unpack it, or pack it by gzip, xz or zstd.",
                )
            with archive.open(name) as stream:
                yield BinlogFile(_name(name), f"{place}/{name}", unpacked(BinlogInput(stream), f"{place}/{name}"))


def _tar(path: Path, place: str) -> Iterator[BinlogFile]:
    """Reads from the beginning once for the names, then once for the files, and again for each that stands before."""
    with path.open("rb") as stream:
        wanted = _sorted([member.name for member, _ in _walk(unpacked(BinlogInput(stream), place), place)], place)
    while wanted:
        with path.open("rb") as stream:
            for member, content in _walk(unpacked(BinlogInput(stream), place), place):
                if wanted and member.name == wanted[0]:
                    yield _of_tar(wanted.pop(0), content, place)


def _ordered_tar(whole: BinlogInput, place: str) -> Iterator[BinlogFile]:
    names: list[str] = []
    for member, content in _walk(whole, place):
        names.append(member.name)
        if _sorted(names, place)[-1] != member.name:
            raise BinlogFileError(
                "the archive's files do not stand in the order of their names",
                file=f"{place}/{member.name}",
                byte=0,
                fix="Give it as a file, not as a stream.",
            )
        yield _of_tar(member.name, content, place)


def _walk(whole: BinlogInput, place: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    stream: Any = whole
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() and _counts(member.name) else None
            if content is not None:
                yield member, content
    whole.drain()
    # The library takes an archive that ends between two files for a whole one.
    if whole.tail.strip(b"\0"):
        raise BinlogFileError("the archive ends too early", file=place, byte=0, fix="Copy it again, whole.")


def _of_tar(name: str, content: IO[bytes], place: str) -> BinlogFile:
    return BinlogFile(_name(name), f"{place}/{name}", unpacked(BinlogInput(content), f"{place}/{name}"))


def _counts(name: str) -> bool:
    return not name.endswith(_BESIDE)


def _sorted(names: list[str], place: str) -> list[str]:
    if len(set(names)) != len(names):
        raise BinlogFileError("the archive has two files of one name", file=place, byte=0)
    return sorted(names, key=_order)


def _order(name: str) -> tuple[str, int, str]:
    """Files of one server by number, which outgrows its six digits."""
    folder, base = str(PurePosixPath(name).parent), _name(name)
    numbered = _NUMBERED.fullmatch(base)
    return (f"{folder}/{numbered[1]}", int(numbered[2]), name) if numbered else (f"{folder}/{base}", -1, name)


def _name(place: str) -> str:
    base = PurePosixPath(place).name
    while base.endswith(_SUFFIXES):
        base = base.rpartition(".")[0]
    return base


def _advice(magic: bytes) -> str:
    if magic == _ENCRYPTED:
        return "The server encrypted it: read it over a connection, or set binlog_encryption = OFF."
    return "A binlog begins with the bytes fe 62 69 6e."
