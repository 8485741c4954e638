"""Tables that only some servers have, or log in their own way: in memory, system-versioned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers import running
from tests.support.servers.fixture import Give, require_here, server
from tests.support.source.capture_harness import CaptureHarness, opened

__all__ = ["server"]

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("name", ["mysql-5.6", "mariadb-10.2", "mariadb-11.4", "mysql-9.7"])
def test_a_table_in_memory_is_as_empty_as_a_restart_left_it(
    name: str, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    require_here(name)
    folder = tmp_path / "capture"
    folder.mkdir()
    with running(name, tmp_path / "server") as before:
        world = CaptureHarness(unique, folder, before, kafka, registry_url)
        world.sql(
            f"CREATE TABLE {unique}.m (id int PRIMARY KEY, v varchar(9)) ENGINE=MEMORY",
            f"INSERT INTO {unique}.m VALUES (1, 'x'), (2, 'y')",
            f"INSERT INTO {unique}.b VALUES (1, 1, 'x')",
        )
        world.run("run", "--snapshot")
        assert set(world.copy("m")) == {1, 2}
    with running(name, tmp_path / "server") as after:
        world.move(after)
        world.declare(port=after.port)
        capture = world.start("run")
        assert world.truth("m") == {}
        world.sql(f"INSERT INTO {unique}.m VALUES (3, 'new')", f"INSERT INTO {unique}.b VALUES (2, 1, 'y')")
        world.wait_until_complete()
        assert world.copy("m") == world.truth("m") == {3: (3, "new")}
        assert world.copy("b") == world.truth("b")
        world.stop(capture)
        world.root.close()


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_rows_of_today_of_versioned_tables_survive_kills(
    name: str, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    with opened(unique, tmp_path, server(name), kafka, registry_url) as world:
        world.more = ["v"]
        world.sql(
            f"CREATE TABLE {unique}.v (id int PRIMARY KEY, t varchar(20)) WITH SYSTEM VERSIONING",
            f"INSERT INTO {unique}.v SELECT seq, 'first' FROM seq_1_to_500",
        )
        world.run("run", "--snapshot")
        for number in range(4):
            capture = world.start("run")
            before = world.sequence()
            world.sql(
                f"UPDATE {unique}.v SET t = 'changed {number}' WHERE id % 4 = {number}",
                f"DELETE FROM {unique}.v WHERE id BETWEEN {number * 20} AND {number * 20 + 9}",
                f"REPLACE INTO {unique}.v SELECT seq, 'again' FROM seq_{number * 20 + 5}_to_{number * 20 + 30}",
                f"UPDATE {unique}.v SET id = id + 1000 WHERE id BETWEEN 400 AND 404",
                f"UPDATE {unique}.v SET id = id - 1000 WHERE id > 1000",
            )
            world.wait(lambda s=before: world.sequence() > s + 1)  # type: ignore[misc]
            world.kill(capture)
        capture = world.start("run")
        world.run("request-snapshot", "--tables", "v", "--wait", "--timeout", "40")
        world.wait_until_complete()
        assert world.copy("v") == world.truth("v")
        world.stop(capture)
        versions = world.versions()
        assert versions == list(range(1, versions[-1] + 1))


@pytest.mark.parametrize("name", ["mysql-5.6", "mariadb-10.1", "mariadb-11.8", "mysql-9.7"])
def test_a_table_is_renamed_by_a_statement_whose_quotes_the_sessions_sql_mode_ends(
    name: str, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    with opened(unique, tmp_path, server(name), kafka, registry_url) as world:
        world.sql(f"INSERT INTO {unique}.b VALUES (1, 1, 'x')")
        world.run("run", "--snapshot")
        capture = world.start("run")
        world.sql(
            "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'",
            f"ALTER TABLE {unique}.b COMMENT 'c:\\', RENAME TO {unique}.moved",
            "SET SESSION sql_mode = 'ANSI_QUOTES'",
            f'INSERT INTO "{unique}"."moved" VALUES (2, 1, \'y\')',
            f'TRUNCATE "{unique}"."a"',
        )
        world.wait_until_complete()
        assert world.copy("b") == {}
        assert world.copy("moved") == world.truth("moved") == {1: (1, 1, "x"), 2: (2, 1, "y")}
        world.stop(capture)
