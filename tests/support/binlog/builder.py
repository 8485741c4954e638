"""Binlogs made by hand: raw events with headers and checksums, and whole groups of both flavours as `Event`s."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import gettempdir

from include.record.gtid import Flavour
from include.source.binlog.reader import Event, EventType
from include.source.binlog.transaction import SourceTransaction, TransactionBuilder

FILE = "bin.000001"
SID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
# Sizes of fixed parts: of QUERY, TABLE_MAP, rows of version 1 and 2; what the others say nobody reads.
_SIZES = {2: 13, 15: 98, 19: 8, **dict.fromkeys(range(23, 26), 8), **dict.fromkeys(range(30, 33), 10)}


def raw(kind: int, body: bytes, *, end: int = 0, flags: int = 0, checksum: bool = True, timestamp: int = 1) -> bytes:
    """One event; `end` is what its header says of the byte after it."""
    size = 19 + len(body) + (4 if checksum else 0)
    data = struct.pack("<IBIIIH", timestamp, kind, 1, size, end & 0xFFFFFFFF, flags) + body
    return data + struct.pack("<I", zlib.crc32(data)) if checksum else data


def description(
    version: str = "9.7.4", *, checksum: bool | None = True, types: int = 42, created: int = 0, end: int = 0
) -> bytes:
    """A format description; `checksum` None: of a server that knows none."""
    sizes = bytes(_SIZES.get(code, 0) for code in range(1, types + 1))
    body = struct.pack("<H50sIB", 4, version.encode(), created, 19) + sizes
    if checksum is not None:
        body += bytes((int(checksum),))
    return raw(15, body, end=end, checksum=checksum is not None)


def rotate(file: str, pos: int = 4, *, checksum: bool = True, artificial: bool = True) -> bytes:
    return raw(4, struct.pack("<Q", pos) + file.encode(), flags=0x20 if artificial else 0, checksum=checksum)


def table_map_body(
    table_id: int, table: str, database: str = "shop", types: bytes = b"\x03", metas: bytes = b"", fields: bytes = b""
) -> bytes:
    return (
        struct.pack("<IHH", table_id, 0, 1)
        + b"".join(bytes((len(name),)) + name + b"\0" for name in (database.encode(), table.encode()))
        + bytes((len(types),))
        + types
        + bytes((len(metas),))
        + metas
        + b"\0" * ((len(types) + 7) // 8)
        + fields
    )


def optional(number: int, value: bytes) -> bytes:
    """One optional field of a table map."""
    return bytes((number, len(value))) + value


def rows_body(table_id: int, images: bytes = b"", *, end: bool = True, v2: bool = False, extra: bytes = b"") -> bytes:
    """Rows of one INT column: its width and bitmap, then `images`."""
    head = struct.pack("<IHH", table_id, 0, int(end))
    return head + (struct.pack("<H", 2 + len(extra)) + extra if v2 else b"") + b"\x01\x01" + images


def image(number: int) -> bytes:
    return b"\0" + struct.pack("<i", number)


def query_body(text: str, database: str = "shop", thread: int = 7, status: bytes = b"") -> bytes:
    head = struct.pack("<IIBHH", thread, 0, len(database), 0, len(status))
    return head + status + database.encode() + b"\0" + text.encode()


def xid_body(gtrid: bytes, bqual: bytes = b"", form: int = 1, size: str = "I") -> bytes:
    return struct.pack(f"<I{size}{size}", form, len(gtrid), len(bqual)) + gtrid + bqual


class Log:
    """Events one after another, each with its place. Every method adds one and returns the log."""

    def __init__(self, flavour: Flavour = "mariadb", file: str = FILE) -> None:
        self.flavour, self.file = flavour, file
        self.events: list[Event] = []
        self.end = 4
        self._sequence = 0

    def add(self, kind: EventType, body: bytes = b"", timestamp: int = 1) -> Log:
        size = 19 + len(body) + 4
        self.end += size
        self.events.append(Event(kind, timestamp, 1, size, self.end, False, body, self.file, self.flavour))
        return self

    def gtid(self, flags: int = 0x0C, more: bytes = b"\0" * 6) -> Log:
        """MariaDB: `flags` and what follows them. MySQL: neither."""
        self._sequence += 1
        if self.flavour == "mariadb":
            return self.add(EventType.GTID, struct.pack("<QIB", self._sequence, 0, flags) + more)
        return self.add(EventType.MYSQL_GTID, b"\0" + SID.bytes + struct.pack("<Q", self._sequence))

    def query(self, text: str, thread: int = 7) -> Log:
        return self.add(EventType.QUERY, query_body(text, thread=thread))

    def map(self, table_id: int, table: str, database: str = "shop") -> Log:
        return self.add(EventType.TABLE_MAP, table_map_body(table_id, table, database))

    def write(self, table_id: int, *numbers: int, end: bool = True) -> Log:
        images = b"".join(map(image, numbers))
        if self.flavour == "mariadb":
            return self.add(EventType.WRITE_ROWS, rows_body(table_id, images, end=end))
        return self.add(EventType.WRITE_ROWS_V2, rows_body(table_id, images, end=end, v2=True))

    def insert(self, table: str, *numbers: int) -> Log:
        """A whole statement."""
        return self.map(1, table).write(1, *numbers)

    def xid(self) -> Log:
        return self.add(EventType.XID, b"\x01" + b"\0" * 7)

    def begin(self) -> Log:
        """The start of a transaction as the flavour has it."""
        return self.gtid() if self.flavour == "mariadb" else self.gtid().query("BEGIN")


def builder(
    survives: Sequence[str] = (), memory_bytes: int = 1 << 20, folder: Path | None = None, database: str = "shop"
) -> TransactionBuilder:
    """Captures `database`; `survives` names its tables that a rollback leaves alone."""
    return TransactionBuilder(
        lambda found, _table: found == database,
        lambda _database, table: table in survives,
        memory_bytes,
        folder or Path(gettempdir()),
    )


def transactions(events: Iterable[Event], made: TransactionBuilder | None = None) -> list[SourceTransaction]:
    made = made or builder()
    found = [made.on_event(event) for event in events]
    return [item for item in found if isinstance(item, SourceTransaction)]
