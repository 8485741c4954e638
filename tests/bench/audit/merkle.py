"""`make bench-merkle`: what the proof of a table costs its server and Spark, and what others' formulas do not see.

1. A scan of a table of twelve columns, range by range, on one connection: rows for each second of the server's CPU,
   beside the same ranges by COUNT(*), by pt-table-checksum's formula (BIT_XOR of CRC32) and by reladiff's (a sum of the
   last 60 bits of MD5).
2. The copy's side on Spark, of the topic and of the lake's table: rows for each second of CPU.
3. One wrong row: how many queries find it after the scan.
4. Faults that are planted one at a time: which formula sees them.

Rounds are interleaved; figures are medians. What writers feel is in `tests.bench.capture.feel`, beside a snapshot.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import psutil
import pytest

from include.audit.merkle.bases import lake_base, topic_base
from include.audit.merkle.compare import compared
from include.audit.merkle.database import AuditLoad, DatabaseSide
from include.audit.merkle.merkle_spark import CopySide
from include.audit.merkle.sides import AsOfRange
from include.clock import SystemClock
from include.log.kafka.log import KafkaReader
from include.log.running.batches_spark import session
from include.settings.connections import Kafka
from include.source.definition import load_source
from include.source.hashes.sums import bits_for
from tests.bench.servers import halves, served
from tests.support.servers import Server, running
from tests.support.servers.addresses import registry_url
from tests.support.source.capture_harness import opened
from tests.support.tables.audit_scenario import TableAuditScenario, captured, prepare

__all__ = ["main"]

_COLUMNS: Final = ("id", "user", "n", "state", "price", "rate", "made", "seen", "day", "flag", "name", "note")
_CREATE: Final = (
    "CREATE TABLE wide (id bigint unsigned PRIMARY KEY, user int NOT NULL, n int, state enum('new','paid','sent'), "
    "price decimal(12,2), rate decimal(10,4), made datetime(6), seen timestamp(3) NULL, day date, "
    "flag tinyint NOT NULL, name varchar(100), note varchar(60))"
)
_FILL: Final = (
    "INSERT INTO wide SELECT seq, seq % 9973, IF(seq % 11, seq * 7, NULL), 1 + seq % 3, seq / 7, seq / 1e4, "
    "'2026-01-01' + INTERVAL seq * 12345678 MICROSECOND, '2026-01-01' + INTERVAL seq SECOND, "
    "'2020-01-01' + INTERVAL seq % 3000 DAY, seq % 2, CONCAT('name ', MD5(seq)), CONCAT('a note of row ', seq) "
    "FROM seq_1_to_{}"
)
_JOINED: Final = ", ".join(f"`{name}`" for name in _COLUMNS)
_TEXTS: Final = ", '|', ".join(f"COALESCE(CAST(`{name}` AS CHAR), '<null>')" for name in _COLUMNS)
_PEERS: Final = {
    "COUNT(*)": "SELECT COUNT(*) FROM wide WHERE {}",
    "pt-table-checksum": f"SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS('#', {_JOINED}))) FROM wide WHERE {{}}",
    "reladiff": f"SELECT COUNT(*), SUM(CAST(CONV(SUBSTRING(MD5(CONCAT({_TEXTS})), 18), 16, 10) AS UNSIGNED)) "
    "FROM wide WHERE {}",
}
_OURS: Final = "lyrebird"
_SERVER_BOUND: Final = 400_000
_SPARK_BOUND: Final = 150_000
_RANGE: Final = 50_000
_LAKE_S: Final = 1800
_FAULTS: Final = {
    "a value changed": ("UPDATE wide SET name = 'lost' WHERE id = 77",),
    "a column raised by one in half of the rows": ("UPDATE wide SET flag = 1 - flag WHERE id % 2 = 0",),
    "two rows' values swapped": (
        "UPDATE wide SET note = IF(id = 11, 'a note of row 12', 'a note of row 11') WHERE id IN (11, 12)",
    ),
    "NULL moved to the next column": (
        "UPDATE wide SET name = 'x', note = NULL WHERE id = 5",
        "UPDATE wide SET name = NULL, note = 'x' WHERE id = 5",
    ),
    "a separator of CONCAT_WS moved": (
        "UPDATE wide SET name = 'a#', note = 'b' WHERE id = 6",
        "UPDATE wide SET name = 'a', note = '#b' WHERE id = 6",
    ),
    "a separator of texts moved": (
        "UPDATE wide SET name = 'a|', note = 'b' WHERE id = 6",
        "UPDATE wide SET name = 'a', note = '|b' WHERE id = 6",
    ),
    "NULL became the text '<null>'": (
        "UPDATE wide SET note = NULL WHERE id = 8",
        "UPDATE wide SET note = '<null>' WHERE id = 8",
    ),
}
"""What is done; of two statements the first is on both sides."""


@dataclass(frozen=True)
class Cost:
    """Rows for each second on the clock and of CPU."""

    wall: float
    cpu: float


def main() -> int:
    """Run, tell; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch, _scene(Path(name)) as found:
        scene, server = found
        scene.world.sql("SET SESSION sql_log_bin = 0", "USE bench", _CREATE, _FILL.format(arguments.rows))
        scene.world.more.append("wide")
        with captured(scene.world, limit_s=90 + arguments.rows / 20_000):
            with scene.lake(patch):
                until_s = time.monotonic() + _LAKE_S
                while scene.audit("wide", "lake", range_rows=_RANGE).error:
                    if time.monotonic() > until_s:
                        raise SystemExit("the lake's table did not come")
                    time.sleep(5)
            # Without what keeps the lake: it would share the cores that are measured.
            told = {
                "rows": arguments.rows,
                "server": _server_rounds(scene, server, arguments),
                "spark": _spark_rounds(scene, arguments),
                "one_wrong_row": _wrong_row(scene),
            }
            told["faults"] = _faults(scene)
    return _tell(told, arguments)


