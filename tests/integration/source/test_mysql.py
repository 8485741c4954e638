"""Capture of MySQL with GTIDs, in brief; `make prove-capture` runs every server for longer."""

from __future__ import annotations

import time
from pathlib import Path

from tests.integration.source.queries import texts_leave_only_when_asked_for
from tests.integration.source.world import opened
from tests.integration.source.writers import Writers
from tests.servers.fixture import Give, server

__all__ = ["server"]


def test_a_killed_capture_of_mysql_loses_and_doubles_nothing(
    server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    with opened(unique, tmp_path, server("mysql-9.7"), kafka, registry_url) as world:
        with Writers(world):
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


def test_statements_that_mysql_sends_unasked_leave_only_where_the_source_says_so(
    server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    with opened(unique, tmp_path, server("mysql-9.7"), kafka, registry_url) as world:
        texts_leave_only_when_asked_for(world, "SET binlog_rows_query_log_events = ON")
