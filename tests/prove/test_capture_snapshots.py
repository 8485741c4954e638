"""Snapshots under four writers, killed again and again: the topics end as the tables, and no key steps back in time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.fixture import Give, server
from tests.support.source.busy_tables import TABLES, BusyTables
from tests.support.source.capture_harness import CaptureHarness, opened

__all__ = ["server"]

pytestmark = pytest.mark.timeout(300)

_RUNS = 20
_NEWEST = ["mariadb-11.8", "mysql-9.7"]
_OLDEST = ["mariadb-10.1", "mariadb-10.2", "mysql-5.6"]


@pytest.fixture(params=[*((name, run) for name in _NEWEST for run in range(_RUNS)), *((name, 0) for name in _OLDEST)],
                ids=lambda given: f"{given[0]}-{given[1]}")  # fmt: skip
def world(
    request: pytest.FixtureRequest, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> Iterator[tuple[CaptureHarness, int]]:
    name, run = request.param
    with opened(unique, tmp_path, server(name), kafka, registry_url) as made:
        yield made, run


def test_a_snapshot_under_writers_with_kills_is_the_table(world: tuple[CaptureHarness, int]) -> None:
    made, run = world
    chance = random.Random(run)
    made.declare(
        # Without GTIDs each chunk waits for two seconds.
        snapshot_chunk_rows=chance.choice([37, 150, 400]) if made.about.gtids else 1000,
        snapshot_rows_per_s=chance.choice([2000, 4000]),
        snapshot_workers=chance.choice([1, 4, 8]),
        group_bytes=chance.choice([20_000, 4_000_000]),
    )
    with BusyTables(made, 1500, writers=4, seed=run) as busy:
        for _ in range(3):
            capture = made.start("run", "--snapshot")
            before = _read(made)
            made.wait(lambda n=before: capture.poll() is not None or _read(made) > n + 300)  # type: ignore[misc]  # noqa: B023
            made.kill(capture)
            made.running.remove(capture)
        made.run("run", "--snapshot")
        capture = made.start("run")
        made.run("snapshot", "--tables", chance.choice(list(TABLES)), "--rows-per-s", "0", "--wait", "--timeout", "60")
    made.wait_until_complete()
    assert busy.is_copied() > 4000
    made.stop(capture)


def _read(world: CaptureHarness) -> int:
    return sum(world.rows_read(table) for table in TABLES)
