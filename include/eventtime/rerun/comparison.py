"""Outputs of a replay beside those of the live run: each key's outputs have the same versions, times and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from include.eventtime.algorithm.watermark import TopicPartition
from include.eventtime.outputs import EVENT_TIME, JobOutput
from include.log.ports import LogReader
from include.record.version import from_headers, number_of

__all__ = ["OutputDifference", "OutputDifferenceKind", "ReplayComparison", "compared", "outputs_in"]

OutputDifferenceKind = Literal["missing", "extra", "altered"]
"""Of the replay: an output that the live run has, one that it has not, one that is another."""


@dataclass(frozen=True)
class OutputDifference:
    """The first output that differs, by event time, key and version; a side without it has None."""

    kind: OutputDifferenceKind
    output: str
    key: bytes
    version: int
    time: int
    live: bytes | None
    replayed: bytes | None


@dataclass
class ReplayComparison:
    """What a comparison found: numbers of outputs, and the first that differs."""

    live: int = 0
    replayed: int = 0
    found: Counter[OutputDifferenceKind] = field(default_factory=Counter)
    first: OutputDifference | None = None

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.found


_Name = tuple[str, bytes, int]


def outputs_in(
    reader: LogReader,
    topics: Iterable[tuple[str, str]],
    after_us: int,
    until_us: int,
    begins: Mapping[TopicPartition, int],
) -> Iterator[JobOutput]:
    """The outputs of these (output, topic) with an event time in (after, until], from `begins` on where that says."""
    for output, topic in topics:
        first = reader.begin_offsets(topic)
        for partition, end in reader.end_offsets(topic).items():
            start = max(first[partition], begins.get((topic, partition), 0))
            for record in reader.read(topic, partition, start, end):
                time = int(dict(record.headers).get(EVENT_TIME) or b"0")
                if after_us < time <= until_us:
                    number = number_of(from_headers(record.headers))
                    yield JobOutput(output, record.key or b"", record.value or b"", number, time)


def compared(live: Iterable[JobOutput], replayed: Iterable[JobOutput]) -> ReplayComparison:
    """Both sides, in any order; the replay's outputs are held in memory meanwhile."""
    comparison = ReplayComparison()
    again: dict[_Name, JobOutput] = {(each.output, each.key, each.number): each for each in replayed}
    comparison.replayed = len(again)
    for live_output in live:
        comparison.live += 1
        other = again.pop((live_output.output, live_output.key, live_output.number), None)
        if other is None:
            _note(comparison, "missing", live_output, live_output.value, None)
        elif (other.time, other.value) != (live_output.time, live_output.value):
            _note(comparison, "altered", live_output, live_output.value, other.value)
    for other in again.values():
        _note(comparison, "extra", other, None, other.value)
    return comparison


def _note(
    found: ReplayComparison, kind: OutputDifferenceKind, of: JobOutput, live: bytes | None, replayed: bytes | None
) -> None:
    found.found[kind] += 1
    first = found.first
    if first is None or (of.time, of.key, of.number) < (first.time, first.key, first.version):
        found.first = OutputDifference(kind, of.output, of.key, of.number, of.time, live, replayed)
