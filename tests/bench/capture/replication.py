"""`make bench-capture`, second part: a running capture, from the server's binlog to committed records in Kafka.

Throughput: a backlog of row changes, CPU time of the capture process alone. Latency: a writer at a fixed rate of rows;
a reader of committed records notes when each transaction's last row can be seen, against the moment its COMMIT
returned.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from include.local.stack import Stack
from include.log.topics import change
from tests.bench.capture.binlog_table import CREATE, DATABASE, fill
from tests.support.servers import running
from tests.support.servers.addresses import registry_url
from tests.support.source.capture_harness import CaptureHarness

__all__ = ["main"]

_ROWS_A_TRANSACTION = 100
_PATIENCE_S = 120.0
_REACHED = 0.95


def main() -> int:
    """Run both parts, tell; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000, help="row changes of the backlog")
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second while latency is measured")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(state=Path(folder) / "stack", free_ports=True, kafka_login=False)
        env = stack.up(["kafka", "registry"])
        try:
            (Path(folder) / "db").mkdir()
            (Path(folder) / "world").mkdir()
            with running("mariadb-11.4", Path(folder) / "db") as server:
                world = CaptureHarness(
                    DATABASE, Path(folder) / "world", server, env["LYREBIRD_KAFKA"], registry_url(env)
                )
                world.declare(group_ms=50, partition_by={})
                world.sql(CREATE, "SET GLOBAL sync_binlog = 0, innodb_flush_log_at_trx_commit = 0")
                world.run("run", "--snapshot")
                found = _throughput(world, arguments.rows) | _latency(world, env["LYREBIRD_KAFKA"], arguments)
        finally:
            stack.down()
    return _tell(found, arguments.rate, arguments.json)


def _throughput(world: CaptureHarness, rows: int) -> dict[str, Any]:
    idle = _until_caught_up(world)
    with world.server.connect() as connection:
        fill(connection, rows)
    busy = _until_caught_up(world)
    return {
        "rows": rows,
        "rows_a_cpu_second": round(rows / (busy["cpu_s"] - idle["cpu_s"])),
        "rows_a_second": round(rows / (busy["wall_s"] - idle["wall_s"])),
        "rss_mb": round(busy["rss"] / 2**20),
    }


def _until_caught_up(world: CaptureHarness) -> dict[str, float]:
    """CPU and wall time of a capture from its start until its position is the server's."""
    progress = world.folder / "state" / "run" / f"by-hand-capture-{world.name}" / "progress.json"
    progress.unlink(missing_ok=True)
    begun = time.monotonic()
    process = world.start("run")
    seen = psutil.Process(process.pid)
    target = world.ask("SELECT @@global.gtid_binlog_pos")[0][0]
    until = begun + _PATIENCE_S
    while True:
        time.sleep(0.05)
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise SystemExit(f"capture ended: {process.communicate()[1][-400:]}")
        spent, rss = seen.cpu_times(), seen.memory_info().rss
        if progress.exists() and json.loads(progress.read_text()).get("gtids") == target:
            break
    found = {"cpu_s": spent.user + spent.system, "wall_s": time.monotonic() - begun, "rss": float(rss)}
    world.stop(process)
    world.running.remove(process)
    return found


def _latency(world: CaptureHarness, kafka: str, arguments: argparse.Namespace) -> dict[str, Any]:
    world.sql("CREATE TABLE ticks (id bigint PRIMARY KEY, n int, v varchar(40))")
    process = world.start("run")
    committed: dict[int, float] = {}
    seen: dict[int, float] = {}
    stop = threading.Event()
    reader = threading.Thread(target=_read, args=(kafka, change(world.name, world.name, "ticks"), seen, stop))
    with world.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {world.name}.ticks VALUES (0, 0, '')")
        time.sleep(3)
        reader.start()
        every = _ROWS_A_TRANSACTION / arguments.rate
        begun = time.monotonic()
        for number in range(1, int(arguments.seconds / every) + 1):
            last = number * _ROWS_A_TRANSACTION
            rows = ", ".join(f"({i}, {i % 97}, 'lyrebird')" for i in range(last - _ROWS_A_TRANSACTION + 1, last + 1))
            cursor.execute(f"INSERT INTO {world.name}.ticks VALUES {rows}")
            committed[last] = time.monotonic()
            time.sleep(max(0.0, begun + number * every - time.monotonic()))
        wrote_s = time.monotonic() - begun
    until = time.monotonic() + 60
    while len(seen) < len(committed) and time.monotonic() < until:
        time.sleep(0.1)
    stop.set()
    reader.join()
    world.stop(process)
    world.running.remove(process)
    if len(seen) < len(committed):
        raise SystemExit(f"{len(committed) - len(seen)} of {len(committed)} transactions were not seen")
    lags = sorted(seen[last] - at for last, at in committed.items())
    return {
        "latency_rows_a_second": round(len(committed) * _ROWS_A_TRANSACTION / wrote_s),
        "p50_ms": round(1000 * lags[len(lags) // 2], 1),
        "p99_ms": round(1000 * lags[int(len(lags) * 0.99)], 1),
    }


def _read(kafka: str, topic: str, seen: dict[int, float], stop: threading.Event) -> None:
    """Notes when each transaction's last row can be seen by a reader of committed records; keys alone are looked at."""
    from confluent_kafka import Consumer, TopicPartition

    consumer: Any = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    while not stop.is_set():
        for message in consumer.consume(5000, 0.01):
            if message.error() is None:
                number = _unzigzag(message.key()[5:])
                if number and number % _ROWS_A_TRANSACTION == 0:
                    seen.setdefault(number, time.monotonic())
    consumer.close()


def _unzigzag(data: bytes) -> int:
    z = 0
    for i, byte in enumerate(data):
        z |= (byte & 0x7F) << (7 * i)
    return (z >> 1) ^ -(z & 1)


def _tell(found: dict[str, Any], rate: int, as_json: bool) -> int:
    # Latency at a lower rate than was asked for would say nothing.
    bounds = [
        ("rows_a_cpu_second", found["rows_a_cpu_second"] >= 100_000),
        ("latency_rows_a_second", found["latency_rows_a_second"] >= _REACHED * rate),
        ("p99_ms", found["p99_ms"] < 250),
    ]
    missed = [name for name, held in bounds if not held]
    if as_json:
        print(json.dumps({**found, "missed": missed}))
        return 1 if missed else 0
    print(
        f"binlog to Kafka, committed: {found['rows_a_cpu_second']:,} rows a CPU second of capture "
        f"({found['rows_a_second']:,} a second, {found['rss_mb']} MB), wanted 100,000\n"
        f"COMMIT to visible at {found['latency_rows_a_second']:,} of {rate:,} rows a second: p50 {found['p50_ms']} ms, "
        f"p99 {found['p99_ms']} ms, wanted below 250{f': MISSED {missed}' if missed else ''}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
