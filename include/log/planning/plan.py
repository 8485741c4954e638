"""Definition of a batch of a stream, and of the step to the next one. Pure: no Kafka, no Spark, no clock.

A `StreamOffset` is what Spark keeps in a query's offset log: where the batch began, where it ends, the ids of the
topics that these offsets belong to, and the resolved records that it is complete to, one for each source. Because it
names its own starts, one file of the offset log tells the whole batch (`BatchPlan`), also for partitions that were new
in it.

A step to later resolved records that exceeds the limits is gone in parts: a `StreamOffset` on the way names its
`BatchGoal`, and its batch is complete to nothing. The goal stays as it is until the last part arrives there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from include.errors import SettingsError, Terminal
from include.log.resolved import ResolvedRecord
from include.log.topics import TopicName
from include.record.position import SourcePosition

__all__ = [
    "BatchGoal",
    "BatchLimits",
    "BatchPlan",
    "Cut",
    "Partition",
    "ResolvedCuts",
    "ResolvedSource",
    "StreamOffset",
    "StreamSpec",
    "batch_plan",
    "governed",
    "step",
]

Partition = tuple[str, int]
"""(topic, Kafka partition)."""
ResolvedSource = tuple[str, str]
"""(resolved topic, source)."""


@dataclass(frozen=True)
class Cut:
    """A resolved record that a batch is complete to.

    Every change of `source` up to `position`, in the topics that the record speaks for, lies below the batch's ends,
    but for the tables in `uncovered`. `resolved_offset` is the record's own offset: it orders the cuts of one resolved
    topic.
    """

    source: str
    sequence: int
    version: int
    position: SourcePosition
    uncovered: tuple[str, ...]
    resolved_offset: int

    @classmethod
    def of(cls, record: ResolvedRecord, offset: int) -> Cut:
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


ResolvedCuts = Mapping[ResolvedSource, Cut]


@dataclass(frozen=True)
class BatchGoal:
    """Resolved records, and the ends (next offsets) below which all lies that they speak for."""

    cuts: ResolvedCuts
    ends: Mapping[Partition, int]

    @property
    def cut(self) -> Cut:
        """The cut of a resolved topic that carries one source."""
        (cut,) = self.cuts.values()
        return cut

    @property
    def offset(self) -> int:
        """The last of its records, of a goal within one resolved topic."""
        return max(cut.resolved_offset for cut in self.cuts.values())

    def to_json(self) -> dict[str, Any]:
        """Plain values in a fixed order."""
        return {"cuts": _cuts_to_json(self.cuts), "ends": _nested(self.ends)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BatchGoal:
        """Inverse of `to_json`."""
        return cls(_cuts_from_json(value["cuts"]), _flat(value["ends"]))


@dataclass(frozen=True)
class StreamOffset:
    """The end of a batch as Spark's offset log keeps it. `starts` and `ends` are next offsets, half-open.

    `cuts`: of each source the last one that a batch arrived at. `goal`: where this batch is on its way to.
    """

    starts: Mapping[Partition, int] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    cuts: ResolvedCuts = field(default_factory=dict)
    goal: BatchGoal | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values in a fixed order: Spark compares offsets by their text."""
        return {
            "starts": _nested(self.starts),
            "ends": _nested(self.ends),
            "ids": dict(sorted(self.ids.items())),
            "cuts": _cuts_to_json(self.cuts),
            "goal": self.goal.to_json() if self.goal else None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """Inverse of `to_json`."""
        goal = value["goal"]
        return cls(
            _flat(value["starts"]),
            _flat(value["ends"]),
            value["ids"],
            _cuts_from_json(value["cuts"]),
            BatchGoal.from_json(goal) if goal else None,
        )

    def to_text(self) -> str:
        """JSON."""
        return json.dumps(self.to_json())

    @classmethod
    def from_text(cls, text: str) -> StreamOffset:
        """Inverse of `to_text`."""
        return cls.from_json(json.loads(text))

    def reached(self, resolved_topic: str) -> int:
        """Offset of the last record of a resolved topic that a batch arrived at; -1: none yet."""
        return max(
            (cut.resolved_offset for (topic, _), cut in self.cuts.items() if topic == resolved_topic), default=-1
        )

    def plan(self) -> BatchPlan:
        """The batch that ends here."""
        return BatchPlan(dict(self.starts), dict(self.ends), dict(self.ids), {} if self.goal else dict(self.cuts))


@dataclass(frozen=True)
class BatchPlan:
    """The ranges that a batch reads: `start` <= offset < `ends` of each (topic, partition).

    A partition that the stream has not met yet is in neither map. `topic_ids` are those of all topics met so far.
    `cuts`: what everything below `ends` is complete to, empty while a far step is gone in parts.
    """

    start: dict[Partition, int]
    ends: dict[Partition, int]
    topic_ids: dict[str, str]
    cuts: dict[ResolvedSource, Cut] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """How many offsets it reads."""
        return sum(end - self.start[partition] for partition, end in self.ends.items())

    @property
    def cut(self) -> Cut | None:
        """The cut of a stream that is cut at one source alone."""
        if len(self.cuts) > 1:
            raise RuntimeError("a batch of several sources has no one cut")
        return next(iter(self.cuts.values()), None)


@dataclass(frozen=True)
class BatchLimits:
    """Most offsets of one partition in one batch: per topic, else `limit`, else none.

    `total`: most offsets of all partitions together; where a batch is to arrive at cuts, of those that they speak for,
    and as many of the others.
    """

    limit: int | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    total: int | None = None

    def __post_init__(self) -> None:
        """Refuse limits under which a stream would stand."""
        given = [each for each in (self.limit, self.total, *self.topics.values()) if each is not None]
        if min(given, default=1) < 1:
            raise SettingsError("a limit of a batch is one offset at least", got=min(given))

    def of(self, topic: str) -> int | None:
        """The limit of a partition of `topic`."""
        return self.topics.get(topic, self.limit)


@dataclass(frozen=True)
class StreamSpec:
    """Definition of a stream: what it reads, in plain values.

    Its text is an option of Spark's reader, which plans, pages and event logs show: it lacks the options of Kafka's
    clients, which have secrets and travel beside it.
    """

    bootstrap: str
    topics: tuple[str, ...]
    start: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    cut_at: tuple[str, ...] = ()
    limit: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    tasks: int = 2
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str | int | bool] = field(default_factory=dict, repr=False)
    slices: bool = False
    cut_limit: int | None = None
    total_limit: int | None = None
    slice_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.tasks < 1 or not self.topics:
            raise SettingsError("a stream needs a topic and a task", topics=list(self.topics), tasks=self.tasks)
        self.most()

    def most(self) -> BatchLimits:
        """The limits of each batch."""
        return BatchLimits(self.limit, self.limits, self.total_limit)

    def to_text(self) -> str:
        """JSON of all but `options`."""
        raw = asdict(self)
        del raw["options"]
        return json.dumps(raw)

    @classmethod
    def from_text(cls, text: str, options: Mapping[str, str | int | bool]) -> StreamSpec:
        """Inverse of `to_text`, with these options."""
        raw = json.loads(text)
        start = {topic: {int(p): offset for p, offset in ends.items()} for topic, ends in raw.pop("start").items()}
        return cls(
            topics=tuple(raw.pop("topics")), start=start, cut_at=tuple(raw.pop("cut_at")), options=options, **raw
        )

    def initial(self) -> StreamOffset:
        """The beginning of the stream: the offsets that `start` names, nothing for the rest."""
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
    goal: BatchGoal | None = None,
    limits: BatchLimits | None = None,
) -> StreamOffset | None:
    """The batch after `start`, or None when there is nothing new.

    Args:
        start: the end of the batch before. While it is on its way to a goal of its own, the batch goes on there.
        available: next offset after the last readable record, of each partition that may be read now and that no cut
            speaks for. What lies below `start` is ignored: a batch never goes back.
        begins: first offset of each partition of `available` and of the goal that `start` does not have.
        ids: the topics' ids.
        goal: resolved records to arrive at; those that are later than start's are news by themselves.
        limits: most offsets; what exceeds them is left to the next batch, and the goal with it.
    """
    limits = limits or BatchLimits()
    goal = start.goal or goal
    cuts = {key: cut for key, cut in goal.cuts.items() if _later(cut, start.cuts.get(key))} if goal else {}
    if not cuts:
        goal = None
    starts, ends = dict(start.ends), dict(start.ends)
    for partition, newest in {**available, **(goal.ends if goal else {})}.items():
        first = starts.setdefault(partition, begins.get(partition, 0))
        most = limits.of(partition[0])
        ends[partition] = max(first, newest if most is None else min(newest, first + most))
    if limits.total is not None:
        spoken = goal.ends if goal else {}
        for bound in (spoken, available.keys() - spoken.keys()):
            ends |= _shared({at: (starts[at], ends[at]) for at in bound}, limits.total)
    arrived = goal is not None and all(ends[at] >= end for at, end in goal.ends.items())
    if not arrived and not any(ends[partition] > first for partition, first in starts.items()):
        return None
    topics = {topic for topic, _ in ends}
    known = {**start.ids, **{topic: ids[topic] for topic in topics if topic in ids}}
    if arrived:
        return StreamOffset(starts, ends, known, {**start.cuts, **cuts})
    return StreamOffset(starts, ends, known, start.cuts, goal)


