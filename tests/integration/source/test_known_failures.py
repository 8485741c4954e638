"""Failures of other capture tools that only a real server shows: statements as logged, and what follows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.log.registry.confluent import ConfluentRegistry
from include.log.topics import change
from include.record.codec import Decoder
from tests.support.servers import running
from tests.support.servers.fixture import require_here
from tests.support.source.capture_harness import CaptureHarness, opened


@pytest.fixture
def small_letters(unique: str, tmp_path: Path, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    """A server that keeps names of tables in small letters."""
    require_here("mariadb-11.4")
    with (
        running("mariadb-11.4", tmp_path / "server", options=("--lower-case-table-names=1",)) as server,
        opened(unique, tmp_path, server, kafka, registry_url) as made,
    ):
        yield made


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as made:
        yield made


def test_a_table_that_somebody_locks_holds_back_neither_stream_nor_other_tables(world: CaptureHarness) -> None:
    """dbz#2105 #2275 #2204, DBZ-8273: a snapshot that waits for a table, and all of capture with it."""
    world.sql(
        f"INSERT INTO {world.name}.a VALUES (1, 1, 'old', 1, NULL)",
        f"INSERT INTO {world.name}.b VALUES (1, 1, 'old')",
    )
    world.run("run", "--snapshot")
    capture = world.start("run")
    with world.server.connect(database=world.name) as other, other.cursor() as locker:
        locker.execute("LOCK TABLES b WRITE")
        world.run("snapshot", "--tables", "b,a")
        world.sql(f"INSERT INTO {world.name}.a VALUES (2, 1, 'new', 1, NULL)")
        world.wait(lambda: 2 in world.copy("a"))
        world.wait(lambda: len(read_rows(world, "a")) >= 3)
        assert len(read_rows(world, "b")) == 1
        locker.execute("UNLOCK TABLES")
    world.wait(lambda: len(read_rows(world, "b")) == 2)
    world.is_whole()
    world.stop(capture)


def test_a_snapshot_gives_rows_what_an_alter_gave_them_without_logging_it(world: CaptureHarness) -> None:
    """Debezium, Maxwell: rows of before an ALTER lack the default of a new column for ever."""
    world.sql(f"INSERT INTO {world.name}.b VALUES (1, 1, 'old')")
    world.run("run", "--snapshot")
    capture = world.start("run")
    world.sql(
        f"ALTER TABLE {world.name}.b ADD c int NOT NULL DEFAULT 5, MODIFY a_id varchar(9)",
        f"INSERT INTO {world.name}.b VALUES (2, '2', 'new', 6)",
    )
    world.wait(lambda: 2 in world.copy("b"))
    assert world.copy("b") == {1: (1, 1, "old"), 2: (2, "2", "new", 6)}
    world.run("snapshot", "--tables", "b", "--wait", "--timeout", "60")
    assert world.copy("b") == world.truth("b") == {1: (1, "1", "old", 5), 2: (2, "2", "new", 6)}
    world.stop(capture)


def read_rows(world: CaptureHarness, table: str) -> list[Any]:
    """Records of rows that snapshots read."""
    decode = Decoder(ConfluentRegistry(world.registry).schema)
    found = [decode(record.value) for record in world.records(change(world.name, world.name, table)) if record.value]
    return [each for each in found if each["op"] == "r"]


def test_a_truncate_in_other_letters_empties_the_copy(small_letters: CaptureHarness) -> None:
    """A statement is logged as it was written, while table maps name the table in the server's own letters."""
    world = small_letters
    world.sql(f"INSERT INTO {world.name}.a VALUES (1, 1, 'old', 1, NULL)")
    world.run("run", "--snapshot")
    capture = world.start("run")
    world.sql(
        f"USE {world.name.upper()}",
        "TRUNCATE TABLE A",
        "INSERT INTO A VALUES (2, 1, 'new', 1, NULL)",
        "RENAME TABLE B TO Other",
        "CREATE TABLE B LIKE OTHER",
        "INSERT INTO b VALUES (7, 1, 'x')",
    )
    world.wait(lambda: set(world.copy("b")) == {7})
    assert set(world.copy("a")) == {2}
    world.is_whole()
    world.stop(capture)
