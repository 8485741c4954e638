"""Capture of every server that it is for: killed and started again while others write, and nothing lost or doubled."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import SERVERS
from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import CaptureHarness, opened
from tests.support.source.table_writers import TableWriters

__all__ = ["server"]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=[row.name for row in SERVERS])
def world(
    request: pytest.FixtureRequest, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, server(request.param), kafka, registry_url) as made:
        yield made


def test_kills_while_rows_are_written_lose_and_double_nothing(world: CaptureHarness) -> None:
    chance = random.Random(7)
    with TableWriters(world, 4):
        time.sleep(0.5)
        world.run("run", "--snapshot")
        for _ in range(4):
            capture = world.start("run")
            before = world.sequence()
            world.wait(lambda s=before: world.sequence() > s + 3)  # type: ignore[misc]
            time.sleep(chance.random())
            world.sql("FLUSH BINARY LOGS")
            world.kill(capture)
        capture = world.start("run")
        world.run("request-snapshot", "--tables", "a", "--id", "again", "--wait", "--timeout", "40")
    world.is_whole()
    assert len(world.changes()) > 50
    world.stop(capture)
    assert world.status()["uncovered"] == []
