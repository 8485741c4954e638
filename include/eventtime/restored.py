"""Sources of a replay that are elsewhere by now: topics made again from their backup, whose offsets are others.

Handlers get the topics and offsets that they got live; verdicts and savepoints are taken to where the records are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from include.eventtime.algorithm.watermark import TopicPartition
from include.eventtime.committed import Savepoint
from include.eventtime.config.definition import DeployedJob, JobSourceDefinition
from include.eventtime.verdicts import Verdicts

__all__ = ["CopiedSpan", "MovedSources", "RestoredSource"]


CopiedSpan = tuple[int, int, int]
"""So many records (the third), from an old offset (the first) on without a gap, are from a new one (the second) on."""


@dataclass(frozen=True)
class RestoredSource:
    """Where the records of a source are now, in the same partitions and order.

    Args:
        topic: that has them.
        spans: of each partition, in order.
    """

    topic: str
    spans: Mapping[int, Sequence[CopiedSpan]]

    def now(self, partition: int, old: int) -> int:
        """The offset there of the first record that was at `old` or behind it; the end, where there is none."""
        spans = self.spans.get(partition, ())
        at = bisect_left(spans, old, key=_last_old)
        if at < len(spans):
            return spans[at][1] + max(0, old - spans[at][0])
        return spans[-1][1] + spans[-1][2] if spans else 0

    def was(self, partition: int, new: int) -> int:
        """The offset that the record at `new` there has had."""
        spans = self.spans[partition]
        old, begin, _ = spans[bisect_right(spans, new, key=_new) - 1]
        return old + new - begin


def _last_old(span: CopiedSpan) -> int:
    return span[0] + span[2] - 1


def _new(span: CopiedSpan) -> int:
    return span[1]


@dataclass(frozen=True)
class MovedSources:
    """Sources by the names that they are declared with; those that are missing are where they were."""

    sources: Mapping[str, RestoredSource]

    def topic(self, source: str) -> str:
        """Where a source is now."""
        found = self.sources.get(source)
        return source if found is None else found.topic

    def job(self, job: DeployedJob) -> DeployedJob:
        """The same job, which reads there."""
        sources = [each.model_copy(update={"topic": self.topic(each.topic)}) for each in job.entry.sources]
        return replace(job, entry=job.entry.model_copy(update={"sources": sources}))

    def declared(self, job: DeployedJob) -> dict[str, tuple[JobSourceDefinition, RestoredSource | None]]:
        """Topic that is read → the source that was declared, and where that was restored to."""
        return {self.topic(each.topic): (each, self.sources.get(each.topic)) for each in job.entry.sources}

    def verdicts(self, verdicts: Verdicts) -> Verdicts:
        """The same of the places where the records are now."""
        return {
            (self.topic(place[0]), place[1]): [
                each._replace(place=(self.topic(place[0]), place[1]), next_offset=self._offset(place, each.next_offset))
                for each in those
            ]
            for place, those in verdicts.items()
        }

    def savepoint(self, savepoint: Savepoint) -> Savepoint:
        """The same, to go on with there."""
        return replace(
            savepoint,
            sources=tuple(map(self.topic, savepoint.sources)),
            lows={(self.topic(topic), partition): low for (topic, partition), low in savepoint.lows.items()},
            ends={(self.topic(place[0]), place[1]): self._offset(place, end) for place, end in savepoint.ends.items()},
        )

    def _offset(self, place: TopicPartition, offset: int) -> int:
        found = self.sources.get(place[0])
        return offset if found is None else found.now(place[1], offset)
