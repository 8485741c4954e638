"""Section `eventtime` of the deployment: which jobs run where, what they read, where their outputs go.

```yaml
eventtime:
  scooter_status:
    application: process_scooters
    process: include.eventtime.jobs.offline.Offline
    sources:
      - {topic: telemetry.tracks, key: device, time: {field: at, unit: ms}}
    settings: {timeout: 30m}
    outputs:
      status: {topic: scooters.status, compacted: true}
      events: {topic: scooters.events}
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from include.errors import SettingsError
from include.eventtime.config.process import process_class, require_sound
from include.eventtime.model.process import Process
from include.log import topics
from include.record.version import MAX_EPOCH
from include.settings.applications import Application
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = [
    "DeployedJob",
    "Idleness",
    "JobEntry",
    "JobOutputDefinition",
    "JobSourceDefinition",
    "TimeField",
    "TimeUnit",
    "declared_jobs",
]

SECTION = "eventtime"

TimeUnit = Literal["iso", "s", "ms", "us", "ns"]
"""iso: text, ISO 8601, without a zone UTC; the others: numbers since 1970-01-01 UTC."""

Idleness = Literal["resolved", "minimum"]
"""What moves the watermark of a partition that brings nothing. resolved: the resolved records of the source that a
change topic is of; minimum: the least watermark of the partitions that do bring something."""


class TimeField(Strict):
    """Where an element's event time stands."""

    field: str | None = Field(
        default=None, min_length=1, description="a field, dotted inside others; null: Kafka's time"
    )
    unit: TimeUnit = Field(default="iso", description="what the field's value is")


class JobSourceDefinition(Strict):
    """A topic that a job reads."""

    topic: str = Field(description="the topic; its partitioning does not matter")
    key: str = Field(min_length=1, description="the field, dotted inside others, that is the process's key")
    time: TimeField = Field(default=TimeField())
    value: str | None = Field(
        default=None, min_length=1, description="the field, dotted inside others, that handlers get; null: all fields"
    )
    disorder_s: float = Field(default=5.0, ge=0, description="how much earlier than one before it an element may be")
    idle: Idleness = Field(default="minimum", description="what moves the watermark of an idle partition")
    idle_after_s: float = Field(
        default=10.0, ge=0, description="`minimum`: behind by more than this a partition without records is idle"
    )
    ahead_s: float = Field(
        default=3600.0, gt=0, description="later than Kafka's own time by more, a record is set aside"
    )

    @property
    def bound_us(self) -> int:
        """`disorder_s` in microseconds."""
        return round(self.disorder_s * 1_000_000)


class JobOutputDefinition(Strict):
    """A topic that a job writes."""

    topic: str
    """Its name."""
    partitions: int = Field(default=2, ge=1)
    """Of the topic when it is made."""
    compacted: bool = Field(default=False, description="keeps the newest record of each key, instead of all for a time")


class JobEntry(Strict):
    """A job that runs."""

    application: str = Field(description="the entry of `applications` that hosts it, with others or alone")
    process: str = Field(pattern=r"^[A-Za-z_][\w.]*\.[A-Za-z_]\w*$", description="its class, dotted")
    sources: list[JobSourceDefinition] = Field(min_length=1, max_length=100)
    """The topics that it reads; their order decides between elements of one time."""
    settings: dict[str, Any] = Field(default_factory=dict, description="what the class's settings say")
    outputs: dict[str, JobOutputDefinition] = Field(min_length=1, description="a topic for each output of the class")
    buckets: int = Field(default=16, ge=1, le=4096, description="parts of the state; fixed by the first start")
    slice_s: float = Field(default=300.0, gt=0, description="while much is unread, partitions are read so far at once")
    savepoints_days: int = Field(default=8, ge=0, description="for so many days a replay may begin at midnight")
    held_alarm_s: float = Field(default=600.0, gt=0, description="a partition further behind is told of by mail")
    late_alarm: float = Field(default=0.01, gt=0, le=1, description="a larger part of late elements is told of by mail")
    epoch: int = Field(default=1, ge=1, le=MAX_EPOCH, description="raised when the outputs begin a new lineage")
    records_per_batch: int = Field(default=500_000, ge=1, description="most records that one batch reads")

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for what, names in (
            ("sources", [each.topic for each in self.sources]),
            ("outputs", [each.topic for each in self.outputs.values()]),
        ):
            if len(set(names)) != len(names):
                raise ValueError(f"`{what}` names a topic twice")
        return self


