"""`make bench-capture`, what the database feels: writers without capture, with it, during a snapshot and an audit.

`reader` is a replica that throws the binlog away: what any tool costs its server, and the limit that capture has.
`audit` hashes the same table, as many rows a second as the snapshot has read.

Four writers, each in a process of its own, make transactions of an UPDATE by key and an INSERT, on rows of their own so
that none waits for another; the log is not flushed to disk at each COMMIT, so that no slow disk hides what CPU time
costs them. Rounds of the three are interleaved; each figure is the median of its rounds, each loss
that of the rounds' ratios. Server and writers have one half of the cores, Kafka and capture the other: in production
capture runs on another machine, and what remains on the database's is the server's own work for it (the dump of the
binlog, the snapshot's reads), which is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import psutil

from include.audit.merkle.database import AuditLoad, DatabaseSide
from include.clock import SystemClock
from include.log.kafka.log import KafkaReader
from include.log.topics import change
from include.settings.deployment import Deployment
from include.source.definition import load_source
from include.source.hashes.sums import bits_for
from tests.bench.capture.feel_writer import ROWS
from tests.bench.capture.place import Place, add_rows, add_table, placed
from tests.bench.servers import on_cores
from tests.support.background import Background

__all__ = ["main"]

Mode = Literal["without", "reader", "capture", "snapshot", "audit"]
_MODES: tuple[Mode, ...] = ("without", "reader", "capture", "snapshot", "audit")
_MOST_LOST = 0.15
"""With a snapshot."""
_NOT_MORE: dict[Mode, Mode] = {"capture": "reader", "audit": "snapshot"}
"""What costs writers no more than another: a replica at all, a snapshot at the same rows a second."""
_NO_DIFFERENCE = 0.03
_WAITS = ("Innodb_row_lock_waits", "Table_locks_waited", "Innodb_deadlocks")
_HELD = (
    "SELECT COUNT(*), COALESCE(SUM(t.trx_rows_locked), 0), COALESCE(SUM(t.trx_tables_locked), 0) "
    "FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id "
    "WHERE p.user = %s"
)
_LEAD_S = 1.5


@dataclass(frozen=True)
class Round:
    """What writers did in one round. `server_us`: CPU of the server for a transaction; `read`: a snapshot's rows a
    second."""

    a_second: float
    p50_ms: float
    p99_ms: float
    server_us: float
    read: float = 0.0


class Locks(threading.Thread):
    """Looks every 100 ms which locks capture's own transactions hold; and, over all, who waited for one."""

    def __init__(self, place: Place) -> None:
        super().__init__(daemon=True)
        self._place = place
        self._ended = threading.Event()
        self._before = self._waits()
        self.open = self.rows = self.tables = 0

    def run(self) -> None:
        with self._place.server.connect() as connection, connection.cursor() as cursor:
            while not self._ended.wait(0.1):
                cursor.execute(_HELD, (self._place.world.name,))
                count, rows, tables = map(int, cursor.fetchone())
                self.open += count
                self.rows += rows
                self.tables += tables

    def end(self) -> dict[str, int]:
        self._ended.set()
        self.join()
        waited = {name: count - self._before[name] for name, count in self._waits().items()}
        return waited | {"transactions_seen": self.open, "row_locks_held": self.rows, "table_locks_held": self.tables}

    def _waits(self) -> dict[str, int]:
        marks = ", ".join(["%s"] * len(_WAITS))
        rows = self._place.world.ask(f"SHOW GLOBAL STATUS WHERE variable_name IN ({marks})", *_WAITS)
        return {str(name): int(value) for name, value in rows}


