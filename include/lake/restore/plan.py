"""A restore as a value: what is asked for, and what of the backup goes where. Made without side effects."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from include.errors import SettingsError
from include.lake.backfill.selection import Days, Offsets, span_ms
from include.lake.parsing.zones import zone
from include.lake.protocol.canonical import dump, load, offset, text, unreadable
from include.lake.protocol.chain_key import TopicKey

__all__ = ["RestoreAsked", "RestorePlan"]

_FIELDS: Final = frozenset({"asked", "source", "partitions", "ranges", "records", "bytes", "objects", "lost"})


@dataclass(frozen=True)
class RestoreAsked:
    """What of a topic is to be written where. Of `days` and `offsets` at most one is given; without both, all.

    `days` are those of the records' Kafka timestamps in `zone`. `offsets` [from, until) name the only partitions that
    are restored. `keep_ids`: schema ids of keys and values stay as they are, whatever a registry knows.
    """

    topic: str
    target: str
    days: Days | None = None
    zone: str = "UTC"
    offsets: Offsets = field(default_factory=dict)
    keep_ids: bool = True

    def __post_init__(self) -> None:
        if self.days is not None and self.offsets:
            raise SettingsError("a restore is of days or of offsets", fix="Leave --offsets out, or --from and --until.")
        for partition, (first, until) in self.offsets.items():
            if not first < until:
                raise SettingsError(
                    "no range of offsets", partition=partition, offsets=f"{first}-{until}", fix="Write 0:100-200."
                )
        try:
            zone(self.zone)
        except ValueError as error:
            raise SettingsError("no such time zone", got=self.zone, fix=f"{error}.") from None

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """[from, until) of the timestamps that are asked for, in epoch milliseconds; None: any."""
        return None if self.days is None else span_ms(self.days, [self.zone])

    @property
    def what(self) -> str:
        """Days or offsets in words."""
        if self.days is not None:
            return f"{self.days} ({self.zone})"
        ranges = (f"{p}:{first}-{until}" for p, (first, until) in sorted(self.offsets.items()))
        return f"offsets {', '.join(ranges)}" if self.offsets else "all records"

    def to_json(self) -> dict[str, Any]:
        """Plain values, the same for the same request."""
        return {
            "topic": self.topic,
            "target": self.target,
            "days": [str(self.days.first), str(self.days.last)] if self.days else None,
            "zone": self.zone,
            "offsets": {str(partition): list(ends) for partition, ends in self.offsets.items()},
            "keep_ids": self.keep_ids,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RestoreAsked:
        """Inverse of `to_json`; KeyError, TypeError or ValueError for anything else."""
        days = value["days"]
        return cls(
            topic=text(value["topic"]),
            target=text(value["target"]),
            days=Days(*map(dt.date.fromisoformat, days)) if days else None,
            zone=text(value["zone"]),
            offsets={int(p): (offset(first), offset(until)) for p, (first, until) in value["offsets"].items()},
            # A plan that does not say it kept them.
            keep_ids=bool(value.get("keep_ids", True)),
        )


@dataclass(frozen=True)
class RestorePlan:
    """What is read of the backup `source`: by partition [first, until), one after another.

    `records` are those of all cuts in these ranges, of which days or offsets may leave some out; `size_bytes` those of
    their `objects`. `lost`: (partition, first, until) that Kafka had dropped before the backup had them.
    """

    asked: RestoreAsked
    source: TopicKey
    partitions: int
    ranges: Offsets
    records: int
    size_bytes: int
    objects: int
    lost: tuple[tuple[int, int, int], ...] = ()

    def lines(self) -> list[str]:
        """For a person."""
        target = f"{self.asked.target}, {self.partitions} partitions"
        size = f"{self.objects:,} objects, {self.size_bytes:,} bytes, up to {self.records:,} records"
        lines = [
            f"{self.asked.what} of {self.source.topic} (id {self.source.topic_id}) to {target}",
            f"from {self.source.prefix}: {size}",
        ]
        lines += [f"  partition {p}: offsets {first:,} to {until - 1:,}" for p, (first, until) in self._sorted()]
        lines += [f"  partition {p}: Kafka had lost offsets {a:,} to {b - 1:,} before" for p, a, b in self.lost]
        return lines

    def _sorted(self) -> list[tuple[int, tuple[int, int]]]:
        return sorted(self.ranges.items())

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "asked": self.asked.to_json(),
            "source": [self.source.prefix, self.source.topic, self.source.topic_id],
            "partitions": self.partitions,
            "ranges": {str(partition): list(ends) for partition, ends in self.ranges.items()},
            "records": self.records,
            "bytes": self.size_bytes,
            "objects": self.objects,
            "lost": [list(each) for each in self.lost],
        }

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dump(self.to_json())

    @classmethod
    def parse(cls, body: bytes, key: str) -> RestorePlan:
        """Inverse of `to_bytes`; `Terminal` naming the object for anything else."""
        fields = load(body, key, _FIELDS)
        try:
            prefix, topic, topic_id = map(text, fields["source"])
            return cls(
                asked=RestoreAsked.from_json(fields["asked"]),
                source=TopicKey(prefix, topic, topic_id),
                partitions=offset(fields["partitions"]),
                ranges={int(p): (offset(first), offset(until)) for p, (first, until) in fields["ranges"].items()},
                records=offset(fields["records"]),
                size_bytes=offset(fields["bytes"]),
                objects=offset(fields["objects"]),
                lost=tuple((offset(p), offset(a), offset(b)) for p, a, b in fields["lost"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise unreadable(key, repr(error)) from error
