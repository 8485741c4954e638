"""`make bench-capture`: how fast binlogs become Avro, beside mysql-replication and the server's own tool.

One server, one file, interleaved rounds; CPU time of each reader's process, medians. Ends with 1 when a bound is
missed.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.binlog_table import CREATE, DATABASE, fill, single_rows
from tests.servers import running

__all__ = ["main"]


@dataclass(frozen=True)
class Log:
    """One closed binlog: where it lies, and where it ends."""

    path: Path
    end: int


@dataclass(frozen=True)
class Bound:
    """What must hold: `reader` does at least `times` as much in a CPU second as `peer`."""

    log: str
    reader: str
    peer: str
    times: float


BOUNDS = (
    Bound("rows", "lyrebird, compiled", "mysql-replication", 100),
    Bound("rows", "lyrebird, Python", "mysql-replication", 5),
    Bound("rows", "lyrebird, compiled", "mariadb-binlog -v", 5),
    Bound("transactions", "lyrebird, compiled", "mysql-replication", 200),
)


def main() -> int:
    """Fill, read in rounds, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="row changes of the first file")
    parser.add_argument("--transactions", type=int, default=20_000, help="one-row transactions of the second file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running("mariadb-11.4", Path(folder)) as server:
        logs = _write(server, arguments.rows, arguments.transactions)
        rates: dict[tuple[str, str], list[float]] = {}
        for round_ in range(arguments.rounds):
            for name, log in logs.items():
                unit = arguments.rows if name == "rows" else arguments.transactions
                for reader, command, environment in _readers(server, log):
                    print(f"round {round_ + 1} of {arguments.rounds}: {name}, {reader}", file=sys.stderr)
                    found = _run(command, environment)
                    counted = found["rows" if name == "rows" else "transactions"]
                    if counted and counted != unit:
                        raise SystemExit(f"{reader} read {counted} of {unit} {name}")
                    rates.setdefault((name, reader), []).append(unit / found["cpu_s"])
    medians = {key: statistics.median(each) for key, each in rates.items()}
    return _tell(medians, arguments.json)


def _write(server: Any, rows: int, transactions: int) -> dict[str, Log]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        cursor.execute(CREATE)
        cursor.execute("SET GLOBAL max_binlog_size = 1073741824, sync_binlog = 0, innodb_flush_log_at_trx_commit = 0")
        logs = {}
        for name, work, count in (("rows", fill, rows), ("transactions", single_rows, transactions)):
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("SHOW MASTER STATUS")
            file = cursor.fetchone()[0]
            work(connection, count)
            cursor.execute("SHOW MASTER STATUS")
            logs[name] = Log(server.data / file, int(cursor.fetchone()[1]))
        cursor.execute("FLUSH BINARY LOGS")
    return logs


def _readers(server: Any, log: Log) -> list[tuple[str, list[str], dict[str, str]]]:
    reader = [sys.executable, "-m", "tests.bench.readers"]
    there = [server.host, str(server.port), server.root_password, log.path.name, "4", str(log.end)]
    found = [
        ("lyrebird, compiled", [*reader, "lyrebird", str(log.path)], {"LYREBIRD_NATIVE": "1"}),
        ("lyrebird, Python", [*reader, "lyrebird", str(log.path)], {"LYREBIRD_NATIVE": "0"}),
        ("mysql-replication", [*reader, "mysql-replication", *there], {}),
    ]
    tool = shutil.which("mariadb-binlog") or shutil.which("mysqlbinlog")
    if tool:
        found.append(("mariadb-binlog -v", [*reader, "mariadb-binlog", tool, str(log.path)], {}))
    return found


def _run(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} failed: {done.stderr.strip().splitlines()[-1:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _tell(medians: dict[tuple[str, str], float], as_json: bool) -> int:
    missed = []
    lines = [f"{'file':13} {'reader':20} {'a CPU second':>14} {'x mysql-replication':>20}"]
    for (name, reader), rate in medians.items():
        times = rate / medians[name, "mysql-replication"]
        lines.append(f"{name:13} {reader:20} {rate:14,.0f} {times:20,.1f}")
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
