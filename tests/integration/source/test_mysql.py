"""Capture of MySQL with GTIDs, in brief; `make prove-capture` runs every server for longer."""

from __future__ import annotations

import time
from pathlib import Path

from include.log.registry.confluent import ConfluentRegistry
from include.log.topics import change
from include.record.codec import Decoder
from tests.integration.source.queries import texts_leave_only_when_asked_for
from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import opened
from tests.support.source.table_writers import TableWriters

__all__ = ["server"]


def test_a_killed_capture_of_mysql_loses_and_doubles_nothing(
    server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    with opened(unique, tmp_path, server("mysql-9.7"), kafka, registry_url) as world:
        with TableWriters(world):
            time.sleep(0.3)
            world.run("run", "--snapshot")
            capture = world.start("run")
            world.wait(lambda: world.sequence() > 5)
            # From here on the server is asked by sets of GTIDs with a tag.
            world.sql("SET gtid_next = 'AUTOMATIC:billing'", f"INSERT INTO {unique}.b VALUES (9001, 1, 'tagged')")
            world.wait(lambda: ":billing:1" in world.status()["gtids"])
            world.kill(capture)
            world.sql("FLUSH BINARY LOGS")
            capture = world.start("run")
            before = world.sequence()
            world.wait(lambda: world.sequence() > before + 3)
        world.is_whole()
        assert len(world.changes()) > 20
        world.stop(capture)


def test_a_key_that_mysql_made_is_the_table_s_key_also_where_the_server_hides_it(
    server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    hide = "SET GLOBAL show_gipk_in_create_table_and_information_schema = "
    with opened(unique, tmp_path, server("mysql-9.7"), kafka, registry_url) as world:
        world.sql(
            hide + "OFF",
            "SET sql_generate_invisible_primary_key = ON",
            f"CREATE TABLE {unique}.hidden (a int)",
            f"INSERT INTO {unique}.hidden VALUES (7)",
        )
        try:
            world.run("run", "--snapshot")
            capture = world.start("run")
            world.sql(f"INSERT INTO {unique}.hidden VALUES (8)", f"UPDATE {unique}.hidden SET a = 9 WHERE a = 7")
            world.wait_until_complete()
        finally:
            world.sql(hide + "ON")
        assert not world.status()["aside"]
        world.stop(capture)
        decode = Decoder(ConfluentRegistry(registry_url).schema)
        rows = {
            decode(record.key)["my_row_id"]: decode(record.value)["after"]["a"]
            for record in world.records(change(unique, unique, "hidden"))
            if record.value is not None
        }
        assert rows == {1: 9, 2: 8}


def test_statements_that_mysql_sends_unasked_leave_only_where_the_source_says_so(
    server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    with opened(unique, tmp_path, server("mysql-9.7"), kafka, registry_url) as world:
        texts_leave_only_when_asked_for(world, "SET binlog_rows_query_log_events = ON")
