"""Definition of a backfill's plan: cuts to make again, and their sources. Printed before a run, kept in the bucket.

Cuts are those of the live generations, with their ends: neither dates nor the upload policy are derived anew. A
backfill of dates takes every cut that has a file of one of the days, in what was written live or in what readers read
now, or whose records' Kafka timestamps touch them (so that what a parser put under a wrong date or refused is among
them), and those with records filtered or refused of which no time is known. Each is made again whole, with all its
dates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from include.lake.backfill.selection import BackfillSelection
from include.lake.protocol.canonical import dump, load, offset, text, unreadable
from include.lake.protocol.chain_key import TopicKey

__all__ = ["BackfillPlan", "PlannedCut", "RawObject"]

_FIELDS: Final = frozenset({"asked", "topic_id", "prefix", "configuration", "cuts", "raw_prefix", "sources"})


class PlannedCut(NamedTuple):
    """[first, next) of a Kafka partition, which stands in the live generation `replaces`; readers read `reads`.

    `records` and `bytes` are those of what readers read now.
    """

    partition: int
    first: int
    next: int
    replaces: int
    reads: int
    records: int
    bytes: int


class RawObject(NamedTuple):
    """An object of the raw copy, which has records of a planned cut."""

    partition: int
    key: str
    bytes: int
    sha256: str
    records: int


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """The whole plan. `cuts` by partition and offset; `sources` are empty where records come from Kafka.

    `configuration` is the fingerprint of the parser that is asked for.
    """

    asked: BackfillSelection
    topic: TopicKey
    configuration: str
    cuts: tuple[PlannedCut, ...]
    raw: TopicKey | None = None
    sources: tuple[RawObject, ...] = ()

    @property
    def run(self) -> str:
        """A name for it, the same for the same plan."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:16]

    @property
    def records(self) -> int:
        """Of the objects that readers read now, filtered ones with them."""
        return sum(cut.records for cut in self.cuts)

    @property
    def bytes_read(self) -> int:
        """Of the raw objects; 0 where records come from Kafka."""
        return sum(source.bytes for source in self.sources)

    @property
    def bytes_replaced(self) -> int:
        """Of the objects that readers read now; about what will be written."""
        return sum(cut.bytes for cut in self.cuts)

    def by_replaced(self) -> dict[int, list[PlannedCut]]:
        """The cuts by the live generation that they stand in."""
        found: dict[int, list[PlannedCut]] = {}
        for cut in self.cuts:
            found.setdefault(cut.replaces, []).append(cut)
        return found

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dump(
            {
                "asked": self.asked.to_json(),
                "topic_id": self.topic.topic_id,
                "prefix": self.topic.prefix,
                "configuration": self.configuration,
                "cuts": [list(cut) for cut in self.cuts],
                "raw_prefix": self.raw.prefix if self.raw else None,
                "sources": [list(source) for source in self.sources],
            }
        )

    @classmethod
    def parse(cls, body: bytes, key: str) -> BackfillPlan:
        """Inverse of `to_bytes`; `Terminal` naming the object for anything else."""
        fields = load(body, key, _FIELDS)
        try:
            asked, topic_id = BackfillSelection.from_json(fields["asked"]), text(fields["topic_id"])
            raw_prefix = fields["raw_prefix"]
            return cls(
                asked,
                TopicKey(text(fields["prefix"]), asked.topic, topic_id),
                text(fields["configuration"]),
                tuple(PlannedCut(*map(offset, cut)) for cut in fields["cuts"]),
                None if raw_prefix is None else TopicKey(text(raw_prefix), asked.topic, topic_id),
                tuple(map(_source, fields["sources"])),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise unreadable(key, repr(error)) from error

    def to_json(self) -> dict[str, Any]:
        """Plain values for people's programs: totals, ranges and objects."""
        return {
            **self.asked.to_json(),
            "topic_id": self.topic.topic_id,
            "run": self.run,
            "cuts": [cut._asdict() for cut in self.cuts],
            "sources": [source._asdict() for source in self.sources],
            "records": self.records,
            "bytes_read": self.bytes_read,
            "bytes_replaced": self.bytes_replaced,
        }

    def ranges(self) -> Iterator[tuple[int, int, int, int]]:
        """(partition, first, until, cuts) of cuts that follow on each other."""
        begin = 0
        for number, cut in enumerate(self.cuts):
            after = self.cuts[number + 1] if number + 1 < len(self.cuts) else None
            if after is None or (after.partition, after.first) != (cut.partition, cut.next):
                yield cut.partition, self.cuts[begin].first, cut.next, number + 1 - begin
                begin = number + 1

    def lines(self) -> list[str]:
        """For a person."""
        asked = self.asked
        sources = {"raw": f"raw objects of group {asked.raw}", "secor": f"Secor's archive below {asked.raw}"}
        source = sources.get(asked.origin, "Kafka")
        lines = [
            f"backfill of {asked.topic} in group {asked.group}: {asked.what}, parser {asked.parser}, from {source}"
        ]
        lines += [
            f"  partition {partition}: offsets {first} to {until - 1}, {cuts} cuts"
            for partition, first, until, cuts in self.ranges()
        ]
        read = f"{len(self.sources)} objects, {self.bytes_read:,} bytes are read; " if self.raw else ""
        return [
            *lines,
            f"{len(self.cuts)} cuts, {self.records:,} records; {read}{self.bytes_replaced:,} bytes are replaced",
        ]


def _source(value: Sequence[Any]) -> RawObject:
    partition, key, size, sha256, records = value
    return RawObject(offset(partition), text(key), offset(size), text(sha256), offset(records))
