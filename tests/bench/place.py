"""Where benches of a running capture take place: one MariaDB, one Kafka, and on which cores each of them runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from include.local.services import Service
from include.local.site import Site
from include.local.stack import Stack
from tests.bench.binlog_table import CREATE, DATABASE, fill_table
from tests.support.servers import Server, running
from tests.support.servers.addresses import registry_url
from tests.support.source.capture_harness import CaptureHarness, opened

__all__ = ["Place", "add_rows", "add_table", "halves", "on_cores", "placed", "served"]

_SEED_ROWS = 20_000
_HEAP_MB = 1024


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
def on_cores(cores: frozenset[int]) -> Iterator[None]:
    """Processes that are started in here run on these cores, and so does this one meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def halves(apart: bool) -> tuple[frozenset[int], frozenset[int]]:
    """Cores of the one side and of the other; all of them for both unless they are to be `apart`, or there is one."""
    every = sorted(os.sched_getaffinity(0))
    half = (len(every) + 1) // 2
    first = frozenset(every[:half] if apart else every)
    return first, frozenset(every[half:] if apart else every) or first


@contextmanager
def served(
    services: Sequence[str],
    state: Path,
    cores: frozenset[int],
    heap_mb: int = _HEAP_MB,
    within: AbstractContextManager[None] | None = None,
) -> Iterator[dict[str, str]]:
    """The services' addresses, while they run on these cores. `within` is open while they are started."""
    stack = Stack(state=state, free_ports=True, kafka_login=False)
    large = _large(Site.server_environment, heap_mb)
    with within or nullcontext(), on_cores(cores), patch.object(Site, "server_environment", large):
        env = stack.up(services)
    try:
        yield env
    finally:
        stack.down()


def _large(environment: Callable[..., dict[str, str]], heap_mb: int) -> Callable[..., dict[str, str]]:
    # Servers of the one-machine stack spare memory and compile little; these are set up as where they have a host.
    options = f"-Xms{heap_mb}m -Xmx{heap_mb}m -XX:TieredStopAtLevel=4"

    def large(site: Site, row: Service, **more: str) -> dict[str, str]:
        # Elasticsearch's launcher takes away the first and has its own.
        return environment(site, row, **(more | {"_JAVA_OPTIONS": options, "ES_JAVA_OPTS": options}))

    return large


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
