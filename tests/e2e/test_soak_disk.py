"""Real servers of the local stack whose disk is full for a while go on by themselves once there is room."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pydantic import SecretStr

from include.errors import Transient
from include.index.server.elasticsearch import ElasticsearchIndex
from include.local.stack import Stack
from include.settings.connections import Elasticsearch
from tests.support.small_disk import filled, small_disk

pytestmark = pytest.mark.timeout(300)

WITHIN_S = 30


def test_writes_that_met_a_full_disk_end_within_half_a_minute_of_its_end() -> None:
    with small_disk("400m") as disk:
        state = disk / "state"
        stack = Stack(state, free_ports=True)
        try:
            env = stack.up(["mariadb"])
            login: dict[str, Any] = {"user": "shop", "password": env["LYREBIRD_SHOP_PASSWORD"], "database": "shop"}

            def connected() -> pymysql.Connection:
                return pymysql.connect(host="127.0.0.1", port=int(env["LYREBIRD_MYSQL_PORT"]), autocommit=True, **login)

            with connected() as connection, connection.cursor() as cursor:
                # In memory, so that the binlog alone meets the full disk: InnoDB refuses a row that finds no room.
                cursor.execute("CREATE TABLE notes (id int PRIMARY KEY, text varchar(900)) ENGINE = MEMORY")
                cursor.execute("INSERT INTO notes VALUES (0, REPEAT('x', 900))")
            written, over = [0], threading.Event()

            def write() -> None:
                with connected() as connection, connection.cursor() as cursor:
                    while not over.is_set():
                        cursor.execute("UPDATE notes SET id = id + 1")
                        written[0] += 1

            writer = threading.Thread(target=write)
            writer.start()
            with filled(disk):
                time.sleep(10)
                assert stands(written), "the disk was not full"
            freed_s = time.monotonic()
            before = written[0]
            while written[0] == before:
                assert time.monotonic() < freed_s + WITHIN_S, log(state)
                time.sleep(0.2)
            over.set()
            writer.join()
            with connected() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT id FROM notes")
                assert cursor.fetchone() == (written[0],)
            assert "mariadb: woke 1 queries" in log(state)
        finally:
            stack.down()


def test_a_note_that_met_a_full_disk_is_read_as_it_was_last_acknowledged() -> None:
    """Elasticsearch closes the log of writes then, and refuses each read until the shard is idle for five minutes."""
    # More than its watermarks ask for.
    with small_disk("3g") as disk:
        stack = Stack(disk / "state", free_ports=True)
        try:
            env = stack.up(["elasticsearch"])
            user, password = env["LYREBIRD_ELASTICSEARCH_USER"], SecretStr(env["LYREBIRD_ELASTICSEARCH_PASSWORD"])
            index = ElasticsearchIndex(Elasticsearch(url=env["LYREBIRD_ELASTICSEARCH"], user=user, password=password))
            index.create("notes", {"settings": {"number_of_replicas": 0, "search.idle.after": "1s"}})
            last = None
            # Read as they are written, so that the newest is in its log and not in its index.
            for number in range(20):
                last = index.write_note("notes", "n", {"number": number, "text": "x"}, last)
                assert last is not None
                assert index.note("notes", "n") == last
                time.sleep(0.3)
            with filled(disk):
                while shutil.disk_usage(disk).free > 4096:
                    time.sleep(0.01)
                with pytest.raises(Transient, match="No space left"):
                    index.write_note("notes", "n", {"number": -1, "text": "x" * 5000}, last)
                time.sleep(10)
            freed_s = time.monotonic()
            refused = 0
            while True:
                try:
                    found = index.note("notes", "n")
                    break
                except Transient:
                    refused += 1
                    assert time.monotonic() < freed_s + WITHIN_S
                    time.sleep(1)
            assert refused, "its log of writes was not closed"
            assert found is not None
            assert last is not None
            assert found.source == last.source
            index.close()
        finally:
            stack.down()


def stands(written: list[int]) -> bool:
    before = written[0]
    time.sleep(3)
    return written[0] == before


def log(state: Path) -> str:
    return (state / "log" / "supervisor.log").read_text()
