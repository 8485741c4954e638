"""Servers whose binlog was reset: what they number anew is not taken for what capture waits for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import opened

pytestmark = pytest.mark.timeout(240)
__all__ = ["server"]


@pytest.mark.parametrize(
    ("product", "reset"), [("mariadb-11.4", "RESET MASTER"), ("mysql-9.7", "RESET BINARY LOGS AND GTIDS")]
)
def test_a_server_that_was_reset_is_refused_at_once_and_read_anew(
    server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str, product: str, reset: str
) -> None:
    with opened(unique, tmp_path, server(product), kafka, registry_url) as world:
        n = world.name
        world.sql(f"INSERT INTO {n}.a VALUES (1, 1, 'before', 1, NULL)")
        # Capture's place is so far in its file that the new one has fewer bytes at first, then one event across it.
        world.sql(f"INSERT INTO {n}.b VALUES (1, 1, REPEAT('x', 60000))")
        world.run("run", "--snapshot")
        capture = world.start("run")
        world.sql(*(f"INSERT INTO {n}.a VALUES ({i}, 1, 'live', 1, NULL)" for i in range(2, 9)))
        world.wait_until_complete()
        world.stop(capture)
        # Of the new file's begin the server tells the second, which the last commit must not share.
        time.sleep(1)
        world.sql(reset, f"DELETE FROM {n}.a WHERE id = 1", f"INSERT INTO {n}.a VALUES (9, 1, 'anew', 1, NULL)")
        # A replica that is behind would be waited for, five minutes long.
        assert "lost transactions of its own" in world.run("run", code=1)[1]
        # Its numbers pass capture's, by which nothing would be missing, and then its file capture's place.
        world.sql(*(f"UPDATE {n}.a SET n = {i} WHERE id = 9" for i in range(60)))
        assert "has numbered other transactions alike" in world.run("run", code=1)[1]
        world.sql(f"INSERT INTO {n}.b VALUES (2, 1, REPEAT('y', 60000))")
        assert "has numbered other transactions alike" in world.run("run", code=1)[1]
        world.run("run", "--snapshot", "--anew")
        assert {table: world.copy(table) for table in "ab"} == {table: world.truth(table) for table in "ab"}
