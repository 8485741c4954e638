"""Resolved records: a topic's own statement of what it is complete to (design.md §3).

A record says: every change of `source` up to `position` is in the log below `next_offsets`. Full maps name every
partition and stand under one of 48 rotating keys; deltas name the partitions that changed since the last record,
are keyed by sequence and are deleted after the next full map. `sequence` has no holes: a reader that misses one
knows nothing of the partitions until the next full map. The writer's state is kept in the same way: whole beside a full
map, and in a delta what has changed of it.

A topic that is made of several sources has records of each of them, with a sequence and a set of ends a source: what is
complete to a position of one source may lack changes of another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from include.errors import InvalidRecord, Terminal
from include.record.position import SourcePosition

__all__ = ["FULL_KEYS", "PartitionEnds", "ResolvedRecord", "ResolvedView", "ResolvedWriter", "furthest"]

FULL_KEYS: Final = 48
PartitionEnds = Mapping[tuple[str, int], int]
"""(topic, partition) -> next offset."""


@dataclass(frozen=True)
class ResolvedRecord:
    """One record of a resolved topic.

    `version` is the record's own row version; `uncovered` names the tables (`database.table`) that it does not
    speak for; `state` is what the writer itself needs for a restart (version counter, open XA, fingerprints), and
    `changes` what stands in a delta instead: how to make it of the state before (None: `state` is whole, as in records
    of before). Of a record that was parsed alone and has `changes`, `state` is empty. `sources`: all that the topic
    has records of, where they are several; what else is found there is of a source that left.
    """

    source: str
    sequence: int
    version: int
    position: SourcePosition
    next_offsets: PartitionEnds
    full: bool
    uncovered: tuple[str, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] | None = None
    sources: tuple[str, ...] = ()

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
        said = {
            "source": self.source,
            "sequence": self.sequence,
            "version": self.version,
            "position": self.position.to_json(),
            "next_offsets": ends,
            "full": self.full,
            "uncovered": list(self.uncovered),
            "state": dict(self.state) if self.changes is None else {},
        }
        if self.changes is not None:
            said["changes"] = dict(self.changes)
        if self.sources:
            said["sources"] = list(self.sources)
        return orjson.dumps(said, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def parse(cls, data: bytes) -> ResolvedRecord:
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
                changes=_checked(raw.get("changes")),
                sources=tuple(raw.get("sources", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError, Terminal) as error:
            raise InvalidRecord("not a resolved record", reason=repr(error), head=data[:80].hex()) from error


class ResolvedView:
    """What a reader of a resolved topic knows, fed record by record in offset order.

    `newest`: the last record of all, with its whole state.
    """

    def __init__(self) -> None:
        self.newest: ResolvedRecord | None = None
        self._of: dict[str, _Known] = {}

    def on_record(self, value: bytes | None) -> ResolvedRecord | None:
        """Take a record; returns it when its source's ends are known at it, else None (tombstone, hole, repetition)."""
        if value is None:
            return None
        record = ResolvedRecord.parse(value)
        known = self._of.get(record.source)
        if known is not None and record.sequence <= known.newest.sequence:
            return None
        if record.full:
            known = _Known(record, dict(record.next_offsets))
        elif known is not None and known.ends is not None and record.sequence == known.newest.sequence + 1:
            known.ends.update(record.next_offsets)
            if record.changes is not None:
                record = replace(record, state=_applied(known.newest.state, record.changes))
            known = _Known(record, known.ends)
        else:
            known = _Known(record, None)
        sources = record.sources or (record.source,)
        self._of = {name: each for name, each in self._of.items() if name in sources} | {record.source: known}
        self.newest = record
        return record if known.ends is not None else None

    def sources(self) -> Collection[str]:
        """The sources that the topic has records of, by its newest one."""
        return () if self.newest is None else self.newest.sources or (self.newest.source,)

    def of(self, source: str) -> ResolvedRecord | None:
        """The newest record of a source, with its whole state."""
        known = self._of.get(source)
        return None if known is None else known.newest

    def ends(self, source: str | None = None) -> PartitionEnds | None:
        """The next offset of every partition at a source's newest record, or None while its full map is awaited.

        Without `source` the furthest of all sources, below which all lies that any of them speaks for; None until each
        of them is known.
        """
        known = [self._of.get(name) for name in (self.sources() if source is None else (source,))]
        maps = [each.ends for each in known if each is not None and each.ends is not None]
        return furthest(maps) if maps and len(maps) == len(known) else None


@dataclass
class _Known:
    newest: ResolvedRecord
    ends: dict[tuple[str, int], int] | None


