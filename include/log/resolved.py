"""Resolved records: a topic's own statement of what it is complete to (design.md §3).

A record says: every change of `source` up to `position` is in the log below `next_offsets`. Full maps name every
partition and stand under one of 48 rotating keys; deltas name the partitions that changed since the last record,
are keyed by sequence and are deleted after the next full map. `sequence` has no holes: a reader that misses one
knows nothing of the partitions until the next full map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from include.errors import InvalidRecord, Terminal
from include.record.position import SourcePosition

__all__ = ["FULL_KEYS", "Ends", "Resolved", "ResolvedView", "ResolvedWriter"]

FULL_KEYS: Final = 48
Ends = Mapping[tuple[str, int], int]
"""(topic, partition) -> next offset."""


@dataclass(frozen=True)
class Resolved:
    """One record of a resolved topic.

    `version` is the record's own row version; `uncovered` names the tables (`database.table`) that it does not
    speak for; `state` is what the writer itself needs for a restart (version counter, open XA, fingerprints).
    """

    source: str
    sequence: int
    version: int
    position: SourcePosition
    next_offsets: Ends
    full: bool
    uncovered: tuple[str, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> bytes:
        """`full-<n>` or `delta-<sequence>`, after the source's name."""
        kind = f"full-{self.sequence % FULL_KEYS}" if self.full else f"delta-{self.sequence}"
        return f"{self.source}/{kind}".encode()

    def value(self) -> bytes:
        """JSON, keys sorted."""
        ends: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in self.next_offsets.items():
            ends.setdefault(topic, {})[str(partition)] = offset
        return orjson.dumps(
            {
                "source": self.source,
                "sequence": self.sequence,
                "version": self.version,
                "position": self.position.to_json(),
                "next_offsets": ends,
                "full": self.full,
                "uncovered": list(self.uncovered),
                "state": dict(self.state),
            },
            option=orjson.OPT_SORT_KEYS,
        )

    @classmethod
    def parse(cls, data: bytes) -> Resolved:
        """Inverse of `value`; raises `InvalidRecord`."""
        try:
            raw = orjson.loads(data)
            return cls(
                source=raw["source"],
                sequence=raw["sequence"],
                version=raw["version"],
                position=SourcePosition.from_json(raw["position"]),
                next_offsets={
                    (topic, int(p)): offset for topic, ends in raw["next_offsets"].items() for p, offset in ends.items()
                },
                full=raw["full"],
                uncovered=tuple(raw["uncovered"]),
                state=raw["state"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, Terminal) as error:
            raise InvalidRecord("not a resolved record", reason=repr(error), head=data[:80].hex()) from error


class ResolvedView:
    """What a reader of a resolved topic knows, fed record by record in offset order."""

    def __init__(self) -> None:
        self.newest: Resolved | None = None
        self._ends: dict[tuple[str, int], int] = {}
        self._whole = False

    def on_record(self, value: bytes | None) -> Resolved | None:
        """Take a record; returns it when the ends are known at it, else None (tombstone, hole, repetition)."""
        if value is None:
            return None
        record = Resolved.parse(value)
        last = self.newest.sequence if self.newest else None
        if last is not None and record.sequence <= last:
            return None
        if record.full:
            self._ends, self._whole = dict(record.next_offsets), True
        elif self._whole and last is not None and record.sequence == last + 1:
            self._ends.update(record.next_offsets)
        else:
            self._whole = False
        self.newest = record
        return record if self._whole else None

    def ends(self) -> Ends | None:
        """The next offset of every partition at `newest`, or None while a full map is awaited."""
        return dict(self._ends) if self._whole else None


class ResolvedWriter:
    """Makes the records of one resolved topic: deltas, and a full map where the rules ask for one.

    A full map is made at the start, when the deltas' entries since the last one outnumber the map, and after
    `full_every_us` (one hour). `last`, `ends` and `deltas` (keys of deltas still in the topic) come from reading
    the topic at the start. `records` gives what one transaction appends: the record itself, and after a full
    map tombstones for the deltas that it replaces.
    """

    def __init__(
        self,
        source: str,
        last: Resolved | None,
        ends: Ends,
        *,
        deltas: Iterable[bytes] = (),
        full_every_us: int = 3_600_000_000,
    ) -> None:
        self._source = source
        self._ends = dict(ends)
        self._sequence = last.sequence if last else 0
        self._every_us = full_every_us
        self._full_at_us: int | None = None
        self._deltas = list(deltas)
        self._entries = 0

    def records(
        self,
        changed: Ends,
        *,
        version: int,
        position: SourcePosition,
        now_us: int,
        uncovered: Iterable[str] = (),
        state: Mapping[str, Any] | None = None,
    ) -> tuple[Resolved, list[tuple[bytes, bytes | None]]]:
        """The next record and what to append for it, in order. Call once a transaction; an abort needs a new writer."""
        self._ends.update(changed)
        self._entries += len(changed)
        due = self._full_at_us is None or now_us - self._full_at_us >= self._every_us
        full = due or self._entries > len(self._ends)
        self._sequence += 1
        record = Resolved(
            source=self._source,
            sequence=self._sequence,
            version=version,
            position=position,
            next_offsets=dict(self._ends) if full else dict(changed),
            full=full,
            uncovered=tuple(uncovered),
            state=state or {},
        )
        out: list[tuple[bytes, bytes | None]] = [(record.key, record.value())]
        if full:
            out.extend((key, None) for key in self._deltas)
            self._deltas, self._entries, self._full_at_us = [], 0, now_us
        else:
            self._deltas.append(record.key)
        return record, out
