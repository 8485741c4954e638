"""What servers send is what their files hold: events, positions, checksums switched between files, large events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from include.source.binlog.files import read_events
from include.source.binlog.reader import Event, EventReader, EventType, Packets
from include.source.binlog.transaction import SourceTransaction
from tests.support.binlog.builder import builder
from tests.support.servers import SERVERS
from tests.support.servers.fixture import Give, server
from tests.support.source.logged_changes import SOURCE, Wire, sent

__all__ = ["server"]

# Servers whose redo log takes a row of more than 16 MiB.
LARGE = {"mariadb-10.11", "mariadb-11.4", "mariadb-11.8", "mysql-9.7"}


def written(connection: Any, row_bytes: int) -> None:
    """Four files, of which the second has no checksums."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE dumped")
        cursor.execute("CREATE TABLE dumped.t (id int PRIMARY KEY, v longblob)")
        for algorithm in ("CRC32", "NONE", "CRC32"):
            cursor.execute(f"SET GLOBAL binlog_checksum = {algorithm}")
            for sql in ("BEGIN", "INSERT INTO {} VALUES (1, 'a')", "UPDATE {} SET v = 'b'", "COMMIT", "DELETE FROM {}"):
                cursor.execute(sql.format("dumped.t"))
            cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("INSERT INTO dumped.t VALUES (9, REPEAT('x', %s))", (row_bytes,))
    connection.commit()


def of_files(files: list[Path]) -> list[Event]:
    found = []
    for path in files:
        reader = EventReader(path.name)
        found += [reader.parse(data) for data in read_events(path)]
    return found


def of_dump(wire: Wire) -> list[Event]:
    packets, reader = Packets(wire, SOURCE), EventReader()
    return [reader.parse(data) for data in iter(lambda: sent(packets), b"")]


def told(events: list[Event]) -> list[tuple[Any, ...]]:
    """Events that stand in a file; a description is sent with other flags and times than it is stored with."""
    return [
        (each.type.name, each.file, each.log_pos, each.body)
        for each in events
        if not each.artificial and each.type is not EventType.FORMAT_DESCRIPTION
    ]


@pytest.mark.parametrize("name", [row.name for row in SERVERS])
def test_a_dump_is_its_files_from_any_transaction_on(name: str, server: Give) -> None:
    given = server(name, "--max-allowed-packet=64M")
    large = 20_000_000 if name in LARGE else 3_000_000
    with given.connect(max_allowed_packet=1 << 26) as connection:
        written(connection, large)
    files = sorted(path for path in given.data.glob("bin.*") if path.suffix[1:].isdigit())
    stored = of_files(files)
    made = builder(database="dumped")
    found = [made.on_event(event) for event in stored]
    transactions = [each for each in found if isinstance(each, SourceTransaction)]
    assert max(each.size_bytes for each in transactions) > large
    for announced in ("@@global.binlog_checksum", "'NONE'"):
        for transaction in (None, *transactions[::3]):
            file, pos = (transaction.end.file, transaction.end.pos) if transaction else (files[0].name, 4)
            with given.connect() as connection:
                dumped = of_dump(Wire(connection, announced, file, pos))
                connection._force_close()  # type: ignore[attr-defined]
            number = found.index(transaction) + 1 if transaction else 0
            assert told(dumped) == told(stored[number:])