def main() -> int:
    """Run, tell; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--think-ms", type=float, default=0, help="pause of a writer between transactions; 0: flat out")
    parser.add_argument("--table-rows", type=int, default=800_000, help="rows of the table that snapshots read")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    with placed(apart=True, options=("--innodb-buffer-pool-size=512M", "--innodb-flush-log-at-trx-commit=2")) as place:
        if place.shared:
            print("one core only: capture takes its time from the server too", file=sys.stderr)
        _prepare(place, arguments)
        rounds: dict[Mode, list[Round]] = {mode: [] for mode in _MODES}
        locks = Locks(place)
        locks.start()
        for number in range(arguments.rounds):
            for mode in _MODES:
                print(f"round {number + 1} of {arguments.rounds}: {mode}", file=sys.stderr)
                read = statistics.median(each.read for each in rounds["snapshot"]) if rounds["snapshot"] else 0.0
                rounds[mode].append(_round(place, mode, arguments, read))
        return _tell(rounds, locks.end(), arguments)


def _prepare(place: Place, arguments: argparse.Namespace) -> None:
    world = place.world
    world.declare(partition_by={})
    world.sql(
        "CREATE TABLE written (id int PRIMARY KEY, n int NOT NULL, v varchar(40))",
        "CREATE TABLE appended (id bigint AUTO_INCREMENT PRIMARY KEY, writer int, n int, v varchar(40))",
        f"INSERT INTO written SELECT seq, 0, '' FROM seq_0_to_{arguments.writers * ROWS}",
    )
    add_table(place, "big")
    world.run("run", "--snapshot")
    # Filled only now: its rows are read when they are asked for.
    add_rows(place, "big", arguments.table_rows)


class Auditing(Background):
    """Hashes the table again and again, as the audit of tables does; `rows` counts."""

    def __init__(self, place: Place, rows_per_s: float) -> None:
        super().__init__()
        self._place, self._rows_per_s, self.rows = place, rows_per_s, 0

    def work(self) -> None:
        world, clock = self._place.world, SystemClock()
        source = load_source(Deployment.load(world.folder / "deployment"), world.name)
        load = AuditLoad(clock, connections=1, rows_per_s=round(self._rows_per_s), busy_threads=0)
        with closing(DatabaseSide(source, world.name, "big", load, clock, range_rows=10_000)) as side:
            bits = bits_for(side.part_rows)
            while not self.over.is_set():
                for part in side.parts:
                    if self.over.is_set():
                        return
                    (found,) = side.leaves([part], bits)
                    self.rows += found.rows


def _round(place: Place, mode: Mode, arguments: argparse.Namespace, rows_per_s: float) -> Round:
    if mode == "without":
        return _write(place, arguments)[0]
    if mode == "reader":
        with _reader(place):
            return _write(place, arguments)[0]
    world = place.world
    process = world.start("run")
    world.wait_until_complete(120)
    try:
        if mode == "capture":
            return _write(place, arguments)[0]
        if mode == "audit":
            with Auditing(place, rows_per_s) as auditing:
                return _write(place, arguments, lambda: auditing.rows)[0]
        reader = KafkaReader(world.kafka)
        topic = change(world.name, world.name, "big")
        there = _count(reader, topic)
        world.run("snapshot", "--tables", "big")
        world.wait(lambda: _count(reader, topic) > there)
        found, read = _write(place, arguments, lambda: _count(reader, topic))
        if read + there >= there + arguments.table_rows or _count(reader, topic) - there >= arguments.table_rows:
            raise SystemExit("the snapshot ended before the writers did: raise --table-rows")
        world.wait(lambda: _count(reader, topic) - there >= arguments.table_rows, 300)
        world.wait_until_complete(120)
        reader.close()
        return found
    finally:
        world.stop(process)
        world.running.remove(process)


@contextmanager
def _reader(place: Place) -> Iterator[None]:
    """Where capture runs, too: on the other cores."""
    world = place.world
    source = {"host": place.server.host, "port": place.server.port, "user": world.name, "password": world.password}
    words = [json.dumps(source | {"databases": [world.name]}), json.dumps(world.end().to_json())]
    command = [sys.executable, "-m", "tests.bench.capture.feel_reader", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "reads\n":
            raise SystemExit("the reader failed")
        yield
        process.stdin.close()


def _count(reader: KafkaReader, topic: str) -> int:
    return sum(reader.end_offsets(topic).values())


def _write(place: Place, arguments: argparse.Namespace, count: Any = lambda: 0) -> tuple[Round, int]:
    """Writers at work for the time asked; and how much `count` rose meanwhile."""
    server, begin_at = place.server, time.monotonic() + _LEAD_S
    words = [server.host, str(server.port), server.root_password, place.world.name]
    with on_cores(place.server_cores):
        writers = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.bench.capture.feel_writer", *words, str(number), str(begin_at),
                 str(arguments.seconds), str(arguments.think_ms)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(arguments.writers)
        ]  # fmt: skip
    seen = psutil.Process(server.process.pid)
    time.sleep(max(0.0, begin_at - time.monotonic()))
    first, spent, begun = count(), seen.cpu_times(), time.monotonic()
    time.sleep(arguments.seconds)
    took_s, now, read = time.monotonic() - begun, seen.cpu_times(), count() - first
    said = [writer.communicate()[0] for writer in writers]
    if any(writer.returncode for writer in writers):
        raise SystemExit("a writer failed")
    ms = sorted(each for text in said for each in json.loads(text)["ms"])
    cpu_s = now.user + now.system - spent.user - spent.system
    return (
        Round(
            len(ms) / arguments.seconds,
            ms[len(ms) // 2],
            ms[int(len(ms) * 0.99)],
            1e6 * cpu_s / len(ms),
            read / took_s,
        ),
        read,
    )


def _tell(rounds: dict[Mode, list[Round]], locks: dict[str, int], arguments: argparse.Namespace) -> int:
    missed = []
    pause = f"{arguments.think_ms:g} ms apart" if arguments.think_ms else "flat out"
    each = f"{arguments.rounds} interleaved rounds of {arguments.seconds:g} s"
    title = f"{arguments.writers} writers, {pause}; {each}, medians"
    heads = ("transactions/s", "lost", "p50 ms", "p99 ms", "server CPU us", "rows read/s")
    lines = [title, " " * 10 + "".join(f"{head:>15}" for head in heads)]
    told: dict[str, Any] = {"locks": locks}
    for mode, found in rounds.items():
        rates = [each.a_second / base.a_second for each, base in zip(found, rounds["without"], strict=True)]
        lost = 1 - statistics.median(rates)
        row = {name: statistics.median(getattr(each, name) for each in found) for name in Round.__annotations__}
        told[mode] = {name: round(value, 2) for name, value in row.items()} | {"lost": round(lost, 4)}
        cells = (f"{row['a_second']:,.0f}", f"{lost:.1%}", f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}",
                 f"{row['server_us']:,.0f}", f"{row['read']:,.0f}")  # fmt: skip
        lines.append(f"{mode:10}" + "".join(f"{cell:>15}" for cell in cells))
    if told["snapshot"]["lost"] >= _MOST_LOST:
        missed.append(f"snapshot: {told['snapshot']['lost']:.1%} lost, wanted less than {_MOST_LOST:.0%}")
    for mode, other in _NOT_MORE.items():
        more = told[mode]["lost"] - told[other]["lost"]
        if more > _NO_DIFFERENCE:
            missed.append(f"{mode}: {more:.1%} more lost than to {other}, wanted at most {_NO_DIFFERENCE:.0%}")
    lines.append(", ".join(f"{name} {count}" for name, count in locks.items()))
    unseen = not locks["transactions_seen"]
    caused = {name: n for name, n in locks.items() if n and name not in ("transactions_seen", "table_locks_held")}
    missed += [f"{name}: {n}, wanted none" for name, n in caused.items()]
    if unseen:
        missed.append("no transaction of capture was seen, so that nothing is known of its locks")
    lines += [f"MISSED: {each}" for each in missed]
    print(json.dumps({**told, "missed": missed}) if arguments.json else "\n".join(lines))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
