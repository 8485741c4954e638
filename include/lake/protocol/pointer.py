"""Reads and changes the readers' pointer: it says which generation holds which cuts of a topic.

The pointer is an ordered list of entries {generation, cuts}, one object for each topic id, changed by `If-Match`
alone. A data object is read when the newest entry that holds its `first` names its generation:

* the first writer's entry holds everything;
* an upgrade appends, before it writes, [head of the old chain, ∞) of each partition, and partitions not named then;
* a backfill appends, when it is promoted, the cuts that it has rewritten, whole ones, with all their dates.

All entries hold whole cuts: a backfill keeps to those of the live generation, and an upgrade begins where one ends.
So an object is read or not by its name alone, and late data or a record that another parser puts elsewhere are in one
place. A generation's number is reserved here before anything is written under it.

What is forgotten lies below a floor in each partition, the border of a cut: no reader reads below it, whatever stands
there. `heads` are how far live had come at least when that was noted: a chain that ends before was taken away.
An upgrade keeps as `gone` how much further that was than where it begins: nothing else would tell of it any more.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from include.errors import BackPressure, Terminal, Transient
from include.lake.protocol.canonical import choice, dump, load, offset, text, unreadable
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.cut import Commit
from include.lake.protocol.object_key import ObjectKey
from include.store.object_store import ObjectStore

__all__ = [
    "CutRanges",
    "PointerEntry",
    "Purpose",
    "ReadersPointer",
    "Reservation",
    "change_pointer",
    "ranges_of",
    "read_pointer",
]

CutRange = tuple[int, int | None]
"""[from, until) of cuts' `first`; None: without end."""

CutRanges = Mapping[int, Sequence[CutRange]]

Purpose = Literal["live", "backfill"]

_PURPOSES: Final[tuple[Purpose, ...]] = get_args(Purpose)
_FIELDS: Final = frozenset({"entries", "reserved"})
_LATER: Final = ("floors", "swept", "heads", "gone", "noted", "forgotten")
_DAYS: Final = ("noted", "forgotten")
_ENTRY: Final = frozenset({"generation", "cuts", "others"})
_RESERVED: Final = frozenset({"generation", "by", "purpose"})
_TRIES: Final = 100


@dataclass(frozen=True)
class PointerEntry:
    """Cuts that are read in `generation`: by partition, sorted and apart; `others`: all of partitions not in `cuts`."""

    generation: int
    cuts: CutRanges
    others: bool = False

    def __post_init__(self) -> None:
        for partition, ranges in self.cuts.items():
            end: int | None = -1
            for first, until in ranges:
                if partition < 0 or end is None or first <= end or (until is not None and until <= first):
                    raise ValueError(f"ranges of partition {partition} are not sorted and apart: {list(ranges)}")
                end = until

    def holds(self, partition: int, first: int) -> bool:
        """Whether the cut at `first` is read here, unless a newer entry holds it."""
        ranges = self.cuts.get(partition)
        if ranges is None:
            return self.others
        at = bisect.bisect_right(ranges, first, key=lambda each: each[0]) - 1
        if at < 0:
            return False
        until = ranges[at][1]
        return until is None or first < until

    def start(self, partition: int) -> int | None:
        """The first offset of the chain that this entry is for; None when it holds nothing of the partition."""
        ranges = self.cuts.get(partition)
        if ranges is None:
            return 0 if self.others else None
        return ranges[0][0] if ranges else None


