"""The state that a join commits beside its outputs: pointers of its buckets, and what ranks and floors need.

It stands in the compacted topic `<topic>.state`, written in each batch's own transaction: a key for each bucket, and
one for the join itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self, cast

import orjson

from include.errors import Terminal
from include.join.bucket import BucketKey, JoinStage
from include.join.takeover import Takeover
from include.log import topics
from include.log.ports import LogReader, Record
from include.state.opening import StatePlace
from include.state.pointer import BucketPointer

__all__ = ["CommittedJoin", "committed_pointers", "read_committed", "state_place"]

_JOIN: Final = b"join"


@dataclass
class CommittedJoin:
    """As of the last batch.

    Args:
        buckets: parts of the state, for ever.
        definition: of the join whose outputs are out, as text; '' before the first batch.
        slots: of its inputs.
        takeover: of another join, while it goes on.
        base: rank at which the next batch begins.
        floors: topic → version below which no row of it lives.
        pointers: bucket → the version that it stands at; buckets that have never been written are missing.
        unverified: the state was imported, and nobody has compared it with the inputs yet: nothing is written from it.
    """

    buckets: int
    definition: str = ""
    slots: tuple[int, ...] = ()
    takeover: Takeover | None = None
    base: int = 0
    floors: dict[str, int] = field(default_factory=dict)
    pointers: dict[BucketKey, bytes] = field(default_factory=dict)
    unverified: bool = False

    @classmethod
    def read(cls, records: Iterable[Record], buckets: int | None) -> Self:
        """The newest of each key; `buckets` is what the first start fixes, None: as many as it has.

        Raises:
            Terminal: the state has another number of buckets.
        """
        newest = {record.key: record.value for record in records}
        committed = cls(buckets or 0)
        for key, value in newest.items():
            if key is not None and value is not None and key != _JOIN:
                stage, _, bucket = key.decode().partition("/")
                committed.pointers[cast(JoinStage, stage), int(bucket)] = value
        join = newest.get(_JOIN)
        if join is None:
            return committed
        said = orjson.loads(join)
        if buckets is None:
            committed.buckets = said["buckets"]
        elif said["buckets"] != buckets:
            raise Terminal(
                "the join's state has another number of buckets than its file says",
                has=said["buckets"],
                file=buckets,
                fix="Write the number that it has, or export the state and import it into as many.",
            )
        committed.base, committed.floors = said["base"], said["floors"]
        committed.definition, committed.slots = said["definition"], tuple(said["slots"])
        committed.unverified = said.get("unverified", False)
        committed.takeover = None if said["takeover"] is None else Takeover.from_json(said["takeover"])
        return committed

    @property
    def inputs(self) -> tuple[str, ...]:
        """The topics that are joined; nothing before the first batch."""
        return tuple(orjson.loads(self.definition)["inputs"]) if self.definition else ()

    def counts(self) -> Counter[str]:
        """Adds up what the pointers count; of the first stage, whose rows are no rows of inputs, its bytes alone."""
        found = Counter[str]()
        for (stage, _), pointer in self.pointers.items():
            said = BucketPointer.from_bytes(pointer).counts
            found.update({name: count for name, count in said.items() if stage == "rows" or name == "bytes"})
        return found

    def of_join(self) -> tuple[bytes, bytes]:
        """The record of the join itself, as (key, value)."""
        said = {
            "buckets": self.buckets,
            "definition": self.definition,
            "slots": self.slots,
            "takeover": None if self.takeover is None else self.takeover.to_json(),
            "base": self.base,
            "floors": dict(sorted(self.floors.items())),
            "unverified": self.unverified,
        }
        return _JOIN, orjson.dumps(said)

    @staticmethod
    def of_buckets(pointers: Mapping[BucketKey, bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The records of these buckets, as (key, value)."""
        for (stage, bucket), pointer in sorted(pointers.items()):
            yield f"{stage}/{bucket}".encode(), pointer


def read_committed(reader: LogReader, topic: str) -> CommittedJoin | None:
    """Reads what the join that writes `topic` has committed; None when it never has."""
    name = topics.state(topic)
    begins = reader.begin_offsets(name)
    if not begins:
        return None
    found = CommittedJoin.read(reader.read(name, 0, begins[0], reader.end_offsets(name)[0]), None)
    return found if found.definition else None


def committed_pointers(reader: LogReader, topic: str) -> list[tuple[tuple[str, int], bytes]]:
    """The pointers that are committed now, of the join that writes `topic`."""
    found = read_committed(reader, topic)
    return [] if found is None else [((stage, bucket), each) for (stage, bucket), each in found.pointers.items()]


def state_place(topic: str, folder: Path) -> StatePlace:
    """The place of the state of the join that writes `topic`; `folder`: where this host keeps its state."""
    return StatePlace(str(folder / "state" / topic), f"state/{topic}/")
