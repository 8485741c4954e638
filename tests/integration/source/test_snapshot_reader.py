"""A reader of snapshots on a real server: it lets go at once when it is told to, whatever the server is doing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from include.clock import SystemClock
from include.errors import Transient
from include.record.schema import Column, TableSchema
from include.source.definition import SourceDefinition
from include.source.rows.shape import TableShape
from include.source.snapshot.reader import SnapshotReader
from tests.support.servers.fixture import Give, server

__all__ = ["server"]

NAME = "mariadb-11.4"
PATIENCE_S = 20.0
ID = Column("id", "int")
SHAPE = TableShape((ID,), TableSchema("shop", "t", (ID,), ("id",)))


@pytest.mark.parametrize(
    "wait",
    [lambda reader: reader.ask("SELECT SLEEP(60)"), lambda reader: list(reader.select("SELECT SLEEP(60)", SHAPE))],
    ids=["asking", "selecting"],
)
def test_a_reader_that_waits_for_the_server_lets_go_when_it_is_interrupted(
    server: Give, wait: Callable[[SnapshotReader], Any]
) -> None:
    given = server(NAME)
    source = SourceDefinition(
        host=given.host, port=given.port, user="root", password=SecretStr(given.root_password), databases=["shop"]
    )
    reader = SnapshotReader(source, SystemClock())
    told: list[BaseException] = []

    def work() -> None:
        try:
            wait(reader)
        except Transient as error:
            told.append(error)
        finally:
            reader.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    with given.connect() as root, root.cursor() as cursor:
        until = time.monotonic() + PATIENCE_S
        while not cursor.execute("SELECT 1 FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(60)%'"):
            assert time.monotonic() < until
            time.sleep(0.05)
    ended = threading.Thread(target=reader.interrupt, daemon=True)
    ended.start()
    ended.join(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert not ended.is_alive()
    assert not thread.is_alive()
    assert len(told) == 1
    reader.interrupt()
