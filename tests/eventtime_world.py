"""Tracks of devices over several partitions, the offline detector that reads them, and what it has to write."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import yaml

from include.clock import SystemClock
from include.eventtime.committed import Committed, read_committed
from include.eventtime.config.definition import DeployedJob, declared_jobs
from include.eventtime.outputs import EVENT_TIME, Output, OutputWriter
from include.eventtime.replay import Idle, Line, Replay, Track, replay
from include.log import topics
from include.log.kafka import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.ports import Record, TopicSpec
from include.log.registry import ConfluentRegistry
from include.record.version import from_headers, number_of
from include.settings.deployment import Deployment
from include.store.s3 import S3Store

__all__ = ["PATIENCE_S", "EventWorld"]

PATIENCE_S = 120
SECOND = 1_000_000
DAY_US = 86_400 * SECOND
PARTITIONS = 4
DISORDER_S = 5
TIMEOUT_S = 60


class EventWorld:
    """A topic of tracks under a unique name, of devices that are silent at times; `now` is the time of its events."""

    def __init__(self, name: str, kafka: str, registry_url: str, s3: Any, folder: Path, seed: int = 7) -> None:
        self.name, self.kafka, self.folder, self.draw = name, kafka, folder, random.Random(seed)
        self.admin, self.registry = KafkaAdmin(kafka), ConfluentRegistry(registry_url)
        self.reader, self.writer = KafkaReader(kafka), KafkaWriter(kafka, f"devices-{name}")
        self.tracks, self.application = f"{name}.tracks", f"detect_{name}"
        self.admin.ensure(TopicSpec(self.tracks, PARTITIONS))
        self.bucket = S3Store(s3.endpoint, name, s3.access_key, s3.secret_key)
        self.bucket.ensure_bucket()
        self.midnight = (SystemClock().now_us() // DAY_US - 1) * DAY_US
        # Ten minutes before a midnight that is past.
        self.now = self.midnight - 600 * SECOND
        self.planted_late = 0
        source = {
            "topic": self.tracks,
            "key": "device",
            "time": {"field": "at", "unit": "us"},
            "disorder_s": DISORDER_S,
            "idle_after_s": 20,
        }
        values = {
            "eventtime": {
                "status": {
                    "application": self.application,
                    "process": "include.eventtime.jobs.offline.Offline",
                    "sources": [source],
                    "settings": {"timeout": f"{TIMEOUT_S}s"},
                    "outputs": {
                        "status": {"topic": f"{name}.status", "compacted": True},
                        "events": {"topic": f"{name}.events"},
                    },
                    "buckets": 4,
                }
            },
            "applications": {
                self.application: {
                    "entry": "spark_apps/process_events.py",
                    "topics": [f"{name}.status", f"{name}.events"],
                }
            },
            "kafka": {"bootstrap": kafka},
            "registry": {"url": registry_url},
            "store": {
                "endpoint": s3.endpoint,
                "bucket": name,
                "access_key": s3.access_key,
                "secret_key": s3.secret_key,
            },
        }
        (folder / "all.yaml").write_text(yaml.safe_dump(values))

    def close(self) -> None:
        self.reader.close()
        self.writer.close()

    @property
    def job(self) -> DeployedJob:
        return declared_jobs(Deployment.load(self.folder, {}))["status"]

    def send(self, seconds: int, partitions: tuple[int, ...] = tuple(range(PARTITIONS))) -> None:
        """So many seconds of tracks: five a second, some out of order, now and then one that is late."""
        self.writer.begin()
        for _ in range(seconds):
            self.now += SECOND
            for _ in range(5):
                # Each device is silent for every third two minutes of its own.
                device = self.draw.randrange(12)
                if (self.now // SECOND // 120 + device) % 3 == 0:
                    continue
                early = self.draw.randrange(DISORDER_S * SECOND)
                if self.draw.random() < 0.01:
                    early, self.planted_late = 10 * DISORDER_S * SECOND, self.planted_late + 1
                value = orjson.dumps({"device": f"s{device}", "at": self.now - early, "battery": 50})
                self.writer.append(self.tracks, None, value, partition=self.draw.choice(partitions))
        self.writer.commit()

    def committed(self) -> Committed | None:
        name = topics.state(f"{self.name}.status")
        return read_committed(self.reader, f"{self.name}.status") if self.admin.describe(name) else None

    def is_read(self) -> bool:
        """Whether the job has committed all that was sent."""
        ends = self.reader.end_offsets(self.tracks)
        group = f"{self.application}.{self.name}.status.0"
        return self.committed() is not None and self.reader.committed(group, self.tracks) == ends

    def wait(self, holds: Callable[[], bool], alive: Callable[[], bool] = lambda: True) -> None:
        clock = SystemClock()
        until = clock.monotonic_s() + PATIENCE_S
        while not holds():
            assert alive()
            assert clock.monotonic_s() < until
            clock.sleep(0.2)

    def expected(self) -> tuple[list[Output], Replay]:
        """What the log and the verdicts in it say, by the algorithm without engine."""
        committed = self.committed()
        assert committed is not None
        job = self.job
        made = replay(job.process, list(self._lines()), bound_us=DISORDER_S * SECOND, batch=97, open_end=True)
        assert made.watermark == committed.watermark
        ids = {
            name: (self._id(f"{each.topic}-key"), self._id(f"{each.topic}-value"))
            for name, each in job.entry.outputs.items()
        }
        return OutputWriter(job.process, "device", ids).write(made.emitted), made

    def _id(self, subject: str) -> int:
        found = self.registry.newest(subject)
        assert found is not None
        return found

    def written(self) -> list[Output]:
        """What the job has written, a key's outputs in the order of their versions."""
        found = []
        for name in ("status", "events"):
            for record in self.records(f"{self.name}.{name}"):
                time = int(dict(record.headers)[EVENT_TIME] or b"")
                number = number_of(from_headers(record.headers))
                found.append(Output(name, record.key or b"", record.value or b"", number, time))
        return found

    def records(self, topic: str) -> Iterator[Record]:
        begins = self.reader.begin_offsets(topic)
        for partition, end in self.reader.end_offsets(topic).items():
            yield from self.reader.read(topic, partition, begins[partition], end)

    def _lines(self) -> Iterator[Line]:
        verdicts: dict[int, list[Line]] = {}
        for record in self.records(topics.idle(self.tracks, self.application)):
            partition, offset = map(int, (record.key or b"").split(b"/"))
            idle = Idle(source=self.tracks, partition=partition, next_offset=offset, time=0)
            verdicts.setdefault(partition, []).append(Line(0, idle, int(record.value or b"")))
        for partition in range(PARTITIONS):
            mine = verdicts.get(partition, [])
            for record in self.reader.read(self.tracks, partition, 0, self.reader.end_offsets(self.tracks)[partition]):
                said = orjson.loads(record.value or b"")
                track = Track(
                    source=self.tracks,
                    partition=partition,
                    offset=record.offset,
                    key=said["device"],
                    time=0,
                    value=said,
                )
                while mine and mine[0].said.next_offset <= record.offset:  # type: ignore[union-attr]
                    yield mine.pop(0)
                yield Line(0, track, said["at"])
            yield from mine