@contextlib.contextmanager
def _scene(base: Path) -> Iterator[tuple[TableAuditScenario, Server]]:
    every = halves(apart=False)[0]
    options = ("--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=0")
    for each in ("db", "world"):
        (base / each).mkdir()
    with (
        served(["kafka", "registry", "s3"], base / "stack", every) as env,
        running("mariadb-11.4", base / "db", options) as server,
        opened("bench", base / "world", server, env["LYREBIRD_KAFKA"], registry_url(env)) as world,
    ):
        store = SimpleNamespace(
            endpoint=env["LYREBIRD_S3"],
            access_key=env["LYREBIRD_S3_ACCESS_KEY"],
            secret_key=env["LYREBIRD_S3_SECRET_KEY"],
        )
        # The snapshot is not what is measured.
        world.declare(snapshot_rows_per_s=0)
        prepare(world, "bench", base / "world", store)
        spark = session("bench", {"spark.master": "local[2]", "spark.driver.memory": "2g", "spark.log.level": "ERROR"})
        try:
            yield TableAuditScenario(world, spark), server
        finally:
            spark.stop()


def _side(scene: TableAuditScenario, table: str = "wide") -> DatabaseSide:
    load = AuditLoad(SystemClock(), connections=1, rows_per_s=0, busy_threads=0)
    source = load_source(scene.deployment, scene.world.name)
    return DatabaseSide(source, scene.world.name, table, load, SystemClock(), range_rows=_RANGE)


def _server_rounds(
    scene: TableAuditScenario, server: Server, arguments: argparse.Namespace
) -> dict[str, dict[str, float]]:
    process = psutil.Process(server.process.pid)
    costs: dict[str, list[Cost]] = {}
    with contextlib.closing(_side(scene)) as side:
        bits = bits_for(side.part_rows)
        works: dict[str, Callable[[], object]] = {_OURS: lambda: side.leaves(side.parts, bits)}
        for name, sql in _PEERS.items():
            works[name] = functools.partial(_by_ranges, server, sql, arguments.rows)
        for _ in range(arguments.rounds):
            for name, work in works.items():
                costs.setdefault(name, []).append(_cost(work, [process], arguments.rows))
    return {name: _median(found) for name, found in costs.items()}


def _by_ranges(server: Server, sql: str, rows: int) -> None:
    with server.connect(database="bench") as connection, connection.cursor() as cursor:
        for first in range(0, rows, _RANGE):
            cursor.execute(sql.format(f"id > {first} AND id <= {first + _RANGE}"))
            cursor.fetchall()