@dataclass(frozen=True, slots=True)
class Reservation:
    """A generation number that is taken, by whom (asking again gives the same) and what for."""

    generation: int
    by: str
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class ReadersPointer:
    """All entries, oldest first, and all numbers that are taken."""

    entries: tuple[PointerEntry, ...] = ()
    reserved: tuple[Reservation, ...] = ()
    floors: Mapping[int, int] = field(default_factory=dict)
    """By partition: cuts that begin below it are forgotten."""
    swept: Mapping[int, int] = field(default_factory=dict)
    """By partition: below it the data of forgotten cuts are removed."""
    heads: Mapping[int, int] = field(default_factory=dict)
    """By partition: how far the live generation had come at least, when it was noted."""
    gone: Mapping[int, int] = field(default_factory=dict)
    """By partition: how far generations before the live one had come, where it begins before that; until it has a cut
    and its heads are noted."""
    noted: str = ""
    """The day (ISO) of `heads`."""
    forgotten: str = ""
    """The day (ISO) before which all dates in names below the floors are; "" where that is not known."""

    def floor(self, partition: int) -> int:
        """The first offset that readers find of a partition; 0 while nothing is forgotten."""
        return self.floors.get(partition, 0)

    def start(self, entry: PointerEntry, partition: int) -> int:
        """The first offset of an entry's chain when it has no commit: never below the floor."""
        return max(entry.start(partition) or 0, self.floor(partition))

    def require_kept(self, topic: TopicKey, partition: int, first: int) -> None:
        """Raise `Terminal` when what begins at `first` is forgotten."""
        if first < self.floor(partition):
            raise Terminal(
                "these offsets are forgotten",
                topic=topic.topic,
                partition=partition,
                first=first,
                kept_from=self.floor(partition),
                fix="Ask for what is kept. `lyrebird lake forget` or `keep_days` removed what was before.",
            )

    def generation_of(self, partition: int, first: int) -> int | None:
        """The generation in which the cut at `first` is read; None when no entry holds it, or it is forgotten."""
        if first < self.floor(partition):
            return None
        return next((each.generation for each in reversed(self.entries) if each.holds(partition, first)), None)

    @property
    def live(self) -> PointerEntry | None:
        """The entry whose generation new records are written in; None before the first writer."""
        return next((each for each in reversed(self.entries) if each.others), None)

    def reads(self, key: ObjectKey) -> bool:
        """Whether readers read this data object."""
        return self.generation_of(key.partition, key.first) == key.generation

    def reserve(self, by: str, purpose: Purpose, *, least: int = 1) -> ReadersPointer:
        """Take the next number, `least` or above (a topic made anew goes on after the old one); once for each `by`."""
        if self.reservation(by) is not None:
            return self
        number = max([least, *(each.generation + 1 for each in self.reserved)])
        return replace(self, reserved=(*self.reserved, Reservation(number, by, purpose)))

    def reservation(self, by: str) -> Reservation | None:
        """The reservation that `by` has taken."""
        return next((each for each in self.reserved if each.by == by), None)

    def _append(self, entry: PointerEntry) -> ReadersPointer:
        if all(each.generation != entry.generation for each in self.reserved):
            raise Terminal(
                "a generation that nobody reserved", generation=entry.generation, fix="Reserve its number first."
            )
        if any(each.generation == entry.generation for each in self.entries):
            raise Terminal(
                "a generation has its entry already, and another one",
                generation=entry.generation,
                fix="Write under a new generation: what readers see of one never changes.",
            )
        return replace(self, entries=(*self.entries, entry))

    def upgrade(self, generation: int, heads: Mapping[int, int]) -> ReadersPointer:
        """Let `generation` take over live at the heads of the chains of `live`; the first one takes everything.

        Whoever changes the pointer so makes sure, inside of the change, that these are still the heads of `live`:
        from another generation's cuts to them records would be read twice.
        """
        if any(each.generation == generation for each in self.entries):
            return self
        cuts: CutRanges = {partition: ((head, None),) for partition, head in heads.items()} if self.live else {}
        # What was noted is of the one before, which may have come further.
        reached = _raised(self.heads, self.gone)
        gone = {p: at for p, at in reached.items() if p in heads and at > max(heads[p], self.floor(p))}
        return replace(self._append(PointerEntry(generation, cuts, others=True)), heads={}, gone=gone, noted="")

    def promote(self, generation: int, cuts: CutRanges, *, replaces: int) -> ReadersPointer:
        """Let readers read a backfill's `cuts`, which are whole ones of the live generation `replaces`.

        `Terminal` when another one has taken them over meanwhile: its cuts begin elsewhere, and what reaches over
        an edge would be read twice or not at all.
        """
        entry = PointerEntry(generation, cuts)
        if entry in self.entries:
            return self
        for partition, ranges in cuts.items():
            for first, until in ranges:
                live = {self._live_of(partition, at) for at in (first, (until or 0) - 1)}
                if until is None or live != {replaces}:
                    raise Terminal(
                        "cuts that are not those of the generation that a backfill replaces",
                        partition=partition,
                        cuts=(first, until),
                        live=sorted(map(str, live)),
                        replaces=replaces,
                        fix="Plan the backfill again: live has moved on to another generation.",
                    )
        return self._append(entry)

    def forget(self, floors: Mapping[int, int], before: str = "") -> ReadersPointer:
        """Raise the floors of these partitions; a floor never goes down. `before`: see `forgotten`."""
        raised = _raised(self.floors, floors)
        if raised == self.floors:
            return self
        known = before and (self.forgotten or not self.floors)
        return replace(self, floors=raised, forgotten=max(self.forgotten, before) if known else "")

    def sweep(self, floors: Mapping[int, int]) -> ReadersPointer:
        """Note that the data below these floors are removed."""
        return replace(self, swept=_raised(self.swept, floors))

    def note(self, generation: int, heads: Mapping[int, int], day: str) -> ReadersPointer:
        """Note how far the live generation has come, once a day; nothing where another one is live."""
        if self.noted == day or self.live is None or self.live.generation != generation:
            return self
        # It was told by then; what remains is of chains without a cut, whose gaps it makes losses.
        gone = {partition: at for partition, at in self.gone.items() if not heads.get(partition, 0)}
        return replace(self, heads=_raised(self.heads, heads), gone=gone, noted=day)

    def _live_of(self, partition: int, first: int) -> int | None:
        """The live generation whose cuts these are, backfills aside."""
        held = (each.generation for each in reversed(self.entries) if each.others and each.holds(partition, first))
        return next(held, None)

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        entries = [
            {
                "generation": entry.generation,
                "cuts": {str(partition): [list(each) for each in ranges] for partition, ranges in entry.cuts.items()},
                "others": entry.others,
            }
            for entry in self.entries
        ]
        reserved = [{name: getattr(reservation, name) for name in _RESERVED} for reservation in self.reserved]
        later = {name: value for name in _LATER if (value := getattr(self, name))}
        for name, value in later.items():
            if name not in _DAYS:
                later[name] = {str(partition): at for partition, at in value.items()}
        return dump({"entries": entries, "reserved": reserved, **later})

    @classmethod
    def parse(cls, body: bytes, topic: TopicKey) -> ReadersPointer:
        """Inverse of `to_bytes`; `Terminal` naming the object for anything else."""
        fields = load(body, topic.pointer, _FIELDS, frozenset(_LATER))
        try:
            maps = {
                name: {_number(partition): offset(at) for partition, at in fields.get(name, {}).items()}
                for name in _LATER
                if name not in _DAYS
            }
            days = {name: text(fields.get(name, "")) for name in _DAYS}
            entries, reserved = map(_entry, fields["entries"]), map(_reservation, fields["reserved"])
            return cls(tuple(entries), tuple(reserved), **maps, noted=days["noted"], forgotten=days["forgotten"])
        except (AttributeError, TypeError, ValueError) as error:
            raise unreadable(topic.pointer, repr(error)) from error


