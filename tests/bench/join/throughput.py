"""`python -m tests.bench.join.throughput`: changes that joins take in for each CPU second, end to end.

Rows of 200 bytes in Kafka, as capture writes them, joined by the application that a user would start (driver, JVM and
workers all count) on a real log, registry and object store. `three`: three tables on one join key; `one`: two;
`chain`: two joins over two foreign keys, the second of which reads what the first one writes. First a running
application finds all rows (`bootstrap`). Then, in rounds, one row under each of many join keys changes. Rows and
changes are held back by an open transaction until all are written, so that they are found at once. Last, of `three`:
what the state takes, what an idle application takes, how long a change takes at 5,000 a second, and how long until
outputs come again after kill -9, with and without the local state. Between the parts of `three`, Flink joins the same
rows in rounds of its own; what each side does for them says `tests.bench.join.flink`. `hot`: two tables with 1,000 and
100,000 rows under one join key, each change of which is held; how long changes of other join keys take before, and
while it changes. Ends with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import Consumer

from include.join.algorithm.versions import VECTOR_HEADER, vector_from_header
from tests.bench.join.flink import FlinkPeer
from tests.bench.join.place import KINDS, JoinPlace
from tests.bench.processes import cpu_by_kind
from tests.bench.servers import halves, served
from tests.support.application_process import ApplicationProcess
from tests.support.source.captured_changes import Transaction

_BOUNDS: Final = {"three": 20_000.0, "one": 40_000.0, "chain": 10_000.0}
_BOOTSTRAP: Final = 50_000.0
_OF_FLINK: Final = 0.6
_KEYS: Final = {"three": 400_000, "one": 200_000, "chain": 200_000, "hot": 200_000}
_FIRST: Final = 1_000
_WARM: Final = 20_000
_WITHIN_S: Final = 900.0
_IDLE_S: Final = 20.0
_RATE: Final = 5_000
_PACED_S: Final = 20.0
_TICK_S: Final = 0.1
_HOT_ROWS: Final = (100_000, 1_000)
_HOT_BESIDE: Final = 20_000
_HOT_RATE: Final = 1_000


@dataclass
class Found:
    """Of one kind of joins: rows, changes a round; CPU seconds by kind of process of the bootstrap and each round."""

    rows: int
    changes: int
    bootstrap: dict[str, float] = field(default_factory=dict)
    rounds: list[dict[str, float]] = field(default_factory=list)
    more: dict[str, float] = field(default_factory=dict)
    flink: FlinkPeer | None = None

    @property
    def rows_a_cpu_s(self) -> float:
        """Of the bootstrap."""
        return self.rows / _cpu_s(self.bootstrap)

    @property
    def changes_a_cpu_s(self) -> float:
        """Median of the rounds."""
        return statistics.median(self.changes / _cpu_s(each) for each in self.rounds)

    def told(self) -> dict[str, Any]:
        """All of it, for JSON."""
        made = {"changes_a_cpu_s": self.changes_a_cpu_s} if self.rounds else {}
        return {**vars(self), **made, "flink": self.flink.told() if self.flink else None}


def main() -> int:
    """Fill, join, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(KINDS), help="these joins alone")
    told = ", ".join(f"{keys:,} of {kind}" for kind, keys in _KEYS.items())
    parser.add_argument("--keys", type=int, help=f"join keys, each with a row of each table (without it {told})")
    parser.add_argument("--changes", type=int, default=100_000, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    found: dict[str, Found] = {}
    with tempfile.TemporaryDirectory() as name:
        services = ["kafka", "registry", "s3"]
        with served(services, Path(name) / "stack", halves(apart=False)[0]) as env:
            for kind in [arguments.only] if arguments.only else list(KINDS):
                folder = Path(name) / kind
                folder.mkdir()
                keys = arguments.keys or _KEYS[kind]
                if kind == "hot":
                    found[kind] = _hot(env, folder, keys)
                    continue
                found[kind] = _measured(kind, env, folder, keys, arguments.changes, arguments.rounds)
    return _tell(found, as_json=arguments.json)


def _measured(kind: str, env: dict[str, str], folder: Path, keys: int, changes: int, rounds: int) -> Found:
    place = JoinPlace(f"bench{kind}", KINDS[kind], env, folder)
    found = Found(0, changes)
    if kind == "three":
        found.flink = FlinkPeer(keys, folder)
    # Something for Spark to start with.
    place.insert(_FIRST)
    process = ApplicationProcess(place.application, folder)
    try:
        place.await_all(process, _WITHIN_S)
        _beside(found)
        with _taken_in(place, process) as spent:
            found.rows = place.insert(keys - _FIRST)
        found.bootstrap = spent
        _say(f"{kind}: bootstrap", found.rows, spent)
        _beside(found)
        for number in range(-1, rounds):
            count = min(_WARM, changes) if number < 0 else changes
            with _taken_in(place, process) as spent:
                place.update(count)
            if number >= 0:
                found.rounds.append({**spent, "load": os.getloadavg()[0]})
            _say(f"{kind}: changes", count, spent)
        _beside(found)
        if kind == "three":
            found.more = _more(place, process, folder)
    finally:
        process.kill()
        place.close()
    return found


def _beside(found: Found) -> None:
    if found.flink is not None:
        found.flink.round()


def _hot(env: dict[str, str], folder: Path, keys: int) -> Found:
    place = JoinPlace("benchhot", KINDS["hot"], env, folder)
    found = Found(place.insert(min(keys, _HOT_BESIDE)), 0)
    process = ApplicationProcess(place.application, folder)
    try:
        place.await_all(process, _WITHIN_S)
        found.more["before_s"] = _p99_s(place, _HOT_RATE)
        for table, rows in (("t1", _HOT_ROWS[1]), ("t0", _HOT_ROWS[0])):
            place.heat(table, rows)
            place.await_all(process, _WITHIN_S)
        changed = 0

        def heat() -> list[Transaction]:
            nonlocal changed
            changed += 1
            # Twice a second.
            return place.hotter() if changed % 5 == 0 else []

        found.more["beside_s"] = _p99_s(place, _HOT_RATE, heat)
        place.await_all(process, _WITHIN_S)
        found.more["held"] = float(place.set_aside())
        found.more["wanted"] = float(_HOT_ROWS[0] + 2 * (changed // 5))
        watched = psutil.Process(process.pid).children(recursive=True)
        found.more["largest_mb"] = max(each.memory_info().rss for each in watched if each.name() != "java") / (1 << 20)
    finally:
        process.kill()
        place.close()
    told = ", ".join(f"{name} {each:,.2f}" for name, each in found.more.items())
    print(f"hot: {told}", file=sys.stderr)
    return found


@contextmanager
def _taken_in(place: JoinPlace, process: ApplicationProcess) -> Iterator[dict[str, float]]:
    """What is written inside is found at once behind it; afterwards CPU seconds by kind of process, and `wall_s`."""
    spent: dict[str, float] = {}
    watched = psutil.Process(process.pid)
    with place.held():
        yield spent
        # The batches before it are through.
        time.sleep(2)
        before = cpu_by_kind(watched)
    wall_s, after = place.await_all(process, _WITHIN_S), cpu_by_kind(watched)
    spent |= {part: after[part] - before[part] for part in after} | {"wall_s": wall_s}


def _cpu_s(spent: Mapping[str, float]) -> float:
    return spent["driver"] + spent["JVM"] + spent["workers"]


def _say(what: str, count: int, spent: Mapping[str, float]) -> None:
    told = ", ".join(f"{part} {each:.1f}" for part, each in spent.items())
    print(f"{what}: {count / _cpu_s(spent):,.0f} a CPU second ({count:,}: {told} s)", file=sys.stderr)


def _more(place: JoinPlace, process: ApplicationProcess, folder: Path) -> dict[str, float]:
    status = place.status()[0]
    stores = sum(each.stat().st_size for each in (folder / "state").rglob("*") if each.is_file())
    more = {"live_bytes": place.live_bytes(), "rows_bytes": float(status.state_bytes), "stores_bytes": float(stores)}
    more["idle_cores"] = _idle_cores(place, process)
    more["p99_s"] = _p99_s(place)
    place.await_all(process, _WITHIN_S)
    for name, gone in (("again_s", False), ("again_empty_s", True)):
        process.kill()
        if gone:
            shutil.rmtree(folder / "state" / "state")
        begun_s, ends = time.monotonic(), place.written()
        process.revived()
        place.update(1)
        while place.written() == ends:
            if time.monotonic() - begun_s > _WITHIN_S:
                raise SystemExit("no output after a kill")
            time.sleep(0.1)
        more[name] = time.monotonic() - begun_s
    return more


def _idle_cores(place: JoinPlace, process: ApplicationProcess) -> float:
    """What an application takes to which nothing happens but that the source says how far it is."""
    watched = psutil.Process(process.pid)

    def processes() -> set[int]:
        return {each.pid for each in watched.children(recursive=True)}

    while True:
        there, before, begun_s = processes(), cpu_by_kind(watched), time.monotonic()
        while time.monotonic() - begun_s < _IDLE_S:
            place.captured.heartbeat()
            time.sleep(1)
        after, took_s = cpu_by_kind(watched), time.monotonic() - begun_s
        # The time of a worker that ended is in nobody's account.
        if there <= processes():
            return (sum(after.values()) - sum(before.values())) / took_s


def _p99_s(place: JoinPlace, rate: int = _RATE, beside: Callable[[], list[Transaction]] = list) -> float:
    """Changes at a steady rate, with something else beside at each tick.

    They are encoded before, as elsewhere another machine does that. Seconds from a change's commit until its output
    could be read, of 99 in 100.
    """
    seen: dict[int, float] = {}
    over = threading.Event()
    consumer = Consumer(
        {
            "bootstrap.servers": place.kafka,
            "group.id": "bench",
            "auto.offset.reset": "latest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    ready = threading.Event()
    consumer.subscribe([place.outputs[-1]], on_assign=lambda *_: ready.set())

    def read() -> None:
        while not over.is_set():
            for message in consumer.consume(5_000, 0.05):
                now_s = time.monotonic()
                headers: Any = message.headers() or []
                newest = max(each or 0 for each in vector_from_header(headers))
                if dict(headers).get(VECTOR_HEADER) is not None:
                    seen[newest] = now_s

    thread = threading.Thread(target=read)
    thread.start()
    if not ready.wait(30):
        raise SystemExit("the consumer was assigned nothing")
    time.sleep(2)
    count = round(rate * _TICK_S)
    ticks = [[*beside(), place.updates(count)] for _ in range(round(_PACED_S / _TICK_S))]
    committed: dict[int, float] = {}
    begun_s = time.monotonic()
    for tick, transactions in enumerate(ticks):
        end = [place.captured.write(each) for each in transactions][-1]
        now_s = time.monotonic()
        # The last one's changes.
        committed |= {version: now_s for version in range(end - count, end)}
        time.sleep(max(0.0, begun_s + (tick + 1) * _TICK_S - time.monotonic()))
    end_s = time.monotonic() + 60
    while max(committed) not in seen and time.monotonic() < end_s:
        time.sleep(0.2)
    # Other partitions may be read later.
    time.sleep(2)
    over.set()
    thread.join()
    consumer.close()
    # A join key that changes twice in a batch has one output, of the later change.
    took = sorted(seen[version] - at_s for version, at_s in committed.items() if version in seen)
    if len(took) < 0.5 * min(len(committed), place.keys):
        raise SystemExit(f"{len(took)} of {len(committed)} changes came out")
    return took[len(took) * 99 // 100]


def _tell(found: dict[str, Found], *, as_json: bool) -> int:
    # What it is; a figure, None where there is none; its bound, None where it is only told; whether that is a floor.
    bounds: list[tuple[str, float | None, float | None, bool]] = []
    for kind, each in found.items():
        if kind == "hot":
            more = each.more
            bounds.append(("p99 beside a hot join key, times", more["beside_s"] / more["before_s"], 2.0, False))
            bounds.append(("changes of it that were told of", more["held"], more["wanted"], True))
            continue
        bounds.append((f"{kind}: changes a CPU second", each.changes_a_cpu_s, _BOUNDS[kind], True))
        if kind == "three":
            bounds.append(("bootstrap: rows a CPU second", each.rows_a_cpu_s, _BOOTSTRAP, True))
            bounds.append(("p99 at 5,000 changes/s, seconds", each.more["p99_s"], 3.0, False))
            bounds.append(("idle, cores", each.more["idle_cores"], 0.15, False))
            live, rows = each.more["live_bytes"], each.more["rows_bytes"]
            bounds.append(("rows of the state / live input, bytes", rows / live, 1.3, False))
            bounds.append(("stores on disk / rows of the state, bytes", each.more["stores_bytes"] / rows, None, False))
            bounds.append(("outputs again after kill -9, seconds", each.more["again_s"], 60.0, False))
            bounds.append(("the same on an empty host, seconds", each.more["again_empty_s"], 300.0, False))
        if each.flink is not None:
            flink = each.flink
            bounds.append(("Flink's MultiJoin with RocksDB: rows a CPU second", flink.rows_a_cpu_s, None, True))
            times = flink.times(each.rows_a_cpu_s)
            bounds.append(
                ("three: input rows a CPU second / Flink's MultiJoin with RocksDB, times", times, _OF_FLINK, True)
            )
            bounds.append(
                ("three: changes a CPU second / the same, times", flink.times(each.changes_a_cpu_s), None, True)
            )
    held = [
        wanted is None or (got is not None and (got >= wanted if at_least else got <= wanted))
        for _, got, wanted, at_least in bounds
    ]
    if as_json:
        said = {kind: each.told() for kind, each in found.items()}
        print(json.dumps({"found": said, "bounds": bounds, "held": all(held)}))
        return 0 if all(held) else 1
    for (what, got, wanted, at_least), good in zip(bounds, held, strict=True):
        figure = "not measured" if got is None else f"{got:,.2f}"
        bound = "" if wanted is None else f"{'>=' if at_least else '<='} {wanted:>10,.2f}"
        print(f"{what:<72} {figure:>12} {bound:<13}  {'' if good else 'MISSED'}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