def _spark_rounds(scene: TableAuditScenario, arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    me, topic = psutil.Process(), scene.topic("wide")
    costs: dict[str, list[Cost]] = {}
    kafka = scene.deployment.one("kafka", Kafka)
    with (
        contextlib.closing(_side(scene)) as side,
        contextlib.closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader,
    ):
        bits = bits_for(side.part_rows)
        moments = [
            AsOfRange(part, each.span) for part, each in zip(side.parts, side.leaves(side.parts, bits), strict=True)
        ]
        bases = {
            "topic": topic_base(reader, topic),
            "lake table": lake_base(scene.lake_log("wide"), 1, topic, scene.world.name),
        }
        for _ in range(arguments.rounds):
            for name, base in bases.items():
                copy = CopySide(scene.spark, scene.deployment, topic, base, side.rows, side.parts, clock=SystemClock())
                work = functools.partial(copy.leaves, moments, bits)
                costs.setdefault(name, []).append(_cost(work, [me], arguments.rows))
    return {name: _median(found) for name, found in costs.items()}


def _wrong_row(scene: TableAuditScenario) -> dict[str, Any]:
    """A row that capture never heard of: how many queries find it."""
    scene.behind_the_log("UPDATE wide SET note = 'lost' WHERE id = 4711")
    topic, asked = scene.topic("wide"), dict.fromkeys(("scans", "queries"), 0)
    with contextlib.closing(_side(scene)) as side:
        leaves, rows_of = side.leaves, side.rows_of

        def counted_leaves(*words: Any) -> Any:
            asked["scans"] += 1
            return leaves(*words)

        def counted_rows(parts: Any, bits: int) -> Any:
            asked["queries"] += len(parts)
            return rows_of(parts, bits)

        side.leaves, side.rows_of = counted_leaves, counted_rows  # type: ignore[method-assign, assignment]
        base = lake_base(scene.lake_log("wide"), 1, topic, scene.world.name)
        copy = CopySide(scene.spark, scene.deployment, topic, base, side.rows, side.parts, clock=SystemClock())
        begun_s = time.monotonic()
        found = compared(side, copy, side.parts, bits_for(side.part_rows), side.rows.columns)
        took_s = time.monotonic() - begun_s
    names = [(each.kind, each.key, each.columns) for each in found.found]
    return {**asked, "took_s": round(took_s, 1), "found": names == [("altered", "4711", ("note",))]}


def _faults(scene: TableAuditScenario) -> dict[str, dict[str, bool]]:
    """Fault → formula → whether it sees it, on a table of its own of 10,000 rows."""
    found: dict[str, dict[str, bool]] = {}
    for name, statements in _FAULTS.items():
        scene.behind_the_log("DROP TABLE wide", _CREATE, _FILL.format(10_000))
        if len(statements) > 1:
            scene.behind_the_log(statements[0])
        before = _all_sums(scene)
        scene.behind_the_log(statements[-1])
        found[name] = {formula: value != before[formula] for formula, value in _all_sums(scene).items()}
    return found


def _all_sums(scene: TableAuditScenario) -> dict[str, Any]:
    with scene.world.server.connect(database="bench") as connection, connection.cursor() as cursor:
        found: dict[str, Any] = {}
        for name, sql in _PEERS.items():
            cursor.execute(sql.format("TRUE"))
            found[name] = cursor.fetchall()
    with contextlib.closing(_side(scene)) as side:
        bits = bits_for(side.part_rows)
        found[_OURS] = [dict(each.leaves) for each in side.leaves(side.parts, bits)]
    return found


def _cost(work: Callable[[], object], processes: list[psutil.Process], rows: int) -> Cost:
    before, begun_s = _cpu_s(processes), time.monotonic()
    work()
    return Cost(rows / (time.monotonic() - begun_s), rows / max(_cpu_s(processes) - before, 1e-9))


def _cpu_s(processes: list[psutil.Process]) -> float:
    every = [*processes, *(child for each in processes for child in each.children(recursive=True))]
    return sum(sum(each.cpu_times()[:2]) for each in every if _mine(each))


def _mine(process: psutil.Process) -> bool:
    """Whether it is one that works: of this process's children Spark's alone, and no server."""
    with contextlib.suppress(psutil.NoSuchProcess):
        words = " ".join(process.cmdline())
        return process == psutil.Process() or "spark" in words or "mariadbd" in words
    return False


def _median(found: list[Cost]) -> dict[str, float]:
    return {name: round(statistics.median(getattr(each, name) for each in found)) for name in ("wall", "cpu")}


def _tell(told: dict[str, Any], arguments: argparse.Namespace) -> int:
    ours, missed = told["server"][_OURS], []
    lines = [f"{told['rows']:,} rows of {len(_COLUMNS)} columns, {arguments.rounds} rounds, medians", ""]
    lines.append(f"{'one connection to the server':32}{'rows/s':>12}{'rows/CPU s':>14}")
    lines += [f"{name:32}{cost['wall']:>12,.0f}{cost['cpu']:>14,.0f}" for name, cost in told["server"].items()]
    lines += ["", f"{'Spark, two cores':32}{'rows/s':>12}{'rows/CPU s':>14}"]
    lines += [f"{name:32}{cost['wall']:>12,.0f}{cost['cpu']:>14,.0f}" for name, cost in told["spark"].items()]
    wrong = told["one_wrong_row"]
    lines += [
        "",
        f"one wrong row: {wrong['scans']} scan, {wrong['queries']} query at the server, {wrong['took_s']:.1f} s",
    ]
    formulas = list(next(iter(told["faults"].values())))
    lines += ["", f"{'seen':44}" + "".join(f"{name:>20}" for name in formulas)]
    for fault, seen in told["faults"].items():
        lines.append(f"{fault:44}" + "".join(f"{'yes' if seen[name] else 'NO':>20}" for name in formulas))
    if ours["cpu"] < _SERVER_BOUND:
        missed.append(f"{ours['cpu']:,.0f} rows for each CPU second of the server, wanted {_SERVER_BOUND:,}")
    missed += [
        f"{name}: {cost['cpu']:,.0f} rows for each CPU second of Spark, wanted {_SPARK_BOUND:,}"
        for name, cost in told["spark"].items()
        if cost["cpu"] < _SPARK_BOUND
    ]
    if not wrong["found"] or wrong["scans"] > 1 or wrong["queries"] > 1:
        missed.append("one wrong row is to be found by one scan and one query on each side")
    missed += [f"not seen: {fault}" for fault, seen in told["faults"].items() if not seen[_OURS]]
    lines += [f"MISSED: {each}" for each in missed]
    print(json.dumps({**told, "missed": missed}) if arguments.json else "\n".join(lines))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
