"""A job of event time that runs as an application of its own, and what the log and its verdicts say it has to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import yaml

from include.clock import SystemClock
from include.eventtime.committed import CommittedJob, read_committed
from include.eventtime.config.definition import DeployedJob, declared_jobs
from include.eventtime.outputs import EVENT_TIME, JobOutput, OutputWriter
from include.eventtime.replay import ElementLine, IdleNotice, JobReplay, ReplayLine, replay
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.ports import Record, TopicSpec
from include.log.registry.confluent import ConfluentRegistry
from include.record.version import from_headers, number_of
from include.settings.deployment import Deployment
from include.store.s3 import S3Store

__all__ = ["PATIENCE_S", "JobHarness"]

PATIENCE_S = 120


class JobHarness:
    """Sources under a unique name, and a job that reads them.

    Args:
        name: unique.
        kafka: its address.
        registry_url: of the registry.
        s3: the object store.
        folder: of the deployment, the state and the run.
        partitions: source → how many it has.
        job: the entry of `eventtime`, whose application is filled in here; `sources` in the order of their names, and
            times in a field `at`.
        more: other sections.
    """

    def __init__(
        self,
        name: str,
        kafka: str,
        registry_url: str,
        s3: Any,
        folder: Path,
        partitions: Mapping[str, int],
        job: Mapping[str, Any],
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self.name, self.kafka, self.folder = name, kafka, folder
        self.admin, self.registry = KafkaAdmin(kafka), ConfluentRegistry(registry_url)
        self.reader, self.writer = KafkaReader(kafka), KafkaWriter(kafka, f"devices-{name}")
        self.application, self.sources = f"detect_{name}", list(job["sources"])
        for topic, count in partitions.items():
            self.admin.ensure(TopicSpec(topic, count))
        self.bucket = S3Store(s3.endpoint, name, s3.access_key, s3.secret_key)
        self.bucket.ensure_bucket()
        outputs = [each["topic"] for each in job["outputs"].values()]
        application = {"entry": "spark_apps/process_events.py", "topics": outputs}
        others = dict(more or {})
        values = {
            "eventtime": {"job": {"application": self.application, **job}},
            "applications": {self.application: application, **others.pop("applications", {})},
            "kafka": {"bootstrap": kafka},
            "registry": {"url": registry_url},
            "store": {
                "endpoint": s3.endpoint,
                "bucket": name,
                "access_key": s3.access_key,
                "secret_key": s3.secret_key,
            },
            **others,
        }
        (folder / "all.yaml").write_text(yaml.safe_dump(values))

    def close(self) -> None:
        self.reader.close()
        self.writer.close()

    @property
    def deployment(self) -> Deployment:
        return Deployment.load(self.folder, {})

    @property
    def job(self) -> DeployedJob:
        return declared_jobs(self.deployment)["job"]

    @property
    def topic(self) -> str:
        return self.job.topic

    def committed(self) -> CommittedJob | None:
        there = self.admin.describe(topics.state(self.topic))
        return read_committed(self.reader, self.topic) if there else None

    def is_read(self) -> bool:
        """Whether the job has committed all that was sent."""
        group = f"{self.application}.{self.topic}.0"
        return self.committed() is not None and all(
            self.reader.committed(group, source["topic"]) == self.reader.end_offsets(source["topic"])
            for source in self.sources
        )

    def wait(self, holds: Callable[[], bool], alive: Callable[[], bool] = lambda: True) -> None:
        clock = SystemClock()
        until = clock.monotonic_s() + PATIENCE_S
        while not holds():
            assert alive()
            assert clock.monotonic_s() < until
            clock.sleep(0.2)

    def expected(self) -> tuple[list[JobOutput], JobReplay]:
        """What the log and the verdicts in it say, by the algorithm without engine."""
        committed = self.committed()
        assert committed is not None
        job, (bound_us,) = self.job, {each.bound_us for each in self.job.entry.sources}
        made = replay(job.process, list(self._lines()), bound_us=bound_us, batch=97, open_end=True)
        assert made.watermark == committed.watermark
        ids = {
            name: (self._id(f"{each.topic}-key"), self._id(f"{each.topic}-value"))
            for name, each in job.entry.outputs.items()
        }
        return OutputWriter(job.process, self.sources[0]["key"], ids).write(made.emitted), made

    def _id(self, subject: str) -> int:
        found = self.registry.newest(subject)
        assert found is not None
        return found

    def written(self) -> list[JobOutput]:
        """What the job has written, a key's outputs in the order of their versions."""
        found = []
        for name, output in self.job.entry.outputs.items():
            for record in self.records(output.topic):
                time = int(dict(record.headers)[EVENT_TIME] or b"")
                number = number_of(from_headers(record.headers))
                found.append(JobOutput(name, record.key or b"", record.value or b"", number, time))
        return found

    def late(self) -> list[tuple[str, bytes | None, bytes | None]]:
        """(topic, partition, offset) of all that the job has set aside as too late."""
        return [
            (source["topic"], said["late.partition"], said["late.offset"])
            for source in self.sources
            for record in self.records(topics.late(source["topic"], self.application))
            for said in (dict(record.headers),)
        ]

    def records(self, topic: str) -> Iterator[Record]:
        begins = self.reader.begin_offsets(topic)
        for partition, end in self.reader.end_offsets(topic).items():
            yield from self.reader.read(topic, partition, begins[partition], end)

    def _lines(self) -> Iterator[ReplayLine]:
        for source in self.sources:
            yield from self._lines_of(source)

    def _lines_of(self, source: Mapping[str, Any]) -> Iterator[ReplayLine]:
        topic, unit_us = source["topic"], {"us": 1, "ms": 1_000}[source["time"]["unit"]]
        verdicts: dict[int, list[ReplayLine]] = {}
        for record in self.records(topics.idle(topic, self.application)):
            partition, offset = map(int, (record.key or b"").split(b"/"))
            idle = IdleNotice(source=topic, partition=partition, next_offset=offset, time=0)
            verdicts.setdefault(partition, []).append(ReplayLine(0, idle, int(record.value or b"")))
        for partition, end in self.reader.end_offsets(topic).items():
            mine = verdicts.get(partition, [])
            for record in self.reader.read(topic, partition, 0, end):
                said = orjson.loads(record.value or b"")
                track = ElementLine(
                    source=topic,
                    partition=partition,
                    offset=record.offset,
                    key=said[source["key"]],
                    time=0,
                    value=said,
                )
                while mine and mine[0].said.next_offset <= record.offset:  # type: ignore[union-attr]
                    yield mine.pop(0)
                yield ReplayLine(0, track, said["at"] * unit_us)
            yield from mine


def assert_equal(written: Sequence[JobOutput], expected: Sequence[JobOutput]) -> None:
    """Each output once, byte by byte, and a key's in order."""
    assert len(written) == len(set(written))
    assert sorted(written) == sorted(expected)
