"""Rows that statements change which the server logs as text, and statements with settings of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import CaptureHarness, opened

__all__ = ["server"]

SETTINGS = "SET STATEMENT max_statement_time = 100 FOR"


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_rows_that_change_by_text_are_read_again_and_the_source_goes_on(
    name: str, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    with opened(unique, tmp_path, server(name), kafka, registry_url) as world:
        other = f"{unique}_other"
        world.sql(
            f"CREATE DATABASE {other}",
            f"CREATE TABLE {other}.heartbeat (id int PRIMARY KEY, v int)",
            f"CREATE VIEW {other}.w AS SELECT * FROM {unique}.a",
            f"CREATE TABLE {other}.history (id int PRIMARY KEY, v int)",
            f"CREATE TABLE {other}.watched (id int PRIMARY KEY)",
            "SET GLOBAL log_bin_trust_function_creators = ON",
            f"""CREATE FUNCTION {other}.put() RETURNS int NOT DETERMINISTIC MODIFIES SQL DATA
            BEGIN INSERT INTO {unique}.b (a_id, v) VALUES (5, 'by a function'); RETURN 1; END""",
            f"""CREATE TRIGGER {other}.watch AFTER INSERT ON {other}.watched FOR EACH ROW
            INSERT INTO {unique}.b (a_id, v) VALUES (6, 'by a trigger')""",
            "INSERT INTO a VALUES (1, 1, 'gone', 1, NULL), (2, 1, 'old', 1, NULL), (3, 1, 'old', 1, NULL)",
        )
        try:
            world.run("run", "--snapshot")
            capture = world.start("run")
            change_by_text(world, other)
            world.is_whole(unread=True)
            for statement in (
                f"UPDATE {other}.w SET v = 'by a view' WHERE id = 3",
                f"SELECT {other}.put()",
                f"INSERT INTO {other}.history VALUES (1, {other}.put())",
                f"INSERT INTO {other}.watched VALUES (1)",
            ):
                world.sql("SET SESSION binlog_format = STATEMENT", statement, "SET SESSION binlog_format = ROW")
                world.is_whole(unread=True)
            written = [row[2] for row in world.copy("b").values()]
            assert (written.count("by a function"), written.count("by a trigger")) == (2, 1)
            assert world.copy("a")[3][2] == "by a view"
            world.stop(capture)
        finally:
            world.sql(f"DROP DATABASE {other}")


def change_by_text(world: CaptureHarness, other: str) -> None:
    """Captured tables and others, by what needs INTVAR, RAND and USER_VAR beside it."""
    world.sql(
        "SET SESSION binlog_format = STATEMENT",
        f"REPLACE INTO {other}.heartbeat SELECT 1, 2",
        "INSERT INTO b (a_id, v) VALUES (1, 'auto'), (2, 'auto')",
        "SET @v = 'user'",
        "UPDATE a SET v = @v WHERE id = 2",
        "INSERT INTO a VALUES (10, 1, RAND(), 1, NULL)",
        "DELETE x FROM a AS x WHERE id = 1",
        "CREATE TEMPORARY TABLE hold SELECT 11 AS id",
        "INSERT INTO a SELECT id, 1, 'held', 2, NULL FROM hold",
        "DROP TEMPORARY TABLE hold",
        "SET SESSION binlog_format = ROW",
        "INSERT INTO a VALUES (12, 1, 'row', 1, NULL)",
    )


def test_rows_of_a_database_that_is_replaced_are_taken_away_downstream(
    server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    """MariaDB drops its tables, and logs this one statement."""
    with opened(unique, tmp_path, server("mariadb-11.4"), kafka, registry_url) as world:
        made = world.ask("SHOW CREATE TABLE b")[0][1]
        world.sql("INSERT INTO b (a_id, v) VALUES (1, 'one'), (2, 'two')")
        world.run("run", "--snapshot")
        capture = world.start("run")
        world.sql(f"CREATE OR REPLACE DATABASE {unique}", f"USE {unique}", made)
        world.sql("INSERT INTO b (a_id, v) VALUES (3, 'three')")
        world.wait_until_complete()
        assert world.copy("b") == world.truth("b")
        assert len(world.copy("b")) == 1
        world.stop(capture)


def test_a_truncate_with_settings_of_its_own_takes_rows_away_downstream(
    server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    with opened(unique, tmp_path, server("mariadb-11.4"), kafka, registry_url) as world:
        world.sql("INSERT INTO b (a_id, v) VALUES (1, 'one'), (2, 'two'), (3, 'three')")
        world.run("run", "--snapshot")
        capture = world.start("run")
        world.sql(f"{SETTINGS} TRUNCATE TABLE b", "INSERT INTO b (a_id, v) VALUES (4, 'four')")
        world.is_whole()
        assert len(world.copy("b")) == 1
        world.sql(f"{SETTINGS} ALTER TABLE b ADD w int DEFAULT 7", "INSERT INTO b (a_id, v) VALUES (5, 'five')")
        world.wait_until_complete()
        world.sql(f"{SETTINGS} RENAME TABLE b TO c, c TO b")
        world.sql(f"{SETTINGS} DELETE FROM b WHERE a_id = 4")
        world.is_whole()
        world.stop(capture)