def _later(cut: Cut, than: Cut | None) -> bool:
    return than is None or cut.resolved_offset > than.resolved_offset


def _shared(ranges: Mapping[Partition, tuple[int, int]], total: int) -> dict[Partition, int]:
    """Ends that take `total` offsets of the ranges at most: of each its part, so that all are through together."""
    size = sum(end - first for first, end in ranges.values())
    if size <= total:
        return {partition: end for partition, (_, end) in ranges.items()}
    taken, seen, ends = 0, 0, dict[Partition, int]()
    for partition, (first, end) in sorted(ranges.items()):
        seen += end - first
        # The running sum is rounded, not the part: so no offset of the total is lost.
        part = seen * total // size - taken
        taken += part
        ends[partition] = first + part
    return ends


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
    return StreamOffset.from_text(lines[2]).plan()


def _cuts_to_json(cuts: ResolvedCuts) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for (topic, source), cut in sorted(cuts.items(), key=lambda each: each[0]):
        out.setdefault(topic, {})[source] = cut.to_json()
    return out


def _cuts_from_json(value: Mapping[str, Mapping[str, Any]]) -> dict[ResolvedSource, Cut]:
    return {(topic, source): Cut.from_json(each) for topic, of in value.items() for source, each in of.items()}


def _nested(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        out.setdefault(topic, {})[str(partition)] = offset
    return out


def _flat(offsets: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    return {(topic, int(p)): offset for topic, of in offsets.items() for p, offset in of.items()}
