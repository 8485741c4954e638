"""`make bench-capture`, third part: how long capture of many tables takes from the process's start to its first commit.

All tables were captured before; while capture was away one row was written. What is timed ends when that row is
committed in Kafka, so it holds all that a start does: looking at the server, fencing, reading where the last one ended.

With `--topics` each table has its topic, as after a capture of rows. The heap of the local stack's Kafka ends at some
4,000 of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from include.clock import SystemClock
from include.local.stack import Stack
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.kafka.writer import KafkaWriter
from include.log.registry.confluent import ConfluentRegistry
from include.log.topics import change, document_spec
from include.source.log.direct_log import DirectLog, transactional_id
from include.source.log.ports import LogPorts
from include.source.ports import Group
from include.source.state.capture_state import CaptureState
from tests.support.servers import running
from tests.support.servers.addresses import registry_url
from tests.support.source.capture_harness import CaptureHarness

__all__ = ["main"]

_DATABASE = "many"
_PATIENCE_S = 120.0
_WANTED_S = 2.0
_IDLE_S = 10.0
# More tables than the server keeps open, as anywhere with so many; and creating them should not take all day.
_OPTIONS = (
    "--innodb-doublewrite=0",
    "--innodb-flush-log-at-trx-commit=0",
    "--sync-binlog=0",
    "--innodb-log-file-size=512M",
)


def main() -> int:
    """Make the tables, start some times, tell; 1 when the median start takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--topics", action="store_true", help="make the tables' topics, too: for 3,000 tables, say")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(state=Path(folder) / "stack", free_ports=True, kafka_login=False)
        env = stack.up(["kafka", "registry"])
        try:
            for name in ("db", "world"):
                (Path(folder) / name).mkdir()
            with running("mariadb-11.4", Path(folder) / "db", _OPTIONS) as server:
                world = CaptureHarness(
                    _DATABASE, Path(folder) / "world", server, env["LYREBIRD_KAFKA"], registry_url(env)
                )
                world.declare(partition_by={}, table_partitions={})
                _make(world, arguments.tables, arguments.topics)
                found = [_start(world, arguments.tables, number) for number in range(1, arguments.rounds + 1)]
        finally:
            stack.down()
    return _tell(found, arguments.tables, arguments.topics, arguments.json)


def _make(world: CaptureHarness, tables: int, with_topics: bool) -> None:
    """The tables, their topics when asked for, and the record of a capture that knows them all."""
    begun = time.monotonic()
    for number in range(tables):
        world.sql(f"CREATE TABLE t{number} (id int PRIMARY KEY, name varchar(40), price decimal(12,2), at datetime(6))")
    print(f"{tables:,} tables made in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    ports = LogPorts(
        lambda: KafkaWriter(world.kafka, transactional_id(world.name)),
        KafkaReader(world.kafka),
        KafkaAdmin(world.kafka),
        ConfluentRegistry(world.registry),
        lambda _places, _commit: None,
    )
    log = DirectLog(world.name, ports, SystemClock())
    topics = {change(world.name, world.name, table): f"{world.name}.{table}" for (table,) in world.ask("SHOW TABLES")}
    log.open()
    ids = {}
    if with_topics:
        log.ensure_all(document_spec(topic, 1) for topic in topics)
        ids = {topics[topic]: info.topic_id for topic, info in log.topics(topics).items()}
    state = CaptureState(tables=dict.fromkeys(topics.values(), 0), snapshot="done", version=1, topics=ids)
    log.commit(Group((), world.end(), state, 1, (), 0, 0))
    log.close()


def _start(world: CaptureHarness, tables: int, number: int) -> dict[str, float]:
    """Times of one start, and how much memory capture holds when it is idle."""
    world.sql(f"INSERT INTO t{number * 7 % tables} VALUES ({number}, 'one', 1.5, '2024-01-02 03:04:05')")
    target = world.ask("SELECT @@global.gtid_binlog_pos")[0][0]
    progress = world.folder / "state" / "run" / f"by-hand-capture-{world.name}" / "progress.json"
    progress.unlink(missing_ok=True)
    begun = time.monotonic()
    process = world.start("run")
    seen = psutil.Process(process.pid)
    while not progress.exists() or json.loads(progress.read_text()).get("gtids") != target:
        if process.poll() is not None or time.monotonic() > begun + _PATIENCE_S:
            process.kill()
            raise SystemExit(f"capture ended: {process.communicate()[1][-2000:]}")
        time.sleep(0.01)
    wall_s, spent = time.monotonic() - begun, seen.cpu_times()
    # By then it has looked at all tables.
    time.sleep(_IDLE_S)
    idle = seen.memory_info().rss
    world.stop(process)
    world.running.remove(process)
    return {"wall_s": wall_s, "cpu_s": spent.user + spent.system, "idle_mb": idle / 2**20}


def _tell(found: list[dict[str, float]], tables: int, with_topics: bool, as_json: bool) -> int:
    medians = {name: round(statistics.median(each[name] for each in found), 2) for name in found[0]}
    missed = medians["wall_s"] > _WANTED_S
    said: dict[str, Any] = {"tables": tables, "topics": with_topics, "starts": len(found), **medians, "missed": missed}
    what = f"{tables:,} tables and their topics" if with_topics else f"{tables:,} tables"
    text = (
        f"start with {what}: {medians['wall_s']} s to the first commit ({medians['cpu_s']} s of CPU; "
        f"{medians['idle_mb']:.0f} MB when idle), wanted {_WANTED_S:g} s"
    )
    print(json.dumps(said) if as_json else text)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
