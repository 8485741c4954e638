"""One generation that the application feeds, and how several go together.

Generations that stand at the same offsets are live: each batch goes to all of them. One that is behind (made or lost
and made anew, or filled by a rebuild a while ago) gets ranges of its own up to where the live ones stand, a few at a
time and beside their batches, so that it holds none of them up; there it joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from include.errors import Terminal, Transient
from include.index.batch import Settlement
from include.index.feed import Feed
from include.index.generations.active import read_fed, serving_or_none
from include.index.mapping.declared import require_metadata
from include.index.name import IndexName
from include.index.progress.document import IndexProgress
from include.index.progress.floors import Floors
from include.index.progress.grown_topics import PartitionCounts
from include.index.progress.steps import start_of
from include.index.server.port import IndexInfo, SearchIndex
from include.log.planning.slices import Slice

__all__ = ["ActiveGeneration", "ActiveGenerations", "fed_indexes", "leader_of", "ranges_behind", "together"]

_Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class ActiveGeneration:
    """One generation: its index, what it is complete to, and what is looked at before its records are worked off."""

    settlement: Settlement
    growth: PartitionCounts
    floors: Floors
    feed: Callable[[IndexProgress], Feed]

    @property
    def name(self) -> str:
        """The index."""
        return self.settlement.info.name

    @property
    def starts(self) -> _Offsets:
        """(topic, partition) -> where it reads on."""
        return {(topic, p): o for topic, of in start_of(self.settlement.progress).items() for p, o in of.items()}

    def look(self) -> bool:
        """Note topics that have grown, and floors, before records are worked off; whether there was one.

        Raises as `Growth.look`, `Floors.look` and `Settlement.note`.
        """
        changed = False
        for progress in list(self.settlement.progress.values()):
            now = self.floors.look(self.growth.look(progress), self.feed)
            if now != progress:
                self.settlement.note(now)
                changed = True
        return changed


@dataclass(frozen=True)
class ActiveGenerations:
    """The generations of an alias that are to be fed: those that are there, and the names of those that are not."""

    infos: tuple[IndexInfo, ...]
    missing: tuple[str, ...]
    serving: str | None

    @property
    def names(self) -> frozenset[str]:
        """Of those that are there, by index and uuid: one made anew is another one."""
        return frozenset(f"{info.name}/{info.uuid}" for info in self.infos)

    def without(self, names: Collection[str]) -> ActiveGenerations:
        """The same, but for indexes that this application passes over."""
        return replace(self, infos=tuple(info for info in self.infos if info.name not in names))


def fed_indexes(
    index: SearchIndex,
    alias: str,
    on_missing: Callable[[Collection[str]], None] | None = None,
    on_serving: Callable[[IndexInfo], None] | None = None,
) -> ActiveGenerations:
    """Which indexes to write; `on_missing` hears of those that are to be fed and are gone, none of them too.

    `on_serving` hears of the one that readers get.

    Raises `Transient` while all that were noted are lost, as a rebuild brings the next one, and `Terminal` when nobody
    has made any, or one is unfit to be written.
    """
    infos, missing = [], []
    for number in read_fed(index, alias):
        name = str(IndexName(alias, number))
        info = index.describe(name)
        if info is None:
            missing.append(name)
        else:
            require_metadata(name, info.mapping)
            infos.append(info)
    if on_missing is not None:
        on_missing(missing)
    if not infos:
        if missing:
            raise Transient(
                "index was lost",
                system="elasticsearch",
                index=missing[-1],
                fix=f"Run `lyrebird index rebuild {alias}`, then `lyrebird index promote {alias}`; this goes on then.",
            )
        raise Terminal("index does not exist", index=alias, fix=f"Run `lyrebird index create {alias}`.")
    serving = serving_or_none(index, alias)
    if on_serving is not None and serving is not None:
        on_serving(serving)
    return ActiveGenerations(tuple(infos), tuple(missing), serving.name if serving else None)


def leader_of(targets: Sequence[ActiveGeneration], serving: str | None) -> ActiveGeneration:
    """The one whose offsets the stream starts at: the one that serves, unless it knows less than all others.

    A serving index that was lost and made anew has nothing yet: then the one that is furthest leads.
    """
    furthest: Final = max(targets, key=_read)
    for target in targets:
        if target.name == serving and _read(target):
            return target
    return furthest


def together(
    leader: ActiveGeneration, targets: Sequence[ActiveGeneration]
) -> tuple[list[ActiveGeneration], list[ActiveGeneration]]:
    """Those that are live where `leader` stands, it first, and those that are behind it.

    One that a crash left a batch ahead of it is live: it passes over what it has.
    """
    at = leader.starts
    behind = [t for t in targets if any(t.starts.get(place, 0) < offset for place, offset in at.items())]
    return [leader, *(t for t in targets if t is not leader and t not in behind)], behind


def ranges_behind(
    target: ActiveGeneration, live: _Offsets, begins: _Offsets, topics: Collection[str], most: int
) -> list[Slice]:
    """What `target` reads next to get where the live ones stand; at most `most` offsets of each partition.

    Nothing when it is there. `begins` are the first offsets that the log holds. Raises `Terminal` when it does not
    hold any more what the target reads on from.
    """
    starts = target.starts
    out = []
    for (topic, p), end in sorted(live.items()):
        if topic not in topics:
            continue
        start = starts.get((topic, p), begins.get((topic, p), 0))
        if start < begins.get((topic, p), 0):
            raise Terminal(
                "records were removed from the log before they were read",
                index=target.name,
                topic=topic,
                partition=p,
                offset=start,
                log_begins=begins[topic, p],
                fix=f"Run `lyrebird index rebuild {target.name.rpartition('-v')[0]}`.",
            )
        if start < end:
            out.append(Slice(topic, p, start, min(end, start + most)))
    return out


def _read(target: ActiveGeneration) -> int:
    return sum(offset for of in target.settlement.progress.values() for offset in of.acked.values())
