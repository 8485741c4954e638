"""What a server's own binlog says was changed, read over a connection of its own from beginning to end."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from pydantic import SecretStr

from include.errors import Transient
from include.record.position import BinlogPosition, SourcePosition
from include.source.binlog.reader import Packets
from include.source.cat.cat import Cat
from include.source.cat.schema_rows import described
from include.source.definition import SourceDefinition

__all__ = ["SOURCE", "Changed", "Wire", "changed", "is_logged", "sent"]

SOURCE = SourceDefinition(host="db", port=1, user="u", password=SecretStr("p"), databases=["dumped"])
NON_BLOCKING, ANNOTATE = 1, 2
# What tells enough of columns, on every server.
COLUMNS = (
    *("TABLE_SCHEMA", "TABLE_NAME", "ORDINAL_POSITION", "COLUMN_NAME", "COLUMN_TYPE", "NUMERIC_PRECISION"),
    *("NUMERIC_SCALE", "DATETIME_PRECISION", "CHARACTER_SET_NAME", "EXTRA"),
)


class Wire:
    """The socket of a connection that dumps."""

    def __init__(self, connection: Any, announced: str, file: str, pos: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET @master_binlog_checksum={announced}, @source_binlog_checksum={announced}")
            cursor.execute("SET @mariadb_slave_capability=4")
        command = b"\x12" + struct.pack("<IHI", pos, NON_BLOCKING | ANNOTATE, 77) + file.encode()
        self._socket = connection._sock
        self._socket.sendall(struct.pack("<I", len(command))[:3] + b"\0" + command)

    def recv(self, size: int) -> bytes:
        return bytes(self._socket.recv(size))

    def settimeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)


def sent(packets: Packets) -> bytes:
    """The next event; b"" when the server has no more."""
    try:
        data = packets.next(20.0)
    except Transient as end:
        if "the server ended the dump" not in str(end):
            raise
        return b""
    assert data is not None
    return data


@dataclass(frozen=True)
class Changed:
    """A transaction and how many rows of the tables it changed; `name` is its GTID, without any where it ends."""

    name: str
    gtid: str
    end: BinlogPosition
    rows: int

    def is_in(self, position: SourcePosition) -> bool:
        """Whether the position lies behind it."""
        if self.gtid:
            return position.gtids.add(self.gtid) is position.gtids
        return self.end <= position.binlog


def changed(connection: Any, database: str, tables: Collection[str], file: str = "") -> list[Changed]:
    """Of all transactions from that file on, by default of all files, those with rows of the tables."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(COLUMNS)} FROM information_schema.columns WHERE table_schema = %s", (database,)
        )
        schema = described(dict(zip(COLUMNS, row, strict=True)) for row in cursor.fetchall())
        cursor.execute("SHOW BINARY LOGS")
        files = [str(row[0]) for row in cursor.fetchall()]
    refused: list[Any] = []
    cat = Cat(refused.append, Path(gettempdir()), schema, lambda *name: name[0] == database and name[1] in tables)
    packets = Packets(Wire(connection, "@@global.binlog_checksum", file if file in files else files[0], 4), SOURCE)
    rows = Counter(_ends(cat, packets))
    connection._force_close()
    assert not [each for each in refused if database in str(each)]
    return [Changed(gtid or str(end), gtid, end, many) for (gtid, end), many in rows.items()]


def _ends(cat: Cat, packets: Packets) -> Iterator[tuple[str, BinlogPosition]]:
    """Of each row the transaction's GTID and end."""
    for data in iter(lambda: sent(packets), b""):
        for line in cat.on_event(data):
            yield line["gtid"] or "", BinlogPosition(line["file"], line["pos"])


def is_logged(rows: Mapping[str, int], logged: Collection[Changed], begin: SourcePosition) -> None:
    """Rows by transaction in the log are what the server logged, of all transactions behind `begin`."""
    owed = {each.name for each in logged if not each.is_in(begin)}
    assert owed - rows.keys() == set()
    written = {each.name: each.rows for each in logged}
    assert {name: many for name, many in rows.items() if many != written.get(name)} == {}
