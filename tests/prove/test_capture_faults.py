"""What befalls a capture and its server: killed often, restarted, purged; accounts asked for in every way."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from include.errors import Terminal
from include.source.database.connection import asked
from include.source.definition import SourceDefinition
from tests.support.faults.tcp_proxy import TcpProxy
from tests.support.servers import running
from tests.support.servers.fixture import Give, require_here, server
from tests.support.source.capture_harness import CaptureHarness, opened
from tests.support.source.table_writers import TableWriters

__all__ = ["server"]

EACH = ["mariadb-10.2", "mariadb-11.8", "mysql-5.6", "mysql-9.7"]
KILLS = 50


@pytest.fixture
def world(
    request: pytest.FixtureRequest, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, server(request.param), kafka, registry_url) as made:
        yield made


def goes_on(world: CaptureHarness) -> None:
    before = world.sequence()
    world.wait(lambda: world.sequence() > before + 3)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("world", ["mariadb-11.8", "mysql-9.7"], indirect=True)
def test_fifty_kills_at_any_moment_beside_snapshots_lose_and_double_nothing(world: CaptureHarness) -> None:
    chance = random.Random(11)
    with TableWriters(world, 4):
        time.sleep(0.5)
        while True:
            first = world.start("run", "--snapshot")
            try:
                assert first.wait(chance.uniform(1, 4)) == 0
            except subprocess.TimeoutExpired:
                world.kill(first)
            else:
                break
        for number in range(KILLS):
            capture = world.start("run")
            if number % 5 == 0:
                world.run("request-snapshot", "--id", f"r{number}")
            time.sleep(chance.uniform(0.5, 5))
            world.kill(capture)
        capture = world.start("run")
        goes_on(world)
    world.wait(lambda: not world.status()["requests"], 120)
    world.is_whole()
    assert len(world.changes()) > 500
    world.stop(capture)


@pytest.mark.parametrize("name", EACH)
def test_capture_outlives_a_restart_of_its_server(
    name: str, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    require_here(name)
    folder = tmp_path / "server"
    with ExitStack() as servers:
        again = servers.enter_context(ExitStack())
        until_restart = servers.enter_context(ExitStack())
        first = until_restart.enter_context(running(name, folder))
        proxy = servers.enter_context(TcpProxy(first.host, first.port))
        world = servers.enter_context(opened(unique, tmp_path, first, kafka, registry_url))
        world.declare(port=proxy.port)
        world.run("run", "--snapshot")
        capture = world.start("run")
        with TableWriters(world):
            goes_on(world)
        world.root.close()
        until_restart.close()
        second = again.enter_context(running(name, folder))
        proxy.target = (second.host, second.port)
        world.move(second)
        with TableWriters(world):
            goes_on(world)
        world.is_whole()
        world.stop(capture)


@pytest.mark.parametrize("world", EACH, indirect=True)
def test_a_purged_position_stops_capture_which_then_reads_everything_anew(world: CaptureHarness) -> None:
    world.run("run", "--snapshot")
    with TableWriters(world):
        time.sleep(1)
        world.sql("FLUSH BINARY LOGS")
        time.sleep(1)
    last = world.end().binlog.file
    world.sql(f"PURGE BINARY LOGS TO '{last}'")
    said = world.run("run", code=1)[1].splitlines()[-1]
    assert "the server cannot go on from capture's position" in said
    assert "--snapshot --anew" in said
    world.run("run", "--snapshot", "--anew")
    capture = world.start("run")
    with TableWriters(world):
        goes_on(world)
    world.is_whole(unread=True)
    world.stop(capture)


@pytest.mark.parametrize("tls", ["off", "preferred", "required"])
def test_a_password_that_the_server_has_not_cached_is_accepted(tls: Any, server: Give) -> None:
    """MySQL's caching_sha2_password: over TLS as it is, without TLS behind the server's RSA key."""
    given = server("mysql-9.7")
    source = SourceDefinition(
        host=given.host, port=given.port, user="root", password=SecretStr(given.root_password), databases=["x"], tls=tls
    )
    for _ in range(2):
        ((_, cipher),) = asked(source, lambda ask: ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'"))
        assert bool(cipher) == (tls != "off")
        asked(source, lambda ask: ask("FLUSH PRIVILEGES"))


def test_a_certificate_of_nobody_known_is_refused(server: Give) -> None:
    given = server("mysql-9.7")
    source = SourceDefinition(
        host=given.host,
        port=given.port,
        user="root",
        password=SecretStr(given.root_password),
        databases=["x"],
        tls="verified",
    )
    with pytest.raises(Terminal, match="certificate is not good"):
        asked(source, lambda ask: ask("SELECT 1"))
