"""What a join has committed beside its outputs: the pointers of its state's buckets, and what ranks and floors need.

It stands in the compacted topic `<topic>.state`, written in each batch's own transaction: a key for each bucket, and
one for the join itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self, cast

import orjson

from include.errors import Terminal
from include.join.bucket import BucketKey, Stage
from include.log.ports import Record

__all__ = ["Committed"]

_JOIN: Final = b"join"


@dataclass
class Committed:
    """As of the last batch.

    Args:
        buckets: parts of the state, for ever.
        definition: of the join that made the state, as text; '' where nobody compares it.
        base: rank at which the next batch begins.
        floors: topic → version below which no row of it lives.
        pointers: bucket → the version that it stands at; buckets that have never been written are missing.
    """

    buckets: int
    definition: str = ""
    base: int = 0
    floors: dict[str, int] = field(default_factory=dict)
    pointers: dict[BucketKey, bytes] = field(default_factory=dict)

    @classmethod
    def read(cls, records: Iterable[Record], buckets: int | None, definition: str = "") -> Self:
        """The newest of each key; `buckets` is what the first start fixes, None: as many as it has.

        Raises:
            Terminal: the state has another number of buckets, or is another join's.
        """
        newest = {record.key: record.value for record in records}
        found = cls(buckets or 0, definition)
        for key, value in newest.items():
            if key is not None and value is not None and key != _JOIN:
                stage, _, bucket = key.decode().partition("/")
                found.pointers[cast(Stage, stage), int(bucket)] = value
        join = newest.get(_JOIN)
        if join is None:
            return found
        said = orjson.loads(join)
        if buckets is None:
            found.buckets = said["buckets"]
        elif said["buckets"] != buckets:
            raise Terminal(
                "the join's state has another number of buckets than its file says",
                has=said["buckets"],
                file=buckets,
                fix="Write the number that it has, or export the state and import it into as many.",
            )
        if definition and said["definition"] != definition:
            raise Terminal(
                "the join's file is not the one that its state was made by",
                was=said["definition"],
                now=definition,
                fix="Write it as it was, or give the changed join another `output.source`: a topic of its own.",
            )
        found.base, found.floors = said["base"], said["floors"]
        return found

    def of_join(self, base: int, floors: Mapping[str, int]) -> tuple[bytes, bytes]:
        """The record of the join itself, as (key, value)."""
        said = {
            "buckets": self.buckets,
            "definition": self.definition,
            "base": base,
            "floors": dict(sorted(floors.items())),
        }
        return _JOIN, orjson.dumps(said)

    @staticmethod
    def of_buckets(pointers: Mapping[BucketKey, bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The records of these buckets, as (key, value)."""
        for (stage, bucket), pointer in sorted(pointers.items()):
            yield f"{stage}/{bucket}".encode(), pointer
