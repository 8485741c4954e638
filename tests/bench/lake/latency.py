"""`make bench-lake`, latency: from the record that a producer is given to the commit that lists it, of idle topics too.

`spark_apps/lake_backup.py` runs as a deployment runs it, with a policy of age. One topic is written all the time; each
of the others gets a record now and then. Commits are looked for in the bucket's listing, ten times a second: that is
part of what is measured. Servers, writer and lake share all cores. Ends with 1 when the bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Producer

from include.lake.protocol.chain_key import CutKey
from include.log.kafka.log import KafkaAdmin
from include.log.ports import TopicSpec
from include.settings.connections import StoreSettings
from include.settings.environment import PROJECT_ROOT
from include.store.s3 import S3Store, store_of
from tests.bench.lake.place import RECORD_BYTES, LakePlace, lake_placed

__all__ = ["main"]

_APPLICATION: Final = "lake_bench"
_PREFIX: Final = "latency"
_BUSY: Final = "latency.busy"
_BUSY_PARTITIONS: Final = 4
_LOOK_EVERY_S: Final = 0.1
_GRACE_S: Final = 5.0
_WARM_S: Final = 120.0

_Spot = tuple[str, int]


@dataclass
class Records:
    """By topic and partition: offset → when it was written; end of a cut → when it was committed. For two threads."""

    written_s: dict[_Spot, dict[int, float]] = field(default_factory=dict)
    committed_s: dict[_Spot, dict[int, float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def on_written(self, topic: str, partition: int, offset: int, at_s: float) -> None:
        """A record is in the log."""
        self.written_s.setdefault((topic, partition), {})[offset] = at_s

    def on_committed(self, topic: str, partition: int, end: int, at_s: float) -> None:
        """A cut is whole."""
        with self.lock:
            self.committed_s.setdefault((topic, partition), {})[end] = at_s

    def lags(self, since_s: float) -> dict[str, list[float]]:
        """Of all that was written from then on, by kind of topic, sorted; what is not committed is not there."""
        found: dict[str, list[float]] = {"busy": [], "idle": []}
        for (topic, partition), written in self.written_s.items():
            commits = sorted(self.committed_s.get((topic, partition), {}).items())
            kind = "busy" if topic == _BUSY else "idle"
            for offset, at_s in written.items():
                seen_s = next((when for end, when in commits if end > offset), None)
                if at_s >= since_s and seen_s is not None:
                    found[kind].append(seen_s - at_s)
        return {kind: sorted(lags) for kind, lags in found.items()}

    def missing(self) -> int:
        """Records without a commit."""
        with self.lock:
            ends = {tp: max(commits) for tp, commits in self.committed_s.items()}
        return sum(offset >= ends.get(tp, 0) for tp, written in self.written_s.items() for offset in written)


def main() -> int:
    """Run, tell; 1 when the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--age", type=int, default=10, help="seconds: max_age_s of the policy")
    parser.add_argument("--rate", type=int, default=1000, help="records of 1 KB a second into the busy topic")
    parser.add_argument("--idle", type=int, default=20, help="topics that get a record now and then")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    with lake_placed(apart=False) as place:
        topics = [f"latency.idle.{number:03}" for number in range(arguments.idle)]
        admin = KafkaAdmin(place.kafka["bootstrap"])
        admin.ensure_all([TopicSpec(_BUSY, _BUSY_PARTITIONS), *(TopicSpec(topic, 1) for topic in topics)])
        records, stop = Records(), threading.Event()
        store = store_of(StoreSettings.model_validate(place.store))
        watcher = threading.Thread(target=_watch, args=(store, records, stop))
        try:
            with _running(place, arguments.age) as process:
                watcher.start()
                _warm(place, [_BUSY, *topics], records, process)
                begun_s = time.monotonic()
                _write(place, topics, records, arguments)
                _wait(records, process, 2 * arguments.age + _WARM_S)
        finally:
            stop.set()
            if watcher.is_alive():
                watcher.join()
            store.close()
    return _tell(records.lags(begun_s), arguments)


