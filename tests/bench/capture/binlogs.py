"""`make bench-capture`: how fast binlogs become Avro, beside mysql-replication and the server's own tool.

Files of MariaDB and of MySQL, interleaved rounds; CPU time of each reader's process, medians. One-row transactions go
through the replicator, as live capture takes them; so many of them that a process's first steps on fresh memory, which
take it twice as long as all later ones, do not decide. Ends with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.record.gtid import Flavour
from tests.bench.capture.binlog_table import CREATE, DATABASE, fill, single_rows
from tests.support.servers import running

__all__ = ["main"]


@dataclass(frozen=True)
class Log:
    """One closed binlog: `count` of its `unit`, rows or transactions; where it lies, and where it ends."""

    name: str
    unit: str
    count: int
    path: Path
    end: int


@dataclass(frozen=True)
class Reader:
    """A process that reads a binlog; `native`: whether compiled code may."""

    name: str
    command: tuple[str, ...]
    native: str = "1"


@dataclass(frozen=True)
class Bound:
    """What must hold: `reader` does at least `times` as much in a CPU second as `peer`."""

    log: str
    reader: str
    peer: str
    times: float


SERVERS: dict[Flavour, str] = {"mariadb": "mariadb-11.4", "mysql": "mysql-9.7"}
BOUNDS = (
    Bound("rows", "lyrebird, compiled", "mysql-replication", 100),
    Bound("rows", "lyrebird, Python", "mysql-replication", 5),
    Bound("rows", "lyrebird, compiled", "mariadb-binlog -v", 5),
    Bound("one-row, mariadb", "lyrebird, compiled", "mysql-replication", 200),
    Bound("one-row, mysql", "lyrebird, compiled", "mysql-replication", 200),
)


def main() -> int:
    """Fill, read in rounds, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="row changes of the first server's first file")
    parser.add_argument(
        "--transactions", type=int, default=100_000, help="one-row transactions of each server's other file"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    rates: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        logs: list[tuple[Log, list[Reader]]] = []
        for flavour, name in SERVERS.items():
            (Path(folder) / name).mkdir()
            server = servers.enter_context(running(name, Path(folder) / name))
            logs += _write(server, flavour, arguments.rows, arguments.transactions)
        for round_ in range(arguments.rounds):
            for log, readers in logs:
                for reader in readers:
                    print(f"round {round_ + 1} of {arguments.rounds}: {log.name}, {reader.name}", file=sys.stderr)
                    found = _run(reader)
                    if found[log.unit] not in (0, log.count):
                        raise SystemExit(f"{reader.name} read {found[log.unit]} of {log.count} {log.unit}: {log.name}")
                    rates.setdefault((log.name, reader.name), []).append(log.count / found["cpu_s"])
    medians = {key: statistics.median(each) for key, each in rates.items()}
    return _tell(medians, arguments.json)


def _write(server: Any, flavour: Flavour, rows: int, transactions: int) -> list[tuple[Log, list[Reader]]]:
    status = "SHOW MASTER STATUS" if flavour == "mariadb" else "SHOW BINARY LOG STATUS"
    works: list[tuple[str, str, Callable[[Any, int], None], int]] = [
        (f"one-row, {flavour}", "transactions", single_rows, transactions)
    ]
    if flavour == "mariadb":
        works.insert(0, ("rows", "rows", fill, rows))
    found = []
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        cursor.execute(CREATE)
        for variable, value in {
            "max_binlog_size": 1 << 30,
            "sync_binlog": 0,
            "innodb_flush_log_at_trx_commit": 0,
        }.items():
            cursor.execute(f"SET GLOBAL {variable} = {value}")
        for name, unit, work, count in works:
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute(status)
            file = cursor.fetchone()[0]
            work(connection, count)
            cursor.execute(status)
            log = Log(name, unit, count, server.data / file, int(cursor.fetchone()[1]))
            found.append((log, _readers(server, flavour, log)))
        cursor.execute("FLUSH BINARY LOGS")
    return found


def _readers(server: Any, flavour: Flavour, log: Log) -> list[Reader]:
    reader = (sys.executable, "-m", "tests.bench.capture.readers")
    ours = ("lyrebird", str(log.path)) if log.unit == "rows" else ("replicator", str(log.path), flavour)
    there = (server.host, str(server.port), server.root_password, log.path.name, "4", str(log.end))
    found = [
        Reader("lyrebird, compiled", (*reader, *ours), "1"),
        Reader("lyrebird, Python", (*reader, *ours), "0"),
        Reader("mysql-replication", (*reader, "mysql-replication", *there)),
    ]
    tool = shutil.which("mariadb-binlog") or shutil.which("mysqlbinlog")
    if tool and flavour == "mariadb":
        found.append(Reader("mariadb-binlog -v", (*reader, "mariadb-binlog", tool, str(log.path))))
    return found


def _run(reader: Reader) -> dict[str, Any]:
    environment = {**os.environ, "LYREBIRD_NATIVE": reader.native}
    done = subprocess.run(reader.command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{reader.name} failed: {done.stderr.strip().splitlines()[-1:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _tell(medians: dict[tuple[str, str], float], as_json: bool) -> int:
    missed = []
    lines = [f"{'file':17} {'reader':20} {'a CPU second':>14} {'x mysql-replication':>20}"]
    for (name, reader), rate in medians.items():
        times = rate / medians[name, "mysql-replication"]
        lines.append(f"{name:17} {reader:20} {rate:14,.0f} {times:20,.1f}")
    for bound in BOUNDS:
        peer = medians.get((bound.log, bound.peer))
        if peer is None:
            lines.append(f"{bound.peer} is not installed: that bound was not tried")
            continue
        times = medians[bound.log, bound.reader] / peer
        held = times >= bound.times
        lines.append(
            f"{'held' if held else 'MISSED'}: {bound.log}, {bound.reader} is {times:.1f} x {bound.peer}, "
            f"wanted {bound.times:g}"
        )
        if not held:
            missed.append(bound)
    values = {f"{name}, {reader}": round(rate) for (name, reader), rate in medians.items()}
    print(json.dumps({"a_cpu_second": values, "missed": len(missed)}) if as_json else "\n".join(lines))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
