"""`make bench-capture`, snapshots: from the request to a running capture until all rows stand committed in Kafka.

Beside it the server's own limit, in the same run: as many connections as the snapshot has workers ask the same SELECTs
of the same chunks, and throw away what comes. Server, Kafka and capture share the machine's cores; CPU time of each is
told, so that one sees what a row costs where.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
import time
import uuid
from typing import Any

import psutil
from pymysql.constants import COMMAND

from include.clock import SystemClock
from include.log.kafka.log import KafkaReader
from include.log.kafka.writer import KafkaWriter
from include.log.requests.records import Request
from include.log.topics import change, source_requests
from include.source.log.direct_log import answers_by_id
from tests.bench.capture.binlog_table import DATABASE
from tests.bench.capture.place import Place, add_rows, add_table, placed
from tests.support.source.capture_harness import CaptureHarness

__all__ = ["ask_for", "main"]

_WANTED = 150_000
_PATIENCE_S = 300.0
_BUFFER = 1 << 20
_SELECT = (
    "SELECT id, user, n, state, rank_, flag, price, rate, score * 1e0, ratio * 1e0, made, seen, day, name, doc, raw_ "
    f"FROM {DATABASE}.big WHERE id > {{}} AND id <= {{}}"
)


def main() -> int:
    """Run, tell; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="the median is told")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    options = ("--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=0")
    with placed(apart=False, options=options) as place:
        world = place.world
        world.declare(partition_by={}, snapshot_workers=arguments.workers)
        add_table(place, "big")
        world.run("run", "--snapshot")
        # Filled only now: its rows are read when they are asked for.
        add_rows(place, "big", arguments.rows)
        process = world.start("run")
        world.wait_until_complete(60)
        found = [_round(place, process.pid, arguments) for _ in range(arguments.rounds)]
        world.stop(process)
        world.running.remove(process)
    # One round's figures belong together: the one whose rate is the median.
    return _tell(sorted(found, key=lambda each: each["rows_a_second"])[len(found) // 2], arguments)


def _round(place: Place, pid: int, arguments: argparse.Namespace) -> dict[str, float]:
    limit = _limit(place, arguments.rows, arguments.workers)
    world = place.world
    reader = KafkaReader(world.kafka)
    topic = change(world.name, world.name, "big")
    there = sum(reader.end_offsets(topic).values()) if topic in _topics(world) else 0
    costs = {"capture": [psutil.Process(pid)], "server": [psutil.Process(place.server.process.pid)]}
    costs["kafka"] = [each for each in psutil.process_iter() if _listens(each, int(world.kafka.rpartition(":")[2]))]
    before = {name: _cpu_s(processes) for name, processes in costs.items()}
    begun = time.monotonic()
    id_ = ask_for(world, "big", rows_per_s=0)
    most = 0.0
    answer = None
    while answer is None or answer.state not in ("done", "refused"):
        if time.monotonic() - begun > _PATIENCE_S:
            raise SystemExit(f"the snapshot is not done: {answer}")
        time.sleep(0.1)
        most = max(most, costs["capture"][0].memory_info().rss)
        # Cheap beside reading the answers, which would cost Kafka as much as the rows.
        if sum(reader.end_offsets(topic).values()) - there >= arguments.rows:
            answer = answers_by_id(reader, world.name).get(id_)
    took_s = time.monotonic() - begun
    if answer.state != "done":
        raise SystemExit(f"not all rows are in Kafka: {answer}")
    reader.close()
    spent = {name: _cpu_s(processes) - before[name] for name, processes in costs.items()}
    return {
        "rows_a_second": arguments.rows / took_s,
        "limit_rows_a_second": limit,
        "rss_mb": most / 2**20,
    } | {f"{name}_cpu_us_a_row": 1e6 * cpu_s / arguments.rows for name, cpu_s in spent.items()}


def ask_for(world: CaptureHarness, table: str, rows_per_s: int | None = None) -> str:
    """Ask the running capture for a snapshot of `table`; the request's id."""
    id_ = str(uuid.uuid4())
    request = Request(
        id_, "snapshot", "bench", SystemClock().now_us(), (f"{world.name}.{table}",), rows_per_s=rows_per_s
    )
    writer = KafkaWriter(world.kafka, f"lyrebird.ask.{world.name}.{id_}")
    writer.begin()
    writer.append(source_requests(world.name), request.key(), request.value())
    writer.commit()
    writer.close()
    return id_


def _listens(process: psutil.Process, port: int) -> bool:
    try:
        if process.name() != "java":
            return False
        found = process.net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in found)


def _topics(world: CaptureHarness) -> list[str]:
    from include.log.kafka.log import KafkaAdmin

    return KafkaAdmin(world.kafka).names()


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (each.cpu_times() for each in processes))


def _limit(place: Place, rows: int, workers: int) -> float:
    """Rows a second that the server sends to that many connections which do nothing with them."""
    chunk = 20_000
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    for first in range(0, rows, chunk):
        left.put(first)

    def read() -> None:
        with place.server.connect() as connection:
            room = bytearray(_BUFFER)
            while True:
                try:
                    first = left.get_nowait()
                except queue.Empty:
                    return
                connection._execute_command(COMMAND.COM_QUERY, _SELECT.format(first, first + chunk))  # type: ignore[attr-defined]
                _throw_away(connection._sock, room)  # type: ignore[attr-defined]

    threads = [threading.Thread(target=read) for _ in range(workers)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rows / (time.monotonic() - begun)


def _throw_away(raw: Any, room: bytearray) -> None:
    """All up to the packet that ends the rows: what came last ends with its header of five bytes and its code."""
    view, tail, came = memoryview(room), b"", 0
    while True:
        size = raw.recv_into(view)
        if not size:
            raise SystemExit("the server hung up")
        came += size
        tail = (tail + bytes(view[max(0, size - 9) : size]))[-9:]
        # An end follows the columns' names too, but long before so many bytes came.
        if came > len(room) // 8 and tail[:3] == b"\5\0\0" and tail[4:7] == b"\xfe\0\0":
            return


def _tell(found: dict[str, float], arguments: argparse.Namespace) -> int:
    wanted = min(_WANTED, found["limit_rows_a_second"])
    missed = found["rows_a_second"] < wanted
    if arguments.json:
        print(json.dumps({name: round(value, 2) for name, value in found.items()} | {"missed": int(missed)}))
        return int(missed)
    print(
        f"snapshot of {arguments.rows:,} rows of 16 columns by {arguments.workers} workers, to Kafka, committed: "
        f"{found['rows_a_second']:,.0f} rows/s, the median of {arguments.rounds}; wanted {wanted:,.0f}"
        f"{': MISSED' if missed else ''}\n"
        f"the server's own limit, rows thrown away: {found['limit_rows_a_second']:,.0f} rows/s\n"
        f"CPU us a row: capture {found['capture_cpu_us_a_row']:.2f}, server {found['server_cpu_us_a_row']:.2f}, "
        f"Kafka {found['kafka_cpu_us_a_row']:.2f}; capture's RSS at most {found['rss_mb']:.0f} MB"
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
