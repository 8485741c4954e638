"""A task's share of a batch: from records of inputs to what each bucket of the state has to do."""

from __future__ import annotations

import marshal
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from include.errors import InvalidRecord
from include.join.algorithm.row import PlainTouch, Touch
from include.join.algorithm.whereabouts import RowSighting
from include.join.rows.reading import InputReader
from include.log.planning.plan import Partition
from include.log.ports import Record
from include.record.key import partition_of
from include.record.version import version_of

__all__ = ["LocatedResult", "RecordGathering", "RecordWork", "RefusedRecord"]

_FORM: Final = 2
"""Of marshal: later ones write what is equal in several ways, as it is referred to elsewhere or not."""


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that cannot be understood, and why."""

    record: Record
    reason: str


@dataclass(frozen=True)
class LocatedResult:
    """What the first stage made of a bucket's work, beside what it hands on; `pointer` as in `JoinBucketResult`."""

    pointer: bytes | None
    stale: int


@dataclass(slots=True)
class RecordWork:
    """What one bucket has to do, of one task or of several.

    `counts` are of inputs by name: read, refused, below_floor (of rows that
    a truncation removed), no_join_key (of rows that join nothing). `located`: what the first stage did on the way, by
    bucket.
    """

    touches: list[PlainTouch] = field(default_factory=list)
    sightings: list[RowSighting] = field(default_factory=list)
    refused: list[RefusedRecord] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    located: dict[int, LocatedResult] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Bytes for another worker of the same application."""
        rare = self.sightings, self.refused, self.located
        packed = pickle.dumps(rare, pickle.HIGHEST_PROTOCOL) if any(rare) else b""
        return marshal.dumps((self.touches, [*self.counts.items()], packed), _FORM)

    @classmethod
    def unpack(cls, frames: Iterable[bytes]) -> Self:
        """All that was packed for one bucket, in the order of the frames."""
        work = cls()
        for frame in frames:
            touches, counts, packed = marshal.loads(frame)  # noqa: S302 - this application's own workers
            work.touches += touches
            work.counts.update(dict(counts))
            if packed:
                sightings, refused, located = pickle.loads(packed)  # noqa: S301 - this application's own workers
                work.sightings += sightings
                work.refused += refused
                work.located.update(located)
        return work


class RecordGathering:
    """Takes the records of a task in, and hands out each bucket's work.

    Args:
        readers: topic → what reads its records.
        bases: what is added to an offset of a partition to get the record's rank.
        floors: topic → version below which no row of it lives.
        buckets: how many the state has.
    """

    def __init__(
        self,
        readers: Mapping[str, InputReader],
        bases: Mapping[Partition, int],
        floors: Mapping[str, int],
        buckets: int,
    ) -> None:
        self._readers, self._bases, self._floors = readers, bases, floors
        self._work = [RecordWork() for _ in range(buckets)]
        self._touches = [work.touches for work in self._work]
        compiled = {topic: reader.compiled for topic, reader in readers.items()}
        self._sources = {topic: source for topic, source in compiled.items() if source is not None}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._refused: list[RefusedRecord] = []

    def take_all(self, messages: Sequence[Any], record_of: Callable[[Any], Record]) -> None:
        """Messages of Kafka's client: most of them in C where that is there, and the rest of them as records."""
        if self._sources:
            from include.join.native._join import gather

            messages, taken = gather(messages, self._sources, self._bases, self._floors, self._touches)
            for topic, count in taken.items():
                self._counts[topic, "read"] += count
        for message in messages:
            self.take(record_of(message))

    def take(self, record: Record) -> None:
        """One record of an input; what cannot be understood is kept to be set aside."""
        topic, reader = record.topic, self._readers[record.topic]
        self._counts[topic, "read"] += 1
        rank = self._bases[topic, record.partition] + record.offset
        try:
            version = version_of(record.headers, record.offset, change=reader.change)
            if version < self._floors.get(topic, 0):
                self._counts[topic, "below_floor"] += 1
                return
            moves = reader.read(record.key, record.value, rank, version)
            moved = record.value is None
            for move in moves:
                moved = True
                if isinstance(move, Touch):
                    self._of(move.join_key).touches.append(move.plain())
                else:
                    self._of(move.key).sightings.append(move)
        except InvalidRecord as error:
            self._counts[topic, "refused"] += 1
            self._refused.append(RefusedRecord(record, f"{type(error).__name__}: {error}"))
            return
        if not moved:
            self._counts[topic, "no_join_key"] += 1

    def work(self) -> dict[int, bytes]:
        """Bucket → its work, packed; counts and refused records go with the first one."""
        made = {bucket: work for bucket, work in enumerate(self._work) if work.touches or work.sightings}
        if self._counts or self._refused:
            first = made.setdefault(min(made, default=0), RecordWork())
            first.refused, first.counts = self._refused, self._counts
        return {bucket: work.pack() for bucket, work in made.items()}

    def _of(self, key: bytes) -> RecordWork:
        return self._work[partition_of(key, len(self._work))]
