"""Tells how far a job is by what it has committed: no Spark, no state opened."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from include.clock import iso
from include.eventtime.algorithm.watermark import NEVER
from include.eventtime.committed import CommittedJob, read_committed
from include.eventtime.config.definition import DeployedJob
from include.log import topics
from include.log.ports import LogReader, TopicAdmin

__all__ = ["JobStatus", "job_status"]


@dataclass(frozen=True)
class JobStatus:
    """A job as it stands.

    Args:
        name: of the job.
        outputs: the topics that it writes.
        watermark: the time up to which everything has arrived; '' before anything is known.
        partitions: (topic, partition, watermark) of each that is read, the one that holds all others back first.
        buffered: elements that wait for the watermark.
        timers: that are set.
        state_bytes: of all that is kept.
        behind: offsets of all sources that are not read yet.
        late: records in the topics of late elements.
        verdicts: records in the topics of what moved idle partitions.
    """

    name: str
    outputs: tuple[str, ...]
    watermark: str
    partitions: tuple[tuple[str, int, str], ...]
    buffered: int
    timers: int
    state_bytes: int
    behind: int
    late: int
    verdicts: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For a person."""
        out = [f"{self.name}: {', '.join(self.outputs)}, {self.state_bytes / 1e6:,.1f} MB of state"]
        if not self.partitions:
            return [*out, "  has committed nothing yet: does it run? See `lyrebird status`"]
        topic, partition, low = self.partitions[0]
        out.append(f"  complete to {self.watermark or 'nothing yet'}; {self.behind:,} offsets of sources behind")
        out.append(f"  {topic}/{partition} holds it back, at {low or 'nothing yet'}")
        out.append(f"  {self.buffered:,} elements buffered, {self.timers:,} timers set")
        out.append(f"  {self.late:,} elements came too late; {self.verdicts:,} times an idle partition was moved on")
        return out


def job_status(job: DeployedJob, reader: LogReader, admin: TopicAdmin) -> JobStatus:
    """Reads how far a declared job is."""
    names, application = set(admin.names()), job.entry.application
    committed = read_committed(reader, job.topic) if topics.state(job.topic) in names else None
    committed = committed or CommittedJob(job.entry.buckets)
    counts, sources = committed.counts(), [source.topic for source in job.entry.sources]
    group = f"{application}.{job.topic}.0"
    behind = 0
    for topic in names.intersection(sources):
        read = reader.committed(group, topic)
        begins = reader.begin_offsets(topic)
        behind += sum(max(0, end - read.get(p, begins[p])) for p, end in reader.end_offsets(topic).items())

    def held(name: str) -> int:
        if name not in names:
            return 0
        begin = reader.begin_offsets(name)
        return sum(1 for p, end in reader.end_offsets(name).items() for _ in reader.read(name, p, begin[p], end))

    return JobStatus(
        job.name,
        tuple(output.topic for output in job.entry.outputs.values()),
        _time(committed.watermark),
        tuple(
            (topic, partition, _time(low))
            for (topic, partition), low in sorted(committed.lows.items(), key=lambda pair: (pair[1], pair[0]))
        ),
        counts["buffered"],
        counts["timers"],
        counts["bytes"],
        behind,
        sum(held(topics.late(topic, application)) for topic in sources),
        sum(held(topics.idle(topic, application)) for topic in sources),
    )


def _time(us: int) -> str:
    return "" if us == NEVER else iso(us)
