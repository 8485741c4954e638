"""The result of a restore: for a person, as JSON, and as the object `map` beside the offsets of transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import orjson

from include.lake.restore.copying import PartitionMap
from include.lake.restore.groups import TranslatedOffset
from include.lake.restore.manifest import Restore
from include.lake.restore.offset_map import Totals
from include.lake.restore.schema_ids import SchemaId

__all__ = ["RestoreResult"]

_WORDS = {
    "same": "the same record",
    "next": "the next record that was restored",
    "end": "after all that was restored",
    "none": "nothing of the partition was restored",
    "kept": "left as it was: the group has an offset there",
}


@dataclass(frozen=True)
class RestoreResult:
    """One that is whole."""

    restore: Restore
    maps: Mapping[int, PartitionMap]
    groups: Sequence[TranslatedOffset] = ()
    schema_ids: Sequence[SchemaId] = ()
    """Those that this run met and replaced."""

    @property
    def totals(self) -> Totals:
        """Of all partitions."""
        return reduce(Totals.plus, (each.totals for each in self.maps.values()), Totals())

    @property
    def map_key(self) -> str:
        """Of the object that has the map of transactions."""
        return f"{self.restore.folder}/map"

    def lines(self) -> list[str]:
        """For a person."""
        plan, totals = self.restore.plan, self.totals
        lines = [f"{totals.records:,} records of {plan.source.topic} are in {self.restore.target.name}"]
        for partition, each in sorted(self.maps.items()):
            new = f"{each.at:,} to {each.until - 1:,}" if each.totals.records else "none"
            lines.append(
                f"  partition {partition}: offsets {each.first:,} to {each.next - 1:,} are now {new}, "
                f"{each.totals.records:,} records"
            )
        if totals.left_out:
            lines.append(f"{totals.left_out:,} records of other days, or without a timestamp, were left out")
        if totals.redated:
            why = "Kafka's client takes a timestamp of 0 for now"
            lines.append(f"{totals.redated:,} records of 1970-01-01T00:00:00Z have the time of the restore: {why}")
        if totals.broker_dated:
            lines.append(f"{totals.broker_dated:,} timestamps were the broker's, and count as the producer's now")
        if totals.rewritten:
            lines.append(f"{totals.rewritten:,} records have other schema ids, as the registry knows them")
        lines += [f"  schema {at.old} of a {at.part} is {at.new} now" for at in self.schema_ids]
        lines.append(f"map of offsets: {self.map_key}, and one object for each transaction beside it")
        lines += [
            f"group {at.group}, partition {at.partition}: {at.old:,} is {at.new:,}: {_WORDS[at.how]}"
            for at in self.groups
        ]
        if not self.restore.resumed:
            lines.append(
                "a topic that a restore makes keeps all its records: declare its retention when you have looked"
            )
        return lines

    def to_json(self) -> dict[str, Any]:
        """Plain values; `ranges` are [first old offset, the one after the last, where the first is now]."""
        return {
            "plan": self.restore.plan.to_json(),
            "target": self.restore.target.name,
            "target_id": self.restore.target.named_id,
            "map": self.map_key,
            **self.totals._asdict(),
            "partitions": [
                {
                    "partition": partition,
                    "old": [partition_map.first, partition_map.next],
                    "new": [partition_map.at, partition_map.until],
                    **partition_map.totals._asdict(),
                    "ranges": [[part.first, part.next, part.at] for part in partition_map.parts],
                }
                for partition, partition_map in sorted(self.maps.items())
            ],
            "schema_ids": [each._asdict() for each in self.schema_ids],
            "groups": [
                {"group": at.group, "partition": at.partition, "old": at.old, "new": at.new, "how": at.how}
                for at in self.groups
            ],
        }

    def map_bytes(self) -> bytes:
        """Body of the object `map`: `to_json` without groups, which may be translated later, and what one run met."""
        return orjson.dumps({**self.to_json(), "groups": [], "schema_ids": []}, option=orjson.OPT_SORT_KEYS)