def furthest(maps: Iterable[PartitionEnds]) -> dict[tuple[str, int], int]:
    """Of each partition the greatest next offset."""
    first, *others = maps
    out = dict(first)
    for each in others:
        for at, end in each.items():
            out[at] = max(end, out.get(at, end))
    return out


class ResolvedWriter:
    """Makes one source's records of a resolved topic: deltas, and a full map where the rules ask for one.

    A full map is made at the start, when the deltas' entries since the last one outnumber the map, and after
    `full_every_us` (one hour). `last`, `ends` and `deltas` (keys of deltas still in the topic) come from reading
    the topic at the start; `last` may be another source's, whose sequence then goes on. `records` gives what one
    transaction appends: the record itself, and after a full map tombstones for the deltas that it replaces.
    """

    def __init__(
        self,
        source: str,
        last: ResolvedRecord | None,
        ends: PartitionEnds,
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
        self._state: Mapping[str, Any] = {}

    @property
    def ends(self) -> PartitionEnds:
        """The next offset of each partition, as the last record has it."""
        return self._ends

    def records(
        self,
        changed: PartitionEnds,
        *,
        version: int,
        position: SourcePosition,
        now_us: int,
        uncovered: Iterable[str] = (),
        state: Mapping[str, Any] | None = None,
        sources: Iterable[str] = (),
    ) -> tuple[ResolvedRecord, list[tuple[bytes, bytes | None]]]:
        """The next record and what to append for it, in order. Call once a transaction; an abort needs a new writer.

        Args:
            changed: (topic, partition) → next offset, of partitions that have changed since the last record.
            version: the record's own row version.
            position: of the source, up to which everything is in the log.
            now_us: the present, in epoch microseconds.
            uncovered: tables (`database.table`) that the record does not speak for.
            state: the writer's whole state, plain values that nobody changes afterwards.
            sources: names of all that the topic has records of, where they are several.

        Returns:
            The record, and (key, value) of each to append: its own first, then tombstones for deltas that it replaces.
        """
        self._ends.update(changed)
        self._entries += len(changed)
        due = self._full_at_us is None or now_us - self._full_at_us >= self._every_us
        full = due or self._entries > len(self._ends)
        self._sequence += 1
        before, self._state = self._state, state or {}
        record = ResolvedRecord(
            source=self._source,
            sequence=self._sequence,
            version=version,
            position=position,
            next_offsets=dict(self._ends) if full else dict(changed),
            full=full,
            uncovered=tuple(uncovered),
            state=self._state,
            changes=None if full else _changes(before, self._state),
            sources=tuple(sources),
        )
        out: list[tuple[bytes, bytes | None]] = [(record.key, record.value())]
        if full:
            out.extend((key, None) for key in self._deltas)
            self._deltas, self._entries, self._full_at_us = [], 0, now_us
        else:
            self._deltas.append(record.key)
        return record, out


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """How `after` comes of `before`: fields `set` or `lost`; in fields that are maps, what was `put` or is `gone`."""
    set_, put, gone = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for name, new in after.items():
        old = before.get(name)
        # What did not change is mostly the same object: a source has thousands of tables.
        if new is old and name in before:
            continue
        if not isinstance(new, Mapping) or not isinstance(old, Mapping):
            if new != old or name not in before:
                set_[name] = new
            continue
        entries = {key: value for key, value in new.items() if key not in old or old[key] != value}
        left = [key for key in old if key not in new]
        if entries:
            put[name] = entries
        if left:
            gone[name] = left
    lost = [name for name in before if name not in after]
    found = {"set": set_, "put": put, "gone": gone, "lost": lost}
    return {kind: each for kind, each in found.items() if each}


def _checked(changes: Any) -> Mapping[str, Any] | None:
    """The same; raises `TypeError` for what `_changes` does not make."""
    if changes is None:
        return None
    put, gone = changes.get("put", {}).values(), changes.get("gone", {}).values()
    whole = isinstance(changes.get("set", {}), dict) and isinstance(changes.get("lost", []), list)
    if not whole or not all(isinstance(each, dict) for each in put) or not all(isinstance(each, list) for each in gone):
        raise TypeError("changes of another shape")
    return dict(changes)


def _applied(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse: a new map, sharing what did not change."""
    lost = changes.get("lost", ())
    after: dict[str, Any] = {name: value for name, value in before.items() if name not in lost}
    after |= changes.get("set", {})
    for name, entries in changes.get("put", {}).items():
        after[name] = {**after.get(name, {}), **entries}
    for name, left in changes.get("gone", {}).items():
        without = set(left)
        after[name] = {key: value for key, value in after.get(name, {}).items() if key not in without}
    return after