def ranges_of(commits: Sequence[Commit]) -> tuple[CutRange, ...]:
    """The cuts of a backfill in one partition, as its entry has them; neighbours become one range."""
    ranges: list[CutRange] = []
    for commit in sorted(commits, key=lambda each: each.first):
        if ranges and ranges[-1][1] == commit.first:
            ranges[-1] = (ranges[-1][0], commit.next)
        else:
            ranges.append((commit.first, commit.next))
    return tuple(ranges)


def read_pointer(store: ObjectStore, topic: TopicKey) -> ReadersPointer:
    """The pointer as it stands; an empty one where there is none."""
    found = store.get(topic.pointer)
    return ReadersPointer.parse(found.body, topic) if found else ReadersPointer()


def change_pointer(
    store: ObjectStore, topic: TopicKey, change: Callable[[ReadersPointer], ReadersPointer]
) -> ReadersPointer:
    """Apply `change`, again on what others wrote meanwhile; gives what stands then.

    `change` gives its argument back when there is nothing (left) to do: so an answer that was lost does no harm.
    Raises the store's error when it does not answer; whether the change was made then shows when it is asked again.
    """
    for _ in range(_TRIES):
        stored = store.get(topic.pointer)
        if stored is None and _begun(store, topic):
            continue
        before = ReadersPointer.parse(stored.body, topic) if stored else ReadersPointer()
        after = change(before)
        if stored is not None and after == before:
            return before
        body = after.to_bytes()
        try:
            if stored is None:
                written = store.put_if_absent(topic.pointer, body)
            else:
                written = store.put_if_match(topic.pointer, body, stored.info.etag)
        except (Transient, BackPressure):
            now = store.get(topic.pointer)
            if now is None or change(standing := ReadersPointer.parse(now.body, topic)) != standing:
                raise
            return standing
        if written is not None:
            return after
    raise Terminal("the readers' pointer changes all the time", key=topic.pointer, fix="Who else writes it?")


def _begun(store: ObjectStore, topic: TopicKey) -> bool:
    """Whether somebody wrote the pointer just now; `Terminal` where the topic has chains and no pointer."""
    listed = next(iter(store.list(f"{topic}/")), None)
    if listed is None:
        return False
    if store.head(topic.pointer) is not None:
        return True
    raise Terminal(
        "the readers' pointer is gone, though the topic has chains",
        key=topic.pointer,
        there=listed.key,
        fix="Did a lifecycle rule of the bucket take it? Let none touch `_chain/`. Put the pointer back from an older "
        "version of the bucket; or give the group another `prefix`: it stores all that Kafka has, anew.",
    )


def _raised(before: Mapping[int, int], to: Mapping[int, int]) -> dict[int, int]:
    """The greater of both for each partition."""
    return {p: max(before.get(p, 0), to.get(p, 0)) for p in sorted({*before, *to}) if before.get(p) or to.get(p)}


def _entry(value: Any) -> PointerEntry:
    if value.keys() != _ENTRY or type(value["others"]) is not bool:
        raise ValueError(f"{value!r} is no entry")
    cuts = {
        _number(partition): tuple((offset(first), None if until is None else offset(until)) for first, until in ranges)
        for partition, ranges in value["cuts"].items()
    }
    return PointerEntry(offset(value["generation"]), cuts, value["others"])


def _number(value: str) -> int:
    if str(int(value)) != value:
        raise ValueError(f"{value!r} is no partition")
    return int(value)


def _reservation(value: Any) -> Reservation:
    if value.keys() != _RESERVED:
        raise ValueError(f"{value!r} is no reservation")
    purpose = choice(value["purpose"], _PURPOSES)
    return Reservation(offset(value["generation"]), text(value["by"]), purpose)
