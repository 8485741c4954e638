"""A task's share of a batch: from records of sources to what each bucket has to do."""

from __future__ import annotations

import marshal
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from include.errors import InvalidRecord
from include.eventtime.algorithm.order import ArrivedElement
from include.eventtime.algorithm.watermark import IdleVerdict, PartitionWatermark, TopicPartition
from include.eventtime.reading import ElementReader
from include.log.ports import Record
from include.record.key import partition_of

__all__ = ["ElementGathering", "ElementWork", "LateRecord", "RefusedElement"]

_FORM: Final = 2


@dataclass(frozen=True, slots=True)
class RefusedElement:
    """A record that is no element, and why."""

    record: Record
    reason: str


@dataclass(frozen=True, slots=True)
class LateRecord:
    """A record whose event time (µs) the watermark of its partition had reached."""

    record: Record
    time: int
    watermark: int


@dataclass(slots=True)
class ElementWork:
    """What one bucket has to do, of one task or of several.

    Args:
        elements: that came in time.
        lows: the watermarks of the partitions that were read, behind what was read.
        late: of all buckets, in that of the first one.
        refused: the same.
        counts: the same, of sources by name: read, late, refused, none (no element).
    """

    elements: list[ArrivedElement] = field(default_factory=list)
    lows: dict[TopicPartition, int] = field(default_factory=dict)
    late: list[LateRecord] = field(default_factory=list)
    refused: list[RefusedElement] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def pack(self) -> bytes:
        """Bytes for another worker of the same application."""
        rare = self.late, self.refused, self.counts
        packed = pickle.dumps(rare, pickle.HIGHEST_PROTOCOL) if any(rare) else b""
        return marshal.dumps((list(map(tuple, self.elements)), self.lows, packed), _FORM)

    @classmethod
    def unpack(cls, frames: Iterable[bytes]) -> Self:
        """All that was packed for one bucket, in the order of the frames."""
        work = cls()
        for frame in frames:
            elements, lows, packed = marshal.loads(frame)  # noqa: S302 - this application's own workers
            work.elements += map(ArrivedElement._make, elements)
            work.lows |= lows
            if packed:
                late, refused, counts = pickle.loads(packed)  # noqa: S301 - this application's own workers
                work.late += late
                work.refused += refused
                work.counts.update(counts)
        return work


class ElementGathering:
    """Takes the records of a task in, each partition whole and in its order, and hands out each bucket's work.

    Args:
        readers: topic → what reads its records.
        lows: the watermark of each partition before its first record here.
        bounds: topic → how much earlier (µs) than one before it an element may be; None: nothing is late.
        verdicts: those that a replay has to repeat, by partition and offset.
        buckets: how many the state has.
        whole: makes a record of what `take` is given as its message; only few are kept.
    """

    def __init__(
        self,
        readers: Mapping[str, ElementReader],
        lows: Mapping[TopicPartition, int],
        bounds: Mapping[str, int | None],
        verdicts: Mapping[TopicPartition, Sequence[IdleVerdict]],
        buckets: int,
        whole: Callable[[Any], Record],
    ) -> None:
        self._readers, self._whole = readers, whole
        self._watermarks = {
            place: PartitionWatermark(low, bounds[place[0]], verdicts.get(place, ())) for place, low in lows.items()
        }
        self._work = [ElementWork() for _ in range(buckets)]
        self._counts: dict[str, Counter[str]] = {topic: Counter() for topic in readers}

    def take(
        self, topic: str, partition: int, offset: int, timestamp_ms: int, value: bytes | None, message: Any
    ) -> None:
        """Takes one record; what is late or cannot be read is kept, to be written to where such records go.

        Args:
            topic: of the record.
            partition: its number.
            offset: the one after that of the partition's last record, or a later one.
            timestamp_ms: Kafka's own, ms since the epoch.
            value: as bytes; None: a tombstone.
            message: what `whole` makes the record of, should it be kept.
        """
        counts = self._counts[topic]
        counts["read"] += 1
        try:
            element = self._readers[topic].read(partition, offset, timestamp_ms, value)
        except InvalidRecord as error:
            counts["refused"] += 1
            self._work[0].refused.append(RefusedElement(self._whole(message), f"{type(error).__name__}: {error}"))
            return
        if element is None:
            counts["none"] += 1
            return
        watermark = self._watermarks[topic, partition]
        if watermark.late(offset, element[0]):
            counts["late"] += 1
            self._work[0].late.append(LateRecord(self._whole(message), element.time, watermark.low))
        else:
            self._work[partition_of(element.key, len(self._work))].elements.append(element)

    def work(self, ends: Mapping[TopicPartition, int]) -> dict[int, bytes]:
        """Bucket → its work, packed, for all buckets: each has to know how far the partitions are.

        `ends`: the next offsets of the partitions that were read.
        """
        for place, end in ends.items():
            self._watermarks[place].reach(end)
        lows = {place: self._watermarks[place].low for place in ends}
        told = {(topic, what): count for topic, counts in self._counts.items() for what, count in counts.items()}
        self._work[0].counts = Counter(told)
        return {bucket: work.pack() for bucket, work in self._with(lows)}

    def _with(self, lows: dict[TopicPartition, int]) -> Iterator[tuple[int, ElementWork]]:
        for bucket, work in enumerate(self._work):
            work.lows = lows
            yield bucket, work