@dataclass(frozen=True)
class DeployedJob:
    """A job with its process, which is ready to be called."""

    name: str
    entry: JobEntry
    process: Process[Any]

    @property
    def topic(self) -> str:
        """That of the process's first output: its name is that of the job's state, and of the group of its offsets."""
        return self.entry.outputs[next(iter(self.process.outputs))].topic


def declared_jobs(deployment: Deployment) -> dict[str, DeployedJob]:
    """All jobs, checked against their processes and the other sections; raises `SettingsError` with the place."""
    jobs: dict[str, DeployedJob] = {}
    hosts = deployment.section("applications", Application)
    writers: dict[str, str] = {}
    readers: dict[tuple[str, str], str] = {}
    for name, entry in deployment.section(SECTION, JobEntry).items():
        where = (SECTION, name)
        process = _process(deployment, where, entry)
        host = hosts.get(entry.application)
        if host is None:
            raise unknown_name(deployment, (*where, "application"), entry.application, "applications")
        for number, source in enumerate(entry.sources):
            _named(deployment, (*where, "sources", number, "topic"), source.topic, topics.readable)
            other = readers.setdefault((entry.application, source.topic), name)
            if other != name:
                # Late elements and verdicts of a topic are kept by application.
                raise deployment.error(
                    (*where, "sources", number, "topic"),
                    "two jobs of one application read one topic",
                    topic=source.topic,
                    other=other,
                    fix="Give one of them an application of its own.",
                )
            if source.idle == "resolved" and topics.TopicName.parse(source.topic).kind != "change":
                raise deployment.error(
                    (*where, "sources", number, "idle"),
                    "only a captured table has resolved records",
                    topic=source.topic,
                    allowed=["minimum"],
                )
        for output, definition in entry.outputs.items():
            where_topic = (*where, "outputs", output, "topic")
            _named(deployment, where_topic, definition.topic, topics.declared)
            if definition.topic in {source.topic for source in entry.sources}:
                raise deployment.error(where_topic, "a job cannot read what it writes", got=definition.topic)
            if writers.setdefault(definition.topic, name) != name:
                raise deployment.error(
                    where_topic, "two jobs write one topic", topic=definition.topic, other=writers[definition.topic]
                )
            if definition.topic not in host.topics:
                raise deployment.error(
                    ("applications", entry.application, "topics"),
                    "the application does not name a topic that it writes",
                    topic=definition.topic,
                    fix=f"Add {definition.topic} to its `topics`.",
                )
        jobs[name] = DeployedJob(name, entry, process)
    return jobs


def _process(deployment: Deployment, where: tuple[str, str], entry: JobEntry) -> Process[Any]:
    try:
        kind = process_class(entry.process)
        settings = deployment.part((*where, "settings"), kind.settings_type)
        require_sound(kind, settings)
    except SettingsError as error:
        if "file" in error.details:
            raise
        raise deployment.error((*where, "process"), error.message, fix=error.fix, **error.details) from error
    if entry.outputs.keys() != kind.outputs.keys():
        raise deployment.error(
            (*where, "outputs"),
            "not the outputs of the process",
            got=sorted(entry.outputs),
            allowed=sorted(kind.outputs),
        )
    return kind(settings)


def _named(deployment: Deployment, path: tuple[str | int, ...], topic: str, check: Any) -> None:
    try:
        check(topic)
    except SettingsError as error:
        raise deployment.error(path, error.message, fix=error.fix, **error.details) from error
