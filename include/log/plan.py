"""What one batch of a stream covers, and how the next one follows from it. Pure: no Kafka, no Spark, no clock.

A `StreamOffset` is what Spark keeps in a query's offset log: where the batch began, where it ends, the ids of the
topics that these offsets belong to, and the resolved record that it was cut at, if it was. Because it names its own
starts, one file of the offset log tells the whole batch (`BatchPlan`), also for partitions that were new in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from include.errors import SettingsError, Terminal
from include.log.resolved import Resolved
from include.log.topics import TopicName
from include.record.position import SourcePosition

__all__ = ["BatchPlan", "Cut", "Limits", "Partition", "StreamOffset", "StreamSpec", "batch_plan", "governed", "step"]

Partition = tuple[str, int]
"""(topic, Kafka partition)."""


@dataclass(frozen=True)
class Cut:
    """The resolved record that a batch ends at.

    Every change of `source` up to `position` lies below the batch's ends, but for the tables in `uncovered`.
    `resolved_offset` is the record's own offset: it orders the cuts of one resolved topic.
    """

    source: str
    sequence: int
    version: int
    position: SourcePosition
    uncovered: tuple[str, ...]
    resolved_offset: int

    @classmethod
    def of(cls, record: Resolved, offset: int) -> Cut:
        """The cut that a resolved record at `offset` of its topic makes."""
        return cls(record.source, record.sequence, record.version, record.position, record.uncovered, offset)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "source": self.source,
            "sequence": self.sequence,
            "version": self.version,
            "position": self.position.to_json(),
            "uncovered": list(self.uncovered),
            "resolved_offset": self.resolved_offset,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Cut:
        """Inverse of `to_json`."""
        return cls(
            value["source"],
            value["sequence"],
            value["version"],
            SourcePosition.from_json(value["position"]),
            tuple(value["uncovered"]),
            value["resolved_offset"],
        )


@dataclass(frozen=True)
class StreamOffset:
    """The end of a batch as Spark's offset log keeps it. `starts` and `ends` are next offsets, half-open."""

    starts: Mapping[Partition, int] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    cut: Cut | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values in a fixed order: Spark compares offsets by their text."""
        return {
            "starts": _nested(self.starts),
            "ends": _nested(self.ends),
            "ids": dict(sorted(self.ids.items())),
            "cut": self.cut.to_json() if self.cut else None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """Inverse of `to_json`."""
        cut = value["cut"]
        return cls(_flat(value["starts"]), _flat(value["ends"]), value["ids"], Cut.from_json(cut) if cut else None)

    def to_text(self) -> str:
        """JSON."""
        return json.dumps(self.to_json())

    @classmethod
    def from_text(cls, text: str) -> StreamOffset:
        """Inverse of `to_text`."""
        return cls.from_json(json.loads(text))


@dataclass(frozen=True)
class BatchPlan:
    """What a batch reads: `start` <= offset < `ends` of each (topic, partition).

    A partition that the stream has not met yet is in neither map. `topic_ids` are those of all topics met so far.
    """

    start: dict[Partition, int]
    ends: dict[Partition, int]
    topic_ids: dict[str, str]
    cut: Cut | None


@dataclass(frozen=True)
class Limits:
    """Most offsets of one partition in one batch: per topic, else `limit`, else none."""

    limit: int | None = None
    topics: Mapping[str, int] = field(default_factory=dict)

    def of(self, topic: str) -> int | None:
        """The limit of a partition of `topic`."""
        return self.topics.get(topic, self.limit)


@dataclass(frozen=True)
class StreamSpec:
    """What a stream reads, in plain values that travel to Spark's planner and workers as text."""

    bootstrap: str
    topics: tuple[str, ...]
    start: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    cut_at: str | None = None
    limit: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    tasks: int = 2
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    slices: bool = False
    cut_limit: int | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.cut_at is not None and self.limit is not None:
            raise SettingsError(
                "a stream that is cut at resolved records takes each step whole",
                cut_at=self.cut_at,
                limit=self.limit,
                fix="Leave `limit` out; `limits` holds for topics that the resolved record does not speak for.",
            )
        if self.tasks < 1 or not self.topics:
            raise SettingsError("a stream needs a topic and a task", topics=list(self.topics), tasks=self.tasks)

    def to_text(self) -> str:
        """JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> StreamSpec:
        """Inverse of `to_text`."""
        raw = json.loads(text)
        start = {topic: {int(p): offset for p, offset in ends.items()} for topic, ends in raw.pop("start").items()}
        return cls(topics=tuple(raw.pop("topics")), start=start, **raw)

    def initial(self) -> StreamOffset:
        """Where the stream begins: what `start` names, nothing for the rest."""
        ends = {
            (topic, p): offset for topic, of in self.start.items() if topic in self.topics for p, offset in of.items()
        }
        ids = {topic: self.topic_ids[topic] for topic in self.topics if topic in self.topic_ids}
        return StreamOffset(starts=ends, ends=ends, ids=ids)


def governed(topic: str, cut_at: str) -> bool:
    """Whether the records of the resolved topic `cut_at` speak for `topic`.

    `cdc.<source>.resolved` speaks for the source's tables and its control topic, `<topic>.resolved` for `<topic>`.
    """
    return TopicName.parse(topic).resolved == TopicName.parse(cut_at)


def step(
    start: StreamOffset,
    *,
    available: Mapping[Partition, int],
    begins: Mapping[Partition, int],
    ids: Mapping[str, str],
    cut: Cut | None = None,
    limits: Limits | None = None,
) -> StreamOffset | None:
    """The batch after `start`, or None when there is nothing new.

    Args:
        start: the end of the batch before.
        available: next offset after the last readable record, of each partition that may be read now. What lies
            below `start` is ignored: a batch never goes back.
        begins: first offset of each partition of `available` that `start` does not have.
        ids: the topics' ids.
        cut: the resolved record that `available` belongs to; a later one than start's is news by itself.
        limits: most offsets of a partition.
    """
    limits = limits or Limits()
    starts = dict(start.ends)
    ends = dict(start.ends)
    for partition, newest in available.items():
        first = starts.setdefault(partition, begins.get(partition, 0))
        most = limits.of(partition[0])
        ends[partition] = max(first, newest if most is None else min(newest, first + most))
    moved = any(ends[partition] > first for partition, first in starts.items())
    later = cut is not None and (start.cut is None or cut.resolved_offset > start.cut.resolved_offset)
    if not moved and not later:
        return None
    topics = {topic for topic, _ in ends}
    known = {**start.ids, **{topic: ids[topic] for topic in topics if topic in ids}}
    return StreamOffset(starts, ends, known, cut if later else start.cut)


def batch_plan(checkpoint: Path, batch_id: int) -> BatchPlan:
    """Read a batch from its query's offset log, which Spark writes before it runs the batch.

    Raises:
        Terminal: there is no such batch, or the query has not exactly one source of ours.
    """
    file = checkpoint / "offsets" / str(batch_id)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise Terminal("the query's offset log has no such batch", file=str(file), batch=batch_id) from error
    # Line 1 is the log's format, line 2 the batch's metadata; one line for each source follows.
    if len(lines) != 3 or lines[0] != "v1":
        raise Terminal("the query's offset log is not that of one source", file=str(file), lines=len(lines))
    offset = StreamOffset.from_text(lines[2])
    return BatchPlan(dict(offset.starts), dict(offset.ends), dict(offset.ids), offset.cut)


def _nested(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        out.setdefault(topic, {})[str(partition)] = offset
    return out


def _flat(offsets: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    return {(topic, int(p)): offset for topic, of in offsets.items() for p, offset in of.items()}
