"""MySQL without GTIDs: what was logged before a snapshot's place is in the snapshot, under writers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from include.clock import SystemClock
from include.source.definition import SourceDefinition
from include.source.snapshot.reader import SnapshotReader
from tests.support.servers.fixture import Give, server
from tests.support.source.database import Database

pytestmark = pytest.mark.timeout(240)
__all__ = ["server"]

WRITERS, TRIALS = 4, 60


@contextmanager
def writers(at: Database, name: str) -> Iterator[None]:
    """Each counts in a table of its own, one transaction a number."""
    ended = threading.Event()

    def count(number: int) -> None:
        with at.connect() as connection, connection.cursor() as cursor:
            while not ended.is_set():
                cursor.execute(f"UPDATE {name}.t{number} SET n = n + 1")

    threads = [threading.Thread(target=count, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize(
    ("product", "options", "grant"),
    [
        ("mysql-9.7", ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--sync-binlog=1"), "BACKUP_ADMIN"),
        ("mysql-9.7", ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--sync-binlog=1"), "PROCESS"),
        ("mysql-5.6", ("--sync-binlog=1",), "PROCESS"),
    ],
)
def test_whatever_was_logged_before_a_snapshots_place_is_in_it(
    server: Give, unique: str, product: str, options: tuple[str, ...], grant: str
) -> None:
    at = server(product, *options)
    with at.connect() as connection, connection.cursor() as cursor:

        def ask(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        ask(f"CREATE DATABASE {unique}")
        ask(f"CREATE USER {unique}@'%' IDENTIFIED BY 'Secret-1'")
        ask(f"GRANT {grant}, REPLICATION CLIENT, SELECT ON *.* TO {unique}@'%'")
        for number in range(WRITERS):
            ask(f"CREATE TABLE {unique}.t{number} (n int NOT NULL) ENGINE=InnoDB")
            ask(f"INSERT INTO {unique}.t{number} VALUES (0)")
        ask("FLUSH LOGS")
        source = SourceDefinition(
            host=at.host, port=at.port, user=unique, password=SecretStr("Secret-1"), databases=[unique]
        )
        reader = SnapshotReader(source, SystemClock())
        assert not reader.server.gtids
        found: list[Any] = []
        numbers = [0]
        with writers(at, unique):
            # A slow disk commits less than once a trial.
            while len(found) < TRIALS or sum(numbers) <= TRIALS:
                span = reader.open()
                numbers = [int(reader.ask(f"SELECT n FROM {unique}.t{number}")[0][0]) for number in range(WRITERS)]
                reader.end()
                found.append((span, numbers))
        assert reader._settling._log_status is (grant == "BACKUP_ADMIN")
        assert reader._settling._transactions
        reader.close()
        file = found[0][0].low.binlog.file
        events = ask(f"SHOW BINLOG EVENTS IN '{file}'")
        ask(f"DROP DATABASE {unique}")
        ask(f"DROP USER {unique}@'%'")
    assert {place.file for span, _ in found for place in (span.low.binlog, span.high.binlog)} == {file}
    # Writer and end of each transaction, as the binlog has them.
    ends: list[tuple[int, int]] = []
    writer = -1
    for _, _, kind, _, end, info in events:
        if kind == "Table_map":
            writer = int(info.rpartition(f"{unique}.t")[2].rstrip(")"))
        elif kind == "Xid":
            ends.append((writer, end))
    assert len(ends) > TRIALS
    for span, numbers in found:
        for number in range(WRITERS):
            logged = sum(of == number and end <= span.low.binlog.pos for of, end in ends)
            beyond = sum(of == number and end <= span.high.binlog.pos for of, end in ends)
            assert logged <= numbers[number] <= beyond, (product, grant, span, number)
