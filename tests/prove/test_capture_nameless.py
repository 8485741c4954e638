"""Servers whose table maps name no columns: an ALTER that the log alone does not show spoils nothing for good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import CaptureHarness, opened

__all__ = ["server"]

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(params=["mariadb-10.2", "mysql-5.6"])
def world(
    request: pytest.FixtureRequest, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, server(request.param), kafka, registry_url) as made:
        yield made


def test_columns_that_changed_places_while_capture_was_away_end_in_their_own(world: CaptureHarness) -> None:
    n = world.name
    world.sql(f"CREATE TABLE {n}.c (id int PRIMARY KEY, x int, y int)", f"INSERT INTO {n}.c VALUES (1, 10, 20)")
    world.run("run", "--snapshot")
    world.sql(
        f"INSERT INTO {n}.c VALUES (2, 11, 21)",
        f"UPDATE {n}.c SET y = 22 WHERE id = 1",
        "DO SLEEP(2)",
        f"ALTER TABLE {n}.c MODIFY y int AFTER id",
        f"INSERT INTO {n}.c (id, x, y) VALUES (3, 12, 23)",
    )
    capture = world.start("run")
    world.wait_until_complete(60)
    assert world.truth("c") == {1: (1, 22, 10), 2: (2, 21, 11), 3: (3, 23, 12)}
    assert world.copy("c") == world.truth("c")
    world.stop(capture)
