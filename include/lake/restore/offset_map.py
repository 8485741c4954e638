"""From offsets of a topic to those of the topic that it was restored to, as objects beside the backup.

    <prefix>/_restore/<target>~<target's id>/plan                                      what is restored
    <prefix>/_restore/<target>~<target's id>/<partition>/<first>-<next>-<at>.offsets   one transaction
    <prefix>/_restore/<target>~<target's id>/map                                       all of it, when it is whole

A transaction's object is written before the transaction is committed: which of them hold is said by the offsets that
were committed with it. What one attempt left and another wrote again begins at the same `first`, and the one that was
committed begins last in the target: offsets are never given twice. So objects that are left over do no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from include.errors import Terminal
from include.lake.message import Message
from include.lake.protocol.canonical import dump, load, offset, unreadable
from include.lake.protocol.object_key import digits
from include.store.object_store import ObjectStore

__all__ = ["OffsetMapPart", "OffsetSpan", "PartName", "Totals", "committed_parts", "new_offset", "part_of", "read_part"]

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{20})-([0-9]{20})\.offsets", re.ASCII)
_FIELDS: Final = frozenset({"spans", "totals"})


class OffsetSpan(NamedTuple):
    """So many records, from `old` on without a gap, are from `new` on."""

    old: int
    new: int
    records: int


class Totals(NamedTuple):
    """Of a partition, from its beginning to here. `bytes` are of keys and values.

    redated: records of 1970-01-01T00:00:00.000Z, which have the time of the restore, as Kafka's client takes that for
    "now"; broker_dated: those whose timestamp was the broker's, and now counts as the producer's; left_out: of other
    days, or without a timestamp where days were asked for; rewritten: with another schema id than in the backup.
    """

    records: int = 0
    bytes: int = 0
    redated: int = 0
    broker_dated: int = 0
    left_out: int = 0
    rewritten: int = 0

    def plus(self, other: Totals) -> Totals:
        """Both together."""
        return Totals(*(one + another for one, another in zip(self, other, strict=True)))


class PartName(NamedTuple):
    """One transaction: old offsets [first, next) are from `at` on in `partition` of the target."""

    partition: int
    first: int
    next: int
    at: int

    def key(self, folder: str) -> str:
        """Of its object."""
        return f"{folder}/{self.partition}/{digits(self.first)}-{digits(self.next)}-{digits(self.at)}.offsets"


@dataclass(frozen=True, slots=True)
class OffsetMapPart:
    """What a transaction's object says; `totals` are of the partition up to its end."""

    name: PartName
    spans: tuple[OffsetSpan, ...]
    totals: Totals

    @property
    def until(self) -> int:
        """The offset in the target after its last record; `name.at` where it has none."""
        return self.spans[-1].new + self.spans[-1].records if self.spans else self.name.at

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dump({"spans": [list(each) for each in self.spans], "totals": list(self.totals)})

    @classmethod
    def parse(cls, body: bytes, name: PartName, key: str) -> OffsetMapPart:
        """Inverse of `to_bytes`; `Terminal` naming the object for anything else."""
        found = load(body, key, _FIELDS)
        try:
            spans = tuple(OffsetSpan(*map(offset, each)) for each in found["spans"])
            part = cls(name, spans, Totals(*map(offset, found["totals"])))
        except (TypeError, ValueError) as error:
            raise unreadable(key, repr(error)) from error
        old, new = name.first, name.at
        for span in spans:
            if span.old < old or span.new != new or not span.records:
                raise unreadable(key, f"{span} is out of order")
            old, new = span.old + span.records, span.new + span.records
        if old > name.next:
            raise unreadable(key, f"it goes on to {old}")
        return part


def part_of(name: PartName, messages: Iterable[Message], totals: Totals) -> OffsetMapPart:
    """The object of a transaction of these messages."""
    spans: list[OffsetSpan] = []
    for number, message in enumerate(messages):
        before = spans[-1] if spans else None
        if before is not None and before.old + before.records == message.offset:
            spans[-1] = before._replace(records=before.records + 1)
        else:
            spans.append(OffsetSpan(message.offset, name.at + number, 1))
    return OffsetMapPart(name, tuple(spans), totals)


def committed_parts(store: ObjectStore, folder: str, partition: int, first: int, done: int) -> list[PartName]:
    """The transactions that were committed of [first, done), in order; `Terminal` where one has no object."""
    by_first: dict[int, PartName] = {}
    prefix = f"{folder}/{partition}/"
    for info in store.list(prefix):
        named = _NAME.fullmatch(info.key.removeprefix(prefix))
        if named is None:
            raise unreadable(info.key, "its name is none of a restore's")
        name = PartName(partition, *map(int, named.groups()))
        # By key, so by `at`: the last of a `first` is the one that holds.
        if name.first < done and name.at >= by_first.get(name.first, name).at:
            by_first[name.first] = name
    parts = list(by_first.values())
    ends = [first, *(each.next for each in parts)]
    if [*(each.first for each in parts), done] != ends:
        raise Terminal(
            "the map of a restore has a hole",
            key=prefix,
            offsets=f"{first}-{done}",
            fix="Its objects were removed: delete the target topic and restore it again.",
        )
    return parts


def read_part(store: ObjectStore, folder: str, name: PartName) -> OffsetMapPart:
    """What its object says; `Terminal` when it is gone."""
    key = name.key(folder)
    stored = store.get(key)
    if stored is None:
        raise Terminal(
            "an object of a restore's map is gone", key=key, fix="Delete the target topic and restore it again."
        )
    return OffsetMapPart.parse(stored.body, name, key)


def new_offset(store: ObjectStore, folder: str, parts: Sequence[PartName], old: int) -> tuple[int, bool] | None:
    """(offset in the target of the first record from `old` on, whether it is that of `old` itself); None: none is."""
    for name in parts:
        if name.next <= old:
            continue
        for span in read_part(store, folder, name).spans:
            if span.old + span.records > old:
                return span.new + max(0, old - span.old), span.old <= old
    return None
