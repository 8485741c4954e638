"""What stops a capture for good: one line, why and what next in status, and on it goes once it is mended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.source.capture_harness import CaptureHarness, opened


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as made:
        made.run("run", "--snapshot")
        yield made


def stopped(world: CaptureHarness, why: str) -> dict[str, Any]:
    """The incident that the capture leaves, once it has ended with one line that says why."""
    capture = world.running.pop()
    said = capture.communicate(timeout=60)[1]
    assert capture.returncode == 1
    assert [line for line in said.splitlines() if line.startswith("error: ")] == [said.splitlines()[-1]]
    assert why in said.splitlines()[-1]
    status = world.status()
    assert not status["running"]
    (incident,) = [each for each in status["incidents"] if each["kind"] == "stopped"]
    assert why in incident["text"]
    return dict(incident)


def test_a_row_that_cannot_be_read_stops_a_source_that_asks_for_that(world: CaptureHarness) -> None:
    world.declare(unreadable="source")
    world.start("run")
    before = world.sequence()
    world.wait(lambda: world.sequence() > before + 2)
    world.sql(
        f"INSERT INTO {world.name}.a VALUES (1, 1, 'x', 1, NULL)",
        "SET SESSION binlog_row_image = MINIMAL",
        f"UPDATE {world.name}.a SET v = 'y' WHERE id = 1",
        "SET SESSION binlog_row_image = FULL",
    )
    incident = stopped(world, "a row image lacks a column")
    assert incident["fix"] == f"lyrebird capture check --source {world.name}"
    world.declare(unreadable="table")
    world.start("run")
    world.wait(lambda: [each["table"] for each in world.status()["aside"]] == [f"{world.name}.a"])
    world.run("resume-table", "a", "--wait")
    world.is_whole(unread=True)


def test_a_lost_privilege_stops_capture_until_it_is_granted_again(world: CaptureHarness) -> None:
    world.start("run")
    before = world.sequence()
    world.wait(lambda: world.sequence() > before + 2)
    world.sql(f"REVOKE REPLICATION SLAVE ON *.* FROM {world.name}@'%'")
    for (thread,) in world.ask(
        "SELECT id FROM information_schema.processlist WHERE user = %s AND command LIKE 'Binlog%%'", world.name
    ):
        world.sql(f"KILL {thread}")
    incident = stopped(world, "REPLICATION SLAVE")
    assert f"--source {world.name}" in incident["fix"]
    world.sql(
        f"GRANT REPLICATION SLAVE ON *.* TO {world.name}@'%'", f"INSERT INTO {world.name}.a VALUES (2, 1, 'z', 1, NULL)"
    )
    world.start("run")
    world.is_whole()
