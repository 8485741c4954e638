"""`python -m tests.bench.eventtime`: elements that the offline detector takes in for each CPU second, end to end.

Tracks in Kafka as JSON, unkeyed, of many devices over eight partitions; the application that a user would start
(driver, JVM and workers all count) on a real log, registry and object store. The first round makes a key and a timer
for each device; each later one has as many elements, each of another device, a little later, so that every state is
read and written and every timer moves. Tracks are held back by an open transaction until all are written, so that they
are found at once. Between the rounds the same job runs as Spark's own Python transformWithState with event-time
timers, over fewer tracks of the same kind. Last, what an idle application takes. Ends with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import psutil
import yaml

from include.clock import SystemClock
from include.log.kafka import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.ports import TopicSpec
from include.store.s3 import S3Store
from tests.bench.eventtime_peer import peer_cpu_s
from tests.bench.place import halves, served
from tests.bench.processes import cpu_by_kind
from tests.join_process import JoinProcess

_BOUND: Final = 40_000.0
_OF_PEER: Final = 10.0
_IDLE: Final = 0.15
_PARTITIONS: Final = 8
_WITHIN_S: Final = 900.0
_IDLE_S: Final = 20.0
_STEP_US: Final = 60_000_000


class Tracks:
    """A topic of tracks, and the detector that reads it."""

    def __init__(self, env: Mapping[str, str], folder: Path) -> None:
        self.topic, self.application = "bench.tracks", "bench_detector"
        kafka = env["LYREBIRD_KAFKA"]
        self.reader, self.writer = KafkaReader(kafka), KafkaWriter(kafka, "bench-devices")
        KafkaAdmin(kafka).ensure(TopicSpec(self.topic, _PARTITIONS))
        self.now_us = SystemClock().now_us() - 86_400_000_000
        self.ends: dict[int, int] = {}
        outputs: dict[str, dict[str, Any]] = {
            "status": {"topic": "bench.status", "compacted": True},
            "events": {"topic": "bench.events"},
        }
        job = {
            "application": self.application,
            "process": "include.eventtime.jobs.offline.Offline",
            "sources": [{"topic": self.topic, "key": "device", "time": {"field": "at", "unit": "us"}}],
            "outputs": outputs,
            "slice_s": 86_400,
        }
        values = {
            "eventtime": {"status": job},
            "applications": {
                self.application: {
                    "entry": "spark_apps/process_events.py",
                    "topics": [each["topic"] for each in outputs.values()],
                }
            },
            "kafka": {"bootstrap": kafka},
            "registry": {"url": env["LYREBIRD_REGISTRY"]},
            "store": {
                "endpoint": env["LYREBIRD_S3"],
                "bucket": "bench",
                "access_key": env["LYREBIRD_S3_ACCESS_KEY"],
                "secret_key": env["LYREBIRD_S3_SECRET_KEY"],
            },
        }
        (folder / "all.yaml").write_text(yaml.safe_dump(values))
        store: Any = values["store"]
        S3Store(store["endpoint"], store["bucket"], store["access_key"], store["secret_key"]).ensure_bucket()

    def values(self, devices: int) -> Iterator[bytes]:
        """A track of each device, a little later than the last ones."""
        self.now_us += _STEP_US
        for device in range(devices):
            at = self.now_us + device * 4_000_000 // devices
            yield orjson.dumps({"device": f"device-{device:08}", "at": at, "battery": 50, "lat": 52.5, "lon": 13.4})

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is written inside is seen behind it."""
        self.writer.begin()
        yield
        self.ends = {partition: end for (_, partition), end in self.writer.next_offsets().items()}
        self.writer.commit()

    def write(self, values: Iterator[bytes]) -> None:
        for number, value in enumerate(values):
            self.writer.append(self.topic, None, value, partition=number % _PARTITIONS)

    def await_all(self, process: JoinProcess) -> float:
        """Until the detector has committed all; the seconds that it took."""
        begun_s = time.monotonic()
        group = f"{self.application}.bench.status.0"
        while True:
            read = self.reader.committed(group, self.topic)
            if all(read.get(partition, 0) >= end for partition, end in self.ends.items()):
                return time.monotonic() - begun_s
            if time.monotonic() - begun_s > _WITHIN_S or not process.alive:
                raise SystemExit(f"not read within {_WITHIN_S:.0f} s: {process.tail()[-500:]}")
            time.sleep(0.2)


def main() -> int:
    """Write, process, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=200_000, help="each with a timer; as many elements a round")
    parser.add_argument("--peer", type=int, default=30_000, help="devices of the peer's rounds; 0: without it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    services = ["kafka", "registry", "s3"]
    with (
        tempfile.TemporaryDirectory() as name,
        served(services, Path(name) / "stack", halves(apart=False)[0]) as env,
    ):
        folder = Path(name) / "job"
        folder.mkdir()
        rounds, peer, idle = _measured(Tracks(env, folder), folder, arguments)
    figures: dict[str, tuple[float, float | None, bool]] = {
        "elements a CPU second": (statistics.median(rounds), _BOUND, True),
        "idle, cores": (idle, _IDLE, False),
    }
    if peer:
        figures["the same as transformWithState in Python, a CPU second"] = (statistics.median(peer), None, True)
        figures["times"] = (statistics.median(rounds) / statistics.median(peer), _OF_PEER, True)
    missed = False
    for what, (figure, bound, floor) in figures.items():
        bad = bound is not None and (figure < bound if floor else figure > bound)
        missed |= bad
        if not arguments.json:
            wanted = "" if bound is None else f" (bound {bound:,.2f}){': missed' if bad else ''}"
            print(f"{what:56} {figure:12,.2f}{wanted}")
    if arguments.json:
        print(json.dumps({what: figure for what, (figure, _, _) in figures.items()}))
    return int(missed)


def _measured(tracks: Tracks, folder: Path, arguments: Any) -> tuple[list[float], list[float], float]:
    process = JoinProcess(tracks.application, folder, script="spark_apps/process_events.py")
    found: list[float] = []
    peer: list[float] = []
    try:
        with tracks.held():
            tracks.write(tracks.values(1_000))
        tracks.await_all(process)
        for number in range(-1, arguments.rounds):
            watched = psutil.Process(process.pid)
            with tracks.held():
                tracks.write(tracks.values(arguments.devices))
                time.sleep(2)
                before = cpu_by_kind(watched)
            wall_s, after = tracks.await_all(process), cpu_by_kind(watched)
            spent = {part: after[part] - before[part] for part in after}
            rate = arguments.devices / sum(spent.values())
            told = ", ".join(f"{part} {each:.1f}" for part, each in spent.items())
            what = "first" if number < 0 else f"round {number + 1}"
            print(f"{what}: {rate:,.0f} a CPU second ({told} s; {wall_s:.1f} s)", file=sys.stderr)
            if number >= 0:
                found.append(rate)
                if arguments.peer:
                    peer.append(arguments.peer / peer_cpu_s(folder / f"peer{number}", arguments.peer))
                    print(f"peer: {peer[-1]:,.0f} a CPU second; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        watched = psutil.Process(process.pid)
        before, begun_s = cpu_by_kind(watched), time.monotonic()
        time.sleep(_IDLE_S)
        after = cpu_by_kind(watched)
        idle = (sum(after.values()) - sum(before.values())) / (time.monotonic() - begun_s)
    finally:
        process.kill()
        tracks.writer.close()
        tracks.reader.close()
    return found, peer, idle


if __name__ == "__main__":
    sys.exit(main())
