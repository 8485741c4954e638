"""A pointer: which version of a bucket is committed, and which objects it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import orjson

from include.errors import Terminal
from include.state.rows import CODEC

__all__ = ["BucketCounts", "BucketPointer", "Log"]

BucketCounts = Mapping[str, int]
"""What a bucket holds: `rows` and `bytes` (of keys and values), and what its stage counts beside them."""


@dataclass(frozen=True, slots=True)
class Log:
    """The changes that made one version of the one before it; `uid` is that version's, and the object's name."""

    uid: str
    bytes: int


@dataclass(frozen=True, slots=True)
class BucketPointer:
    """A version of a bucket.

    Args:
        uid: its name, never used twice.
        snapshot: the snapshot that it rests on; None: an empty bucket.
        logs: what came after that, oldest first; the last one is this version's, unless there is none.
        counts: see `BucketCounts`.
        due: when the bucket wants to be opened though nothing came for it, in its stage's own time; None: never.
    """

    uid: str
    snapshot: str | None = None
    logs: tuple[Log, ...] = ()
    counts: BucketCounts = field(default_factory=dict)
    due: int | None = None

    def to_bytes(self) -> bytes:
        """What is committed."""
        return orjson.dumps(
            {
                "codec": CODEC,
                "uid": self.uid,
                "snapshot": self.snapshot,
                "logs": [[log.uid, log.bytes] for log in self.logs],
                "counts": dict(sorted(self.counts.items())),
                "due": self.due,
            }
        )

    @classmethod
    def from_bytes(cls, committed: bytes) -> Self:
        """Inverse of `to_bytes`.

        Raises:
            Terminal: no pointer, or one of a codec that this release does not know.
        """
        try:
            said = orjson.loads(committed)
            codec = said["codec"]
            if codec == CODEC:
                logs = tuple(Log(uid, size) for uid, size in said["logs"])
                return cls(said["uid"], said["snapshot"], logs, said["counts"], said["due"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise Terminal("a bucket's pointer cannot be read", got=committed[:200]) from error
        raise Terminal(
            "the state was written in another form than this release reads",
            codec=codec,
            allowed=CODEC,
            fix="Export it with the release that wrote it and import it with this one (`lyrebird state`).",
        )

    @property
    def log_bytes(self) -> int:
        """What has to be read beside the snapshot."""
        return sum(log.bytes for log in self.logs)
