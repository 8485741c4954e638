"""Where benches of a running capture take place: one MariaDB, one Kafka, and on which cores each of them runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.capture.binlog_table import CREATE, DATABASE, fill_table
from tests.bench.servers import halves, on_cores, served
from tests.support.servers import Server, running
from tests.support.servers.addresses import registry_url
from tests.support.source.capture_harness import CaptureHarness, opened

__all__ = ["Place", "add_rows", "add_table", "placed"]

_SEED_ROWS = 20_000


@dataclass(frozen=True)
class Place:
    """`server_cores` are those of the database and its writers, `other_cores` those of Kafka and capture."""

    world: CaptureHarness
    server: Server
    server_cores: frozenset[int]
    other_cores: frozenset[int]

    @property
    def shared(self) -> bool:
        """Whether the machine has one core only, so that nothing can be kept apart."""
        return self.server_cores == self.other_cores


@contextmanager
def placed(apart: bool, options: Sequence[str] = (), folder: str | None = None) -> Iterator[Place]:
    """A server, Kafka, registry, a source of the database `bench`. `apart`: server and others share no core."""
    first, rest = halves(apart)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        base = Path(name)
        with served(["kafka", "registry"], base / "stack", rest) as env:
            for each in ("db", "world"):
                (base / each).mkdir()
            with on_cores(first), running("mariadb-11.4", base / "db", options) as server:
                os.sched_setaffinity(0, rest)
                with opened(DATABASE, base / "world", server, env["LYREBIRD_KAFKA"], registry_url(env)) as world:
                    yield Place(world, server, first, rest)


def add_table(place: Place, table: str) -> None:
    """Make `table`, of the bench's 16 columns."""
    place.world.sql(CREATE.replace(f"{DATABASE}.mixed", f"{DATABASE}.{table}"))


def add_rows(place: Place, table: str, rows: int) -> None:
    """Fill it with that many rows, which the binlog does not see."""
    with place.server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        there = min(rows, _SEED_ROWS)
        fill_table(connection, table, there)
        columns = "user, n, state, rank_, flag, price, rate, score, ratio, made, seen, day, name, doc, raw_"
        while there < rows:
            more = min(there, rows - there)
            cursor.execute(
                f"INSERT INTO {table} SELECT id + {there}, {columns} FROM {table} WHERE id <= {more} ORDER BY id"
            )
            there += more
        cursor.execute(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {table}")
        cursor.fetchall()
