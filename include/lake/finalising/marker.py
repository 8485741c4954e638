"""The markers in a date's folder, which Hive, Spark and DuckDB skip for their leading `_`.

    <prefix>/<topic>/<names>/_SUCCESS   the date is over; what it speaks of
    <prefix>/<topic>/<names>/_LATE      records came afterwards; which objects have them

`_SUCCESS` keeps the heads of all Kafka partitions up to which it speaks, and a digest of the objects that readers read
then. So a cut from its partition's head on is late, and other objects below the heads mean that a backfill replaced
some. Each renewal has the next `edition`: whoever has worked on a lower one works on the date again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from include.lake.protocol.canonical import choice, dump, load, offset, text, unreadable
from include.lake.protocol.object_key import topic_path

__all__ = ["LATE", "SUCCESS", "LateArrivals", "MarkerChange", "SuccessMarker", "digest_of", "marker_key"]

SUCCESS: Final = "_SUCCESS"
LATE: Final = "_LATE"

MarkerChange = Literal["finished", "late", "replaced"]
"""finished: the date is over; late: records came after that; replaced: a backfill was promoted since."""

MarkerHeads = Mapping[str, Mapping[int, int]]
"""By topic id and Kafka partition: the first offset of which it does not speak."""

_SUCCESS: Final = frozenset({"edition", "change", "heads", "objects", "records", "size_bytes", "digest", "announced"})
_LATE: Final = frozenset({"edition", "since", "heads", "objects"})
_CHANGES: Final[tuple[MarkerChange, ...]] = get_args(MarkerChange)


@dataclass(frozen=True, slots=True)
class SuccessMarker:
    """A date is over, as far as `heads`. `announced`: whether those who wait for the date were told of this edition."""

    edition: int
    change: MarkerChange
    heads: MarkerHeads
    objects: int
    records: int
    size_bytes: int
    digest: str
    announced: bool = False

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dump({**{name: getattr(self, name) for name in _SUCCESS}, "heads": _texts(self.heads)})

    @classmethod
    def parse(cls, body: bytes, key: str) -> SuccessMarker:
        """Inverse of `to_bytes`; `Terminal` naming the object for anything else."""
        fields = load(body, key, _SUCCESS)
        try:
            if type(fields["announced"]) is not bool:
                raise ValueError(f"{fields['announced']!r} is no truth value")
            return cls(
                edition=offset(fields["edition"]),
                change=choice(fields["change"], _CHANGES),
                heads=_heads(fields["heads"]),
                objects=offset(fields["objects"]),
                records=offset(fields["records"]),
                size_bytes=offset(fields["size_bytes"]),
                digest=text(fields["digest"]),
                announced=fields["announced"],
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise unreadable(key, repr(error)) from error


@dataclass(frozen=True, slots=True)
class LateArrivals:
    """`objects` hold what came after `since`; `_SUCCESS` speaks of them from `edition` on. The newest arrival only."""

    edition: int
    since: MarkerHeads
    heads: MarkerHeads
    objects: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dump(
            {
                "edition": self.edition,
                "since": _texts(self.since),
                "heads": _texts(self.heads),
                "objects": list(self.objects),
            }
        )

    @classmethod
    def parse(cls, body: bytes, key: str) -> LateArrivals:
        """Inverse of `to_bytes`; `Terminal` naming the object for anything else."""
        found = load(body, key, _LATE)
        try:
            objects = tuple(text(each) for each in found["objects"])
            return cls(offset(found["edition"]), _heads(found["since"]), _heads(found["heads"]), objects)
        except (AttributeError, TypeError, ValueError) as error:
            raise unreadable(key, repr(error)) from error


def marker_key(prefix: str, topic: str, folder: tuple[str, ...], name: str) -> str:
    """Where the marker of a date's folder lies."""
    return topic_path(prefix, topic) + "/".join([*folder, name])


def digest_of(files: Iterable[tuple[str, str]]) -> str:
    """Of objects, (key, SHA-256) each, in any order."""
    lines = "".join(f"{sha256} {key}\n" for key, sha256 in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


def _texts(heads: MarkerHeads) -> dict[str, dict[str, int]]:
    return {life: {str(partition): head for partition, head in each.items()} for life, each in heads.items()}


def _heads(value: Any) -> dict[str, dict[int, int]]:
    return {
        text(life): {int(partition): offset(head) for partition, head in each.items()} for life, each in value.items()
    }
