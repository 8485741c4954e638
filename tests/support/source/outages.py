"""Outages of what capture needs beside its server, under writers: it waits, says so, goes on, and the log is whole."""

from __future__ import annotations

import resource
import subprocess
import time
from typing import Any

import psutil
from pydantic import SecretStr

from include.source.database.connection import dump
from include.source.definition import SourceDefinition
from tests.support.faults.tcp_proxy import TcpProxy
from tests.support.log.broker import Broker
from tests.support.source.capture_harness import CaptureHarness
from tests.support.source.table_writers import TableWriters

__all__ = [
    "ends_where_another_has_its_id",
    "goes_on",
    "outlives_a_full_disk",
    "outlives_kafka",
    "outlives_the_registry",
]

# More than what capture may take while it waits.
_MORE_MB = 40


def goes_on(world: CaptureHarness, seconds: float = 60) -> None:
    before = world.sequence()
    world.wait(lambda: world.sequence() > before + 3, seconds)


def waits_for(world: CaptureHarness, what: str, capture: subprocess.Popen[str]) -> dict[str, Any]:
    """Until status says that capture waits for `what`; returns what it says."""
    said: dict[str, Any] = {}

    def told() -> bool:
        nonlocal said
        said = world.status()
        return (said["state"]["name"], said["state"]["awaits"]) == ("waits", what)

    world.wait(told)
    assert capture.poll() is None
    assert "goes on by itself" in said["state"]["text"]
    return said


def outlives_kafka(world: CaptureHarness, kafka: Broker, *seconds: float) -> None:
    """The broker dies while others write, and comes back on its data after so long; again and again."""
    world.run("run", "--snapshot")
    capture = world.start("run")
    with TableWriters(world):
        for each in seconds:
            goes_on(world)
            before_mb = psutil.Process(capture.pid).memory_info().rss >> 20
            kafka.kill()
            until_s = time.monotonic() + each
            said = waits_for(world, "kafka", capture)
            assert "Kafka" in said["state"]["text"]
            assert "Kafka does not answer" in said["log"]
            assert said["gtids"]
            assert said["lag_bytes"] > 0
            time.sleep(max(0.0, until_s - time.monotonic()))
            assert capture.poll() is None
            assert psutil.Process(capture.pid).memory_info().rss >> 20 < before_mb + _MORE_MB
            kafka.start()
        goes_on(world)
    world.is_whole()
    assert world.status()["state"]["name"] == "follows"
    world.stop(capture)


def outlives_the_registry(world: CaptureHarness, registry: TcpProxy) -> None:
    """Schemas cannot be registered: at the start, and when a table is made and altered."""
    n, there = world.name, registry.target

    def down() -> None:
        # Nothing listens on this port.
        registry.target = ("127.0.0.1", 1)
        registry.reset()

    world.sql(f"INSERT INTO {n}.a VALUES (1, 1, 'x', 1, NULL)", f"INSERT INTO {n}.b VALUES (1, 1, 'y')")
    down()
    first = world.start("run", "--snapshot")
    waits_for(world, "registry", first)
    registry.target = there
    assert first.wait(60) == 0
    capture = world.start("run")
    with TableWriters(world):
        goes_on(world)
        down()
        world.sql(
            f"CREATE TABLE {n}.fresh (id int PRIMARY KEY, w double)",
            f"INSERT INTO {n}.fresh VALUES (1, 0.1)",
            f"ALTER TABLE {n}.fresh ADD more int NOT NULL DEFAULT 7",
            f"INSERT INTO {n}.fresh VALUES (2, 0.2, 8)",
        )
        world.more = ["fresh"]
        said = waits_for(world, "registry", capture)
        assert "the schema registry does not answer" in said["state"]["text"]
        registry.target = there
        goes_on(world)
    world.is_whole()
    assert {key: row[:2] for key, row in world.copy("fresh").items()} == {1: (1, 0.1), 2: (2, 0.2)}
    world.stop(capture)


def outlives_a_full_disk(world: CaptureHarness) -> None:
    """A transaction that waits on disk meets a limit there, which is raised while capture waits."""
    world.declare(memory_bytes=20_000, spill_folder=str(world.folder))
    world.run("run", "--snapshot")
    capture = world.start("run")
    with TableWriters(world):
        goes_on(world)
        _, most = resource.prlimit(capture.pid, resource.RLIMIT_FSIZE)
        # The kernel refuses a file's bytes beyond this, as it refuses those beyond the disk's end.
        resource.prlimit(capture.pid, resource.RLIMIT_FSIZE, (500_000, most))
        values = ", ".join(f"({id_}, '{'x' * 2000}')" for id_ in range(1500))
        world.sql(f"INSERT INTO {world.name}.b (a_id, v) VALUES {values}")
        said = waits_for(world, "disk", capture)
        assert "waits for room on disk" in said["state"]["text"]
        assert f"folder='{world.folder}'" in said["state"]["text"]
        resource.prlimit(capture.pid, resource.RLIMIT_FSIZE, (most, most))
        goes_on(world, 90)
    world.is_whole()
    assert not list(world.folder.glob("lyrebird-spill-*"))
    world.stop(capture)


def ends_where_another_has_its_id(world: CaptureHarness) -> None:
    """A replica of somebody else's asks for the binlog under capture's own server id."""
    world.run("run", "--snapshot")
    capture = world.start("run")
    source = SourceDefinition(
        host=world.server.host,
        port=world.server.port,
        user=world.name,
        password=SecretStr(world.password),
        databases=[world.name],
    )
    with TableWriters(world):
        goes_on(world)
        stranger = dump(source, source.replica_id(world.name), world.end())
        try:
            said = capture.communicate(timeout=60)[1]
        finally:
            stranger.close()
        world.running.remove(capture)
        assert capture.returncode == 3, said
        assert "another replica uses its server id" in said.splitlines()[-1]
        assert "declare another `server_id`" in said.splitlines()[-1]
        state = world.status()["state"]
        assert state["name"] == "stopped"
        assert "another replica uses its server id" in state["text"]
        capture = world.start("run")
        goes_on(world)
    world.is_whole()
    world.stop(capture)
