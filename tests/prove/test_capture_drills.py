"""Drills: what capture needs dies while others write, for as long as it does in life; nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.faults.tcp_proxy import TcpProxy
from tests.support.log.broker import broker
from tests.support.servers import running
from tests.support.servers.fixture import require_here
from tests.support.source.capture_harness import opened
from tests.support.source.outages import ends_where_another_has_its_id, goes_on, outlives_kafka
from tests.support.source.replica_pair import ReplicaPair, takes_over
from tests.support.source.table_writers import TableWriters

KILLS = 3


def test_kafka_may_be_dead_for_a_minute(unique: str, tmp_path: Path, mariadb: Any, registry_url: str) -> None:
    with broker(tmp_path / "kafka") as kafka, opened(unique, tmp_path, mariadb, kafka.address, registry_url) as world:
        outlives_kafka(world, kafka, 5, 25, 60)


@pytest.mark.parametrize("name", ["mariadb-11.8", "mysql-9.7"])
def test_a_promoted_replica_takes_over(name: str, unique: str, tmp_path: Path, kafka: str, registry_url: str) -> None:
    require_here(name)
    with ExitStack() as stack:
        pair = ReplicaPair(name, tmp_path / "servers", stack)
        pair.replicate()
        world = stack.enter_context(opened(unique, tmp_path, pair.first, kafka, registry_url))
        world.declare(fallbacks=[f"127.0.0.1:{pair.second.port}"])
        takes_over(world, pair)


@pytest.mark.parametrize("name", ["mariadb-10.2", "mariadb-11.8", "mysql-5.6", "mysql-9.7"])
def test_a_server_that_dies_under_writers_and_recovers_loses_and_doubles_nothing(
    name: str, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    require_here(name)
    with ExitStack() as servers:
        # What it has not synced when it dies is in the machine's memory, so in its files.
        each = [servers.enter_context(ExitStack()) for _ in range(KILLS + 1)]
        now = each[-1].enter_context(running(name, tmp_path / "server"))
        proxy = servers.enter_context(TcpProxy(now.host, now.port))
        world = servers.enter_context(opened(unique, tmp_path, now, kafka, registry_url))
        world.declare(port=proxy.port)
        world.run("run", "--snapshot")
        capture = world.start("run")
        with TableWriters(world, 4):
            for at in reversed(range(KILLS)):
                goes_on(world)
                os.kill(now.process.pid, signal.SIGKILL)
                each[at + 1].close()
                time.sleep(1)
                assert capture.poll() is None
                now = each[at].enter_context(running(name, tmp_path / "server"))
                proxy.target = (now.host, now.port)
                world.move(now)
            goes_on(world)
        world.is_whole()
        assert len(world.changes()) > 100
        world.stop(capture)


# MySQL 5.6 lets replicas of one id be, as long as they name no UUID: there is nothing to end for.
@pytest.mark.parametrize("name", ["mariadb-10.2", "mysql-9.7"])
def test_another_replica_with_its_server_id_ends_capture_and_costs_nothing(
    name: str, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    require_here(name)
    with (
        running(name, tmp_path / "server") as made,
        opened(unique, tmp_path, made, kafka, registry_url) as world,
    ):
        ends_where_another_has_its_id(world)
