"""The state that a job commits beside its outputs: pointers of its buckets, the watermarks, and savepoints.

It stands in the compacted topic `<topic>.state` of the job's first output, written in each batch's own transaction: a
key for each bucket, and one for the job itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import orjson

from include.clock import iso
from include.errors import Terminal
from include.eventtime.algorithm.watermark import NEVER, TopicPartition
from include.log import topics
from include.log.ports import LogReader, Record
from include.state.opening import StatePlace
from include.state.pointer import BucketPointer

__all__ = ["CommittedJob", "Savepoint", "committed_pointers", "day_of", "read_committed", "state_place"]

_JOB: Final = b"job"
_BUCKET: Final = b"bucket/"
_SAVEPOINT: Final = b"savepoint/"


@dataclass
class CommittedJob:
    """As of the last batch.

    Args:
        buckets: parts of the state, for ever.
        sources: topics by rank, those among them that are read no more.
        lows: the watermark of each partition that is read.
        watermark: the job's, µs; it never goes back.
        topic_ids: those that offsets belong to.
        pointers: bucket → the version that it stands at; buckets that have never been written are missing.
        savepoints: day → what stood when the watermark had passed its midnight.
    """

    buckets: int
    sources: tuple[str, ...] = ()
    lows: dict[TopicPartition, int] = field(default_factory=dict)
    watermark: int = NEVER
    topic_ids: dict[str, str] = field(default_factory=dict)
    pointers: dict[int, bytes] = field(default_factory=dict)
    savepoints: dict[str, Savepoint] = field(default_factory=dict)

    @classmethod
    def read(cls, records: Iterable[Record], buckets: int | None) -> Self:
        """The newest of each key; `buckets` is what the first start fixes, None: as many as it has.

        Raises:
            Terminal: the state has another number of buckets.
        """
        newest = {record.key: record.value for record in records}
        committed = cls(buckets or 0)
        for key, value in newest.items():
            if key is not None and value is not None and key.startswith(_BUCKET):
                committed.pointers[int(key.removeprefix(_BUCKET))] = value
            elif key is not None and value is not None and key.startswith(_SAVEPOINT):
                committed.savepoints[key.removeprefix(_SAVEPOINT).decode()] = Savepoint.from_bytes(value)
        job = newest.get(_JOB)
        if job is None:
            return committed
        said: dict[str, Any] = orjson.loads(job)
        if buckets is not None and said["buckets"] != buckets:
            raise Terminal(
                "the job's state has another number of buckets than is declared",
                has=said["buckets"],
                declared=buckets,
                fix="Declare the number that it has.",
            )
        committed.buckets, committed.sources = said["buckets"], tuple(said["sources"])
        committed.lows = _flat(said["lows"])
        committed.watermark, committed.topic_ids = said["watermark"], said["topic_ids"]
        return committed

    @property
    def due(self) -> int | None:
        """The least time for which any bucket has something."""
        return min(
            (due for each in self.pointers.values() if (due := BucketPointer.from_bytes(each).due) is not None),
            default=None,
        )

    def counts(self) -> Counter[str]:
        """Adds up what the pointers count: rows, bytes, buffered elements, timers."""
        found = Counter[str]()
        for pointer in self.pointers.values():
            found.update(BucketPointer.from_bytes(pointer).counts)
        return found

    def of_job(self) -> tuple[bytes, bytes]:
        """The record of the job itself, as (key, value)."""
        said = {
            "buckets": self.buckets,
            "sources": self.sources,
            "lows": _nested(self.lows),
            "watermark": self.watermark,
            "topic_ids": dict(sorted(self.topic_ids.items())),
        }
        return _JOB, orjson.dumps(said)

    @staticmethod
    def of_buckets(pointers: Mapping[int, bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The records of these buckets, as (key, value)."""
        for bucket, pointer in sorted(pointers.items()):
            yield _BUCKET + b"%d" % bucket, pointer


@dataclass(frozen=True)
class Savepoint:
    """The job as it stood behind the first batch past midnight by its watermark: a replay of a day begins with it.

    Args:
        sources: as `CommittedJob` has them; so are `lows`, `watermark` and `pointers`.
        ends: the sources' next offsets.
        outputs: next offsets of the outputs' topics before that batch.
    """

    sources: tuple[str, ...]
    lows: Mapping[TopicPartition, int]
    watermark: int
    pointers: Mapping[int, bytes]
    ends: Mapping[TopicPartition, int]
    outputs: Mapping[TopicPartition, int]

    def to_bytes(self) -> bytes:
        """JSON."""
        said = {
            "sources": self.sources,
            "lows": _nested(self.lows),
            "watermark": self.watermark,
            "pointers": {str(bucket): pointer.decode() for bucket, pointer in sorted(self.pointers.items())},
            "ends": _nested(self.ends),
            "outputs": _nested(self.outputs),
        }
        return orjson.dumps(said)

    @classmethod
    def from_bytes(cls, kept: bytes) -> Self:
        """Inverse of `to_bytes`."""
        said: dict[str, Any] = orjson.loads(kept)
        return cls(
            tuple(said["sources"]),
            _flat(said["lows"]),
            said["watermark"],
            {int(bucket): pointer.encode() for bucket, pointer in said["pointers"].items()},
            _flat(said["ends"]),
            _flat(said["outputs"]),
        )

    @staticmethod
    def key(day: str) -> bytes:
        """Of its record."""
        return _SAVEPOINT + day.encode()


def day_of(us: int) -> str:
    """The day of a time, `2026-11-02`, UTC."""
    return iso(us)[:10]


def read_committed(reader: LogReader, topic: str) -> CommittedJob | None:
    """Reads what the job whose first output is `topic` has committed; None when it never has."""
    name = topics.state(topic)
    begins = reader.begin_offsets(name)
    if not begins:
        return None
    found = CommittedJob.read(reader.read(name, 0, begins[0], reader.end_offsets(name)[0]), None)
    return found if found.sources else None


def committed_pointers(reader: LogReader, topic: str, stage: str) -> list[tuple[tuple[str, int], bytes]]:
    """The pointers that are committed now, and those of savepoints, as what keeps house asks for them."""
    found = read_committed(reader, topic)
    kept = [] if found is None else [found.pointers, *(each.pointers for each in found.savepoints.values())]
    return [((stage, bucket), pointer) for pointers in kept for bucket, pointer in pointers.items()]


def state_place(topic: str, folder: Path) -> StatePlace:
    """The place of the job's state; `folder`: where this host keeps its state."""
    return StatePlace(str(folder / "state" / topic), f"state/{topic}/")


def _nested(of: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for (topic, partition), value in sorted(of.items()):
        out.setdefault(topic, {})[str(partition)] = value
    return out


def _flat(said: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {(topic, int(p)): value for topic, of in said.items() for p, value in of.items()}
