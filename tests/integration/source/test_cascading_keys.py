"""A foreign key that comes while capture runs, and changes rows of which the binlog has no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import opened

__all__ = ["server"]


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-5.6"])
def test_a_key_that_cascades_without_a_trace_makes_its_table_incomplete_at_once(
    name: str, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    with opened(unique, tmp_path, server(name), kafka, registry_url) as world:
        world.run("run", "--snapshot")
        world.start("run")
        before = world.sequence()
        world.wait(lambda: world.sequence() > before + 2)
        world.sql("ALTER TABLE a ADD plain int", "INSERT INTO a VALUES (1, 1, 'x', 1, NULL, NULL)")
        world.wait(lambda: 1 in world.copy("a"))
        assert world.status()["uncovered"] == []
        # The connection that asks about tables is gone too: it is made anew.
        ids = "SELECT id FROM information_schema.processlist WHERE user = %s AND command = 'Sleep'"
        for (thread,) in world.ask(ids, unique):
            world.sql(f"KILL {thread}")
        world.sql("ALTER TABLE a ADD FOREIGN KEY (plain) REFERENCES a (id) ON DELETE SET NULL")
        world.wait(lambda: world.status()["uncovered"] == [f"{unique}.a"])
        # Incidents come from the progress file, which is written twice a second at most.
        world.wait(lambda: [each["kind"] for each in world.status()["incidents"]] == ["orphans"])
