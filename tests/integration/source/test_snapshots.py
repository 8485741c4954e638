"""Snapshots beside writers: killed and gone on with, of every kind of key, by condition; tables altered meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source.busy_tables import BusyTables
from tests.support.source.capture_harness import CaptureHarness, Database, opened

pytestmark = pytest.mark.timeout(180)
__all__ = ["world"]


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Database, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as made:
        yield made


def test_a_snapshot_under_writers_that_is_killed_ends_as_the_tables(world: CaptureHarness) -> None:
    world.declare(snapshot_chunk_rows=150, snapshot_rows_per_s=2500)
    with BusyTables(world, 1500) as busy:
        for rows in (500, 1200):
            capture = world.start("run", "--snapshot")
            world.wait(lambda n=rows: world.rows_read("numbers") + world.rows_read("texts") > n)  # type: ignore[misc]
            world.kill(capture)
            world.running.remove(capture)
        world.run("run", "--snapshot")
        capture = world.start("run")
        out, _ = world.run(
            "snapshot", "--tables", "texts,heap", "--rows-per-s", "0", "--wait", "--timeout", "60", "--json"
        )
        assert json.loads(out)["rows"] > 1000
    world.wait_until_complete()
    assert busy.is_copied() > 5000
    world.stop(capture)


def test_rows_are_chosen_by_a_condition(world: CaptureHarness) -> None:
    n = world.name
    world.sql(f"INSERT INTO {n}.a VALUES (1, 1, 'x', 1, NULL), (2, 2, 'y', 1, NULL), (3, 2, 'z', 1, NULL)")
    world.run("run", "--snapshot")
    world.start("run")
    before = world.rows_read()
    world.run("snapshot", "--tables", "a", "--where", "part = 2 OR part = 7", "--wait", "--timeout", "40")
    assert world.rows_read() == before + 2
    assert "no_such" in world.run("snapshot", "--tables", "a", "--where", "no_such = 2", "--wait", code=1)[1]
    assert world.status()["aside"] == []
    assert world.copy("a") == world.truth("a")


def test_a_table_emptied_altered_or_swapped_while_it_is_read_ends_as_it_is(world: CaptureHarness) -> None:
    n = world.name
    world.declare(snapshot_chunk_rows=100, snapshot_rows_per_s=1500, snapshot_workers=2)
    rows = ", ".join(f"({i}, {i % 5}, 'v', 1, NULL)" for i in range(1, 3001))
    world.sql(
        f"INSERT INTO {n}.a VALUES {rows}", f"CREATE TABLE {n}.c LIKE {n}.a", f"INSERT INTO {n}.c SELECT * FROM {n}.a"
    )
    capture = world.start("run", "--snapshot")
    world.wait(lambda: world.rows_read("a") > 300)
    world.sql(
        f"TRUNCATE {n}.a",
        f"INSERT INTO {n}.a VALUES (7, 1, 'after', 1, NULL)",
        f"ALTER TABLE {n}.a ADD more int NOT NULL DEFAULT 3",
        f"CREATE TABLE {n}._new LIKE {n}.c",
        f"INSERT INTO {n}._new SELECT * FROM {n}.c WHERE id < 1000",
        f"RENAME TABLE {n}.c TO {n}._old, {n}._new TO {n}.c",
        f"DROP TABLE {n}._old",
    )
    _, said = capture.communicate(timeout=60)
    assert capture.returncode == 0, said
    world.running.remove(capture)
    capture = world.start("run")
    world.wait_until_complete()
    assert {key: row[:3] for key, row in world.copy("a").items()} == {
        key: row[:3] for key, row in world.truth("a").items()
    }
    assert world.copy("c") == world.truth("c")
    world.stop(capture)


def test_the_plan_says_what_a_snapshot_would_read_and_reads_nothing(world: CaptureHarness) -> None:
    n = world.name
    world.sql(f"CREATE TABLE {n}.loose (x int)", f"INSERT INTO {n}.a VALUES (1, 1, 'x', 1, NULL)")
    found = json.loads(world.run("snapshot", "--dry-run", "--json")[0])
    tables = {each["table"]: each for each in found["tables"]}
    assert tables[f"{n}.a"]["key"] == ["id"]
    assert tables[f"{n}.loose"]["key"] == []
    assert tables[f"{n}.loose"]["chunks"] == 1
    assert found["workers"] == 4
    said = world.run("snapshot", "--dry-run")[0]
    assert "loose" in said
    assert "whole" in said
    assert world.sequence() == 0


def test_an_alter_passes_while_the_snapshot_is_throttled(world: CaptureHarness) -> None:
    n = world.name
    # Ten rows a second: a chunk takes minutes on its way, and is read at once all the same.
    world.declare(snapshot_rows_per_s=10, snapshot_workers=2)
    rows = ", ".join(f"({i}, {i % 5}, 'v', 1, NULL)" for i in range(1, 3001))
    world.sql(
        f"CREATE TABLE {n}.loose (id int, v varchar(40))",
        f"INSERT INTO {n}.a VALUES {rows}",
        f"INSERT INTO {n}.loose SELECT id, v FROM {n}.a",
    )
    capture = world.start("run", "--snapshot")
    for table in ("a", "loose"):
        world.wait(lambda of=table: world.rows_read(of) > 0)  # type: ignore[misc]
    world.sql(
        "SET SESSION lock_wait_timeout = 20",
        f"ALTER TABLE {n}.a ADD more int NOT NULL DEFAULT 3",
        f"ALTER TABLE {n}.loose ADD INDEX (id)",
    )
    world.kill(capture)
    world.running.remove(capture)
    world.declare(snapshot_rows_per_s=0)
    world.run("run", "--snapshot")
    capture = world.start("run")
    world.sql(f"DELETE FROM {n}.a WHERE id < 9")
    world.wait_until_complete()
    assert world.copy("a") == world.truth("a")
    assert world.copy("loose") == world.truth("loose")
    world.stop(capture)
