"""Failover by GTID between two MariaDB servers: the second is a replica that is promoted when the first dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.integration.source.world import World, opened
from tests.integration.source.writers import Writers
from tests.servers import Server, running
from tests.servers.fixture import require_here

NAME = "mariadb-11.4"


class Pair:
    """A server, and its replica."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.first = stack.enter_context(running(NAME, folder / "first"))
        self.second = stack.enter_context(running(NAME, folder / "second", server_id=2))

    def replicate(self) -> None:
        ask(
            self.second,
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.first.port}, MASTER_USER='root', "
            f"MASTER_PASSWORD='{self.first.root_password}', MASTER_USE_GTID=slave_pos, "
            "MASTER_SSL=0, MASTER_SSL_VERIFY_SERVER_CERT=0",
            "START SLAVE",
        )

    def caught_up(self) -> None:
        ((end,),) = ask(self.first, "SELECT @@gtid_binlog_pos")
        reached = ask(self.second, f"SELECT MASTER_GTID_WAIT('{end}', 20)") == ((0,),)
        assert reached, ask(self.second, "SHOW SLAVE STATUS")

    def kill_first(self) -> None:
        os.kill(self.first.process.pid, signal.SIGKILL)

    def promote(self) -> None:
        ask(self.second, "STOP SLAVE", "RESET SLAVE ALL")


def ask(server: Server, *statements: str) -> Any:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    require_here(NAME)
    with ExitStack() as stack:
        made = Pair(tmp_path / "servers", stack)
        made.replicate()
        yield made


@pytest.fixture
def world(pair: Pair, unique: str, tmp_path: Path, kafka: str, registry_url: str) -> Iterator[World]:
    with opened(unique, tmp_path, pair.first, kafka, registry_url) as made:
        made.declare(fallbacks=[f"127.0.0.1:{pair.second.port}"])
        yield made


def test_a_promoted_replica_takes_over_once_it_has_what_was_captured(world: World, pair: Pair) -> None:
    with Writers(world):
        time.sleep(0.5)
        world.run("run", "--snapshot")
        capture = world.start("run")
        world.wait(lambda: world.sequence() > 8)
    pair.caught_up()
    # What the first has logged, and the second has not applied yet when the first dies.
    ask(pair.second, "STOP SLAVE SQL_THREAD")
    world.sql(f"INSERT INTO {world.name}.a VALUES (999, 1, 'last', 1, NULL)")
    world.wait_until_complete()
    ((end,),) = ask(pair.first, "SELECT @@gtid_binlog_pos")
    seconds = time.monotonic() + 10
    while end.rpartition("-")[2] not in str(ask(pair.second, "SHOW SLAVE STATUS")):
        assert time.monotonic() < seconds
        time.sleep(0.1)
    pair.kill_first()
    before = world.sequence()
    time.sleep(4)
    assert world.sequence() == before
    assert capture.poll() is None
    ask(pair.second, "START SLAVE SQL_THREAD", f"SELECT MASTER_GTID_WAIT('{end}', 20)")
    pair.promote()
    world.move(pair.second)
    with Writers(world):
        world.wait(lambda: world.sequence() > before + 5)
    world.is_whole()
    assert 999 in world.copy("a")
    last = world.resolved().newest
    assert last is not None
    assert "-2-" in str(last.position.gtids)
    world.stop(capture)


def test_a_server_that_has_lost_what_was_captured_is_refused_in_the_end(world: World, pair: Pair) -> None:
    world.run("run", "--snapshot")
    capture = world.start("run")
    pair.caught_up()
    ask(pair.second, "STOP SLAVE")
    world.sql(f"INSERT INTO {world.name}.a VALUES (1, 1, 'lost', 1, NULL)")
    world.wait_until_complete()
    world.stop(capture)
    pair.kill_first()
    pair.promote()
    world.move(pair.second)
    world.declare(host="127.0.0.1", port=pair.second.port, behind_wait_s=2)
    assert "still lacks transactions" in world.run("run", code=1)[1]
    ask(
        pair.second,
        *(f"INSERT INTO {world.name}.a VALUES ({i}, 1, 'other', 1, NULL)" for i in range(2, 5)),
    )
    assert "the server cannot go on from capture's position" in world.run("run", code=1)[1]
    world.run("run", "--snapshot", "--anew")
    assert world.copy("a") == world.truth("a")