@contextmanager
def _running(place: LakePlace, age_s: int) -> Iterator[subprocess.Popen[bytes]]:
    """The application, in a deployment of its own."""
    deployed, run = place.folder / "deployment", place.folder / "run"
    for each in (deployed, run):
        each.mkdir()
    group = {
        "kind": "backup",
        "application": _APPLICATION,
        "topics": ["latency.*"],
        "prefix": _PREFIX,
        "policy": {"max_age_s": age_s},
        "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
    }
    # JSON is YAML.
    (deployed / "lake.yaml").write_text(
        json.dumps({"kafka": place.kafka, "store": place.store, "lake": {"bench": group}})
    )
    environment = {
        **os.environ,
        "LYREBIRD_DEPLOYMENT": str(deployed),
        "LYREBIRD_RUN": str(run),
        "LYREBIRD_STATE": str(place.folder / "state"),
        "PYTHONPATH": str(PROJECT_ROOT),
    }
    log = place.folder / "application.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "spark_apps/lake_backup.py", "--application", _APPLICATION],
            cwd=PROJECT_ROOT,
            env=environment,
            stdout=out,
            stderr=out,
        )
        try:
            yield process
        except BaseException:
            sys.stderr.write(log.read_text(errors="replace")[-2000:])
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def _watch(store: S3Store, records: Records, stop: threading.Event) -> None:
    """Notes when each commit can first be listed."""
    seen: set[str] = set()
    while not stop.is_set():
        for info in store.list(f"{_PREFIX}/_chain/"):
            if info.key in seen or not info.key.endswith(".commit"):
                continue
            at_s = time.monotonic()
            seen.add(info.key)
            found = store.get(info.key)
            if found is not None:
                chain = CutKey.parse(info.key, _PREFIX).chain
                records.on_committed(chain.of.topic, chain.partition, int(json.loads(found.body)["next"]), at_s)
        stop.wait(_LOOK_EVERY_S)


def _producer(place: LakePlace) -> Producer:
    return Producer({"bootstrap.servers": place.kafka["bootstrap"], "linger.ms": 5})


def _send(producer: Producer, records: Records, topic: str, partition: int) -> None:
    at_s = time.monotonic()

    def acknowledged(error: Any, message: Any) -> None:
        if error is not None:
            raise SystemExit(f"Kafka did not take a record: {error}")
        records.on_written(message.topic(), message.partition(), message.offset(), at_s)

    producer.produce(topic, b"x" * RECORD_BYTES, partition=partition, on_delivery=acknowledged)


def _warm(place: LakePlace, topics: list[str], records: Records, process: subprocess.Popen[bytes]) -> None:
    """Until a record of each topic is committed: Spark is up, and each topic has its pointer."""
    producer = _producer(place)
    for topic in topics:
        _send(producer, records, topic, 0)
    producer.flush(30)
    _wait(records, process, _WARM_S)


def _write(place: LakePlace, topics: list[str], records: Records, arguments: argparse.Namespace) -> None:
    producer, draw = _producer(place), random.Random(1)
    begun_s = time.monotonic()
    # Each idle topic three times, at times that have nothing to do with one another.
    quiet = sorted((draw.uniform(0, arguments.seconds), topic) for topic in topics for _ in range(3))
    for number in range(arguments.rate * arguments.seconds):
        due_s = number / arguments.rate
        while (ahead_s := begun_s + due_s - time.monotonic()) > 0:
            producer.poll(min(ahead_s, 0.01))
        while quiet and quiet[0][0] <= due_s:
            _send(producer, records, quiet.pop(0)[1], 0)
        _send(producer, records, _BUSY, number % _BUSY_PARTITIONS)
        producer.poll(0)
    for _, topic in quiet:
        _send(producer, records, topic, 0)
    if producer.flush(60):
        raise SystemExit("Kafka did not take all records")


def _wait(records: Records, process: subprocess.Popen[bytes], within_s: float) -> None:
    until_s = time.monotonic() + within_s
    while records.missing():
        if process.poll() is not None:
            raise SystemExit("the application ended")
        if time.monotonic() > until_s:
            raise SystemExit(f"{records.missing()} records were not committed within {within_s:g} s")
        time.sleep(0.2)


def _tell(lags: dict[str, list[float]], arguments: argparse.Namespace) -> int:
    wanted_s = arguments.age + _GRACE_S
    every = {**lags, "all": sorted(lags["busy"] + lags["idle"])}
    found = {
        kind: {"records": len(each), "p50_s": round(_at(each, 0.5), 2), "p99_s": round(_at(each, 0.99), 2)}
        for kind, each in every.items()
    }
    missed = [kind for kind, each in found.items() if each["p99_s"] > wanted_s]
    load = os.getloadavg()[0]
    if arguments.json:
        print(json.dumps({"age_s": arguments.age, "load": load, **found, "missed": missed}))
        return 1 if missed else 0
    for kind, each in found.items():
        print(
            f"{'MISSED' if kind in missed else 'held'}: produced → committed, {kind} topics: p50 {each['p50_s']} s, "
            f"p99 {each['p99_s']} s of {each['records']:,} records, wanted {wanted_s:g} (age {arguments.age} and 5)"
        )
    print(
        f"{arguments.idle} idle topics, {arguments.rate} records/s into {_BUSY_PARTITIONS} partitions; load {load:.1f}"
    )
    return 1 if missed else 0


def _at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("inf")


if __name__ == "__main__":
    sys.exit(main())
