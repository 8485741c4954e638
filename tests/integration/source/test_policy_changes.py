"""Policies that change between runs of capture: what is missing is named, and read when it passes, or on request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from include.log.control import ControlRecord
from include.log.topics import change, control
from tests.support.source.capture_harness import CaptureHarness, Database, opened

pytestmark = pytest.mark.timeout(180)
__all__ = ["world"]


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Database, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as made:
        yield made


def test_a_table_that_was_dropped_and_passes_again_is_the_table_and_was_not_covered_meanwhile(
    world: CaptureHarness,
) -> None:
    n = world.name
    world.sql(f"INSERT INTO {n}.b (id, a_id, v) VALUES (1, 1, 'stays'), (2, 1, 'changes'), (3, 1, 'goes')")
    world.run("run", "--snapshot")
    capture = world.start("run")
    world.sql(f"INSERT INTO {n}.b (id, a_id, v) VALUES (4, 1, 'live')")
    world.wait_until_complete()
    world.stop(capture)

    world.declare(filter={"b": {"policy": "drop"}})
    world.sql(f"DELETE FROM {n}.b WHERE id = 3")
    capture = world.start("run")
    world.sql(f"UPDATE {n}.b SET v = 'changed' WHERE id = 2", f"INSERT INTO {n}.b (id, a_id, v) VALUES (5, 1, 'new')")
    end = world.end()

    def covers_all_but_b() -> bool:
        last = world.resolved().newest
        return last is not None and last.position.covers(end) and last.uncovered == (f"{n}.b",)

    world.wait(covers_all_but_b)
    (left_out,) = [found for found in controls(world) if found.kind == "left_out"]
    assert (left_out.table, left_out.floor) == ("b", 0)
    assert [each["table"] for each in world.status()["left_out"]] == [f"{n}.b"]
    assert "no captured tables" in world.run("snapshot", "--tables", "b", "--wait", code=1)[1]
    world.kill(capture)
    world.running.remove(capture)

    world.declare(filter={})
    capture = world.start("run")
    world.sql(f"UPDATE {n}.b SET v = 'again' WHERE id = 5")
    world.wait_until_complete()
    assert world.copy("b") == world.truth("b")
    assert [found.table for found in controls(world) if found.kind == "gap"] == ["b"]
    assert world.status()["left_out"] == []
    world.stop(capture)


def test_rows_of_before_a_mask_are_replaced_on_request(world: CaptureHarness) -> None:
    n = world.name
    world.sql(f"INSERT INTO {n}.b (id, a_id, v) VALUES (1, 1, 'in the clear'), (2, 1, 'in the clear')")
    world.run("run", "--snapshot")
    world.declare(filter={"b": {"masks": {"v": "null"}}})
    capture = world.start("run")
    world.sql(f"UPDATE {n}.b SET a_id = 2 WHERE id = 1")
    world.wait_until_complete()
    assert sorted(row[2] or "" for row in world.copy("b").values()) == ["", "in the clear"]
    world.run("reread", "b", "--wait", "--timeout", "40")
    assert {row[:3] for row in world.copy("b").values()} == {(1, 2, None), (2, 1, None)}
    (gap,) = [found for found in controls(world) if found.kind == "gap"]
    assert gap.floor > 0
    assert world.records(change(n, n, "b"))
    assert world.status()["uncovered"] == []
    world.stop(capture)


def controls(world: CaptureHarness) -> list[ControlRecord]:
    return [ControlRecord.parse(record.value) for record in world.records(control(world.name)) if record.value]
