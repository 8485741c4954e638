"""Lets readers follow a backfill: its cuts join the pointer by one conditional put, all of them or none.

 1. compare what was made with what is read
 2. append an entry for each generation of the run
Who reads the pointer before 2 sees the old cuts, who reads it after sees the new ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from include.errors import Terminal
from include.lake.backfill.comparison import BackfillComparison, compare
from include.lake.backfill.run_registry import Run, standing
from include.lake.protocol.chain import Chain, give_up
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.pointer import CutRanges, ReadersPointer, change_pointer, ranges_of, read_pointer
from include.lake.protocol.runner import Pause
from include.store.object_store import ObjectStore

__all__ = ["PromotionResult", "promote"]


@dataclass(frozen=True)
class PromotionResult:
    """Readers follow it. `anew` is false where they did already."""

    run: str
    generations: tuple[int, ...]
    comparison: BackfillComparison
    anew: bool

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "run": self.run,
            "generations": list(self.generations),
            "anew": self.anew,
            "comparison": self.comparison.to_json(),
        }

    def lines(self) -> list[str]:
        """For a person."""
        numbers = ", ".join(map(str, self.generations))
        said = "is promoted: readers follow" if self.anew else "was promoted before: readers follow"
        return [*self.comparison.lines(), f"backfill {self.run} {said} generation {numbers}"]


def promote(store: ObjectStore, run: Run, *, accept: bool = False, pause: Pause = give_up) -> PromotionResult:
    """Promote a run; nothing where it is promoted already. `accept`: also where the comparison is not clean.

    Raises `Terminal` where cuts are missing, differences are not accepted, the run was given up, or another live
    generation has taken its cuts over.
    """
    # 1. Compare.
    comparison = compare(store, run, pause)
    generations = tuple(run.generations[replaces] for replaces in sorted(run.generations))
    if standing(read_pointer(store, run.plan.topic), run) == "promoted":
        return PromotionResult(run.name, generations, comparison, anew=False)
    if not comparison.whole or not (comparison.clean or accept):
        raise _refused(run, comparison)
    # 2. Append.
    entries = _entries(run, comparison)
    while True:
        known = read_pointer(store, run.plan.topic)
        if not accept:
            _check_moved(store, run, comparison, known, pause)
        try:
            change_pointer(store, run.plan.topic, partial(_appended, run=run, entries=entries, known=known))
        except _MovedError:
            continue
        return PromotionResult(run.name, generations, comparison, anew=True)


class _MovedError(Exception):
    """The pointer is another one than was looked at."""


def _check_moved(store: ObjectStore, run: Run, found: BackfillComparison, now: ReadersPointer, pause: Pause) -> None:
    """Raise `Terminal` where readers read a cut by another parser than when it was planned, or than it has here.

    Backfills of neighbouring days share the cut between them: both make it the same.
    """
    for cut, commit in found.commits.items():
        reads = now.generation_of(cut.partition, cut.first)
        if reads is None or reads == cut.reads:
            continue
        other = Chain(store, ChainKey(run.plan.topic, reads, cut.partition), pause=pause).commit(cut.first)
        if other is None or other.config != commit.config:
            raise Terminal(
                "readers follow another generation since this backfill was planned",
                run=run.name,
                partition=cut.partition,
                first=cut.first,
                planned=cut.reads,
                now=reads,
                fix="Plan it again, or put it in the place of that one: --accept-differences.",
            )


_Entry = tuple[int, int, CutRanges]
"""Live generation, the one that stands in for it, its cuts."""


def _entries(run: Run, found: BackfillComparison) -> list[_Entry]:
    entries: list[_Entry] = []
    for replaces, planned in sorted(run.plan.by_replaced().items()):
        partitions = {cut.partition for cut in planned}
        cuts = {p: ranges_of([found.commits[cut] for cut in planned if cut.partition == p]) for p in sorted(partitions)}
        entries.append((replaces, run.generations[replaces], cuts))
    return entries


def _appended(now: ReadersPointer, run: Run, entries: list[_Entry], known: ReadersPointer) -> ReadersPointer:
    if standing(now, run) == "promoted":
        return now
    if now.entries != known.entries:
        raise _MovedError
    for replaces, generation, cuts in entries:
        now = now.promote(generation, cuts, replaces=replaces)
    return now


def _refused(run: Run, found: BackfillComparison) -> Terminal:
    if not found.whole:
        made = len(found.commits)
        return Terminal(
            "not all cuts of this backfill are made",
            run=run.name,
            cuts=found.cuts,
            made=made,
            fix="Run it again under its name: it goes on where it ended.",
        )
    first = found.differences[0]
    return Terminal(
        "the backfill is not what was expected",
        run=run.name,
        differences=len(found.differences),
        partition=first.partition,
        first=first.first,
        kind=first.kind,
        what=first.text,
        fix=f"See all of them, then promote it as it is (--accept-differences) or plan another: --run {run.name}.",
    )
