"""Failures of other capture tools that only a real server shows: statements as logged, and what follows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.source.world import World, opened
from tests.servers import running
from tests.servers.fixture import require_here


@pytest.fixture
def small_letters(unique: str, tmp_path: Path, kafka: str, registry_url: str) -> Iterator[World]:
    """A server that keeps names of tables in small letters."""
    require_here("mariadb-11.4")
    with (
        running("mariadb-11.4", tmp_path / "server", options=("--lower-case-table-names=1",)) as server,
        opened(unique, tmp_path, server, kafka, registry_url) as made,
    ):
        yield made


def test_a_truncate_in_other_letters_empties_the_copy(small_letters: World) -> None:
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
