"""Failover by GTID between two MariaDB servers: the second is a replica that is promoted when the first dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.servers.fixture import require_here
from tests.support.source.capture_harness import CaptureHarness, opened
from tests.support.source.replica_pair import ReplicaPair, ask, takes_over

NAME = "mariadb-11.4"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[ReplicaPair]:
    require_here(NAME)
    with ExitStack() as stack:
        made = ReplicaPair(NAME, tmp_path / "servers", stack)
        made.replicate()
        yield made


@pytest.fixture
def world(pair: ReplicaPair, unique: str, tmp_path: Path, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, pair.first, kafka, registry_url) as made:
        made.declare(fallbacks=[f"127.0.0.1:{pair.second.port}"])
        yield made


def test_a_promoted_replica_takes_over_once_it_has_what_was_captured(world: CaptureHarness, pair: ReplicaPair) -> None:
    takes_over(world, pair)
    last = world.resolved().newest
    assert last is not None
    assert "-2-" in str(last.position.gtids)


def test_a_server_that_has_lost_what_was_captured_is_refused_in_the_end(
    world: CaptureHarness, pair: ReplicaPair
) -> None:
    world.run("run", "--snapshot")
    capture = world.start("run")
    pair.applied(pair.end())
    pair.cut()
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
