"""Compares a backfill's cuts with those that readers read now: counts and digests of each, and records by date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from include.lake.backfill.plan import PlannedCut
from include.lake.backfill.planning import missing_offsets
from include.lake.backfill.run_registry import Run
from include.lake.dates.event_hours import CalendarPeriod
from include.lake.protocol.chain import Chain, give_up
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.commit_rules import joined_gaps
from include.lake.protocol.cut import Commit, CutObject
from include.lake.protocol.runner import Pause
from include.store.object_store import ObjectStore

__all__ = ["NO_DATE", "BackfillComparison", "CommitCounts", "CutDifference", "DifferenceKind", "compare"]

DifferenceKind = Literal["missing", "read", "lost", "bytes", "refused"]
"""Why a backfill is not promoted unless somebody says so:

missing: the cut is not made (never promoted); read: more or fewer records were read than readers' cut had;
lost: its source had lost offsets that readers' cut has; bytes: the same parser made other objects;
refused: more records are refused than before.
"""

NO_DATE: Final = "without a date"
"""Stands for the date of records whose names have none."""

_SHOWN: Final = 20
_AT_ONCE: Final = 8


class CutDifference(NamedTuple):
    """At the cut [first, next) of a partition."""

    partition: int
    first: int
    next: int
    kind: DifferenceKind
    text: str


class CommitCounts(NamedTuple):
    """Of commits: read = written + filtered + refused."""

    read: int
    written: int
    filtered: int
    refused: int

    @classmethod
    def of(cls, commit: Commit) -> CommitCounts:
        """Those of one."""
        written = commit.n_records - commit.filtered - commit.quarantined
        return cls(commit.n_records, written, commit.filtered, commit.quarantined)


@dataclass
class BackfillComparison:
    """Counts `before` (what readers read) and `now`, by name and by day (or `NO_DATE`), and what speaks against it.

    `equal` are cuts whose objects have equal bytes. `by_records` are those of the same parser whose bytes may differ,
    as libraries have other versions or several attempts made their objects: of them records are compared.
    """

    run: str
    cuts: int = 0
    equal: int = 0
    by_records: int = 0
    before: Counter[str] = field(default_factory=Counter)
    now: Counter[str] = field(default_factory=Counter)
    dates_before: Counter[str] = field(default_factory=Counter)
    dates_now: Counter[str] = field(default_factory=Counter)
    differences: list[CutDifference] = field(default_factory=list)
    commits: dict[PlannedCut, Commit] = field(default_factory=dict, repr=False)

    @property
    def clean(self) -> bool:
        """Whether nothing speaks against promoting it."""
        return not self.differences

    @property
    def whole(self) -> bool:
        """Whether each planned cut is made."""
        return len(self.commits) == self.cuts

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        days = sorted({*self.dates_before, *self.dates_now})
        return {
            "run": self.run,
            "clean": self.clean,
            "cuts": self.cuts,
            "made": len(self.commits),
            "equal": self.equal,
            "by_records": self.by_records,
            "before": dict(self.before),
            "now": dict(self.now),
            "dates": {day: [self.dates_before[day], self.dates_now[day]] for day in days},
            "differences": [each._asdict() for each in self.differences],
        }

    def lines(self) -> list[str]:
        """For a person."""
        lines = [f"backfill {self.run}: {len(self.commits)} of {self.cuts} cuts made, {self.equal} with equal bytes"]
        if self.by_records:
            lines.append(
                f"  {self.by_records} cuts by other versions of libraries, or several attempts: as many records"
            )
        lines += [f"  {name:9} {self.before[name]:>14,} -> {self.now[name]:>14,}" for name in CommitCounts._fields]
        days = sorted({*self.dates_before, *self.dates_now})
        changed = [day for day in days if self.dates_before[day] != self.dates_now[day]]
        lines += [f"  {day}: {self.dates_before[day]:,} -> {self.dates_now[day]:,} records" for day in changed]
        if len(changed) < len(days):
            lines.append(f"  {len(days) - len(changed)} dates with as many records as before")
        lines += [
            f"  partition {each.partition}, offsets {each.first} to {each.next - 1}: {each.text}"
            for each in self.differences[:_SHOWN]
        ]
        if len(self.differences) > _SHOWN:
            lines.append(f"  and {len(self.differences) - _SHOWN} more differences: --json shows all")
        return [*lines, "clean" if self.clean else f"not clean: {len(self.differences)} differences"]


def compare(store: ObjectStore, run: Run, pause: Pause = give_up) -> BackfillComparison:
    """Compare each planned cut by the commits of both; they are small, and no data is read."""
    comparison = BackfillComparison(run.name, cuts=len(run.plan.cuts))
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        pairs = threads.map(lambda cut: _both(store, run, cut, pause), run.plan.cuts)
        for cut, pair in zip(run.plan.cuts, pairs, strict=True):
            _add(comparison, cut, *pair)
    return comparison


def _both(
    store: ObjectStore, run: Run, cut: PlannedCut, pause: Pause
) -> tuple[tuple[ChainKey, Commit | None], tuple[ChainKey, Commit | None]]:
    chains = [ChainKey(run.plan.topic, each, cut.partition) for each in (cut.reads, run.generations[cut.replaces])]
    old, new = ((chain, Chain(store, chain, pause=pause).commit(cut.first)) for chain in chains)
    return old, new


def _add(
    found: BackfillComparison,
    cut: PlannedCut,
    before: tuple[ChainKey, Commit | None],
    now: tuple[ChainKey, Commit | None],
) -> None:
    (old_chain, old), (new_chain, new) = before, now
    if old is None or new is None:
        what = "it is not made yet" if new is None else "the cut that readers read is gone"
        found.differences.append(CutDifference(*cut[:3], "missing", what))
        return
    found.commits[cut] = new
    found.before.update(CommitCounts.of(old)._asdict())
    found.now.update(CommitCounts.of(new)._asdict())
    found.dates_before.update(dict(_dates(old_chain, old)))
    found.dates_now.update(dict(_dates(new_chain, new)))
    found.differences += [CutDifference(*cut[:3], kind, text) for kind, text in _differences(old, new)]
    if old.config != new.config:
        return
    by_bytes = dict(old.versions) == dict(new.versions) and not any(f.adopted for f in (*old.files, *new.files))
    found.by_records += not by_bytes
    unlike = _unlike(old_chain, old, new_chain, new, by_bytes=by_bytes)
    if unlike:
        text = f"the same parser made {'other bytes' if by_bytes else 'other records'}: {unlike}"
        found.differences.append(CutDifference(*cut[:3], "bytes", text))
    found.equal += by_bytes and not unlike


def _differences(old: Commit, new: Commit) -> Iterator[tuple[DifferenceKind, str]]:
    if old.n_records != new.n_records:
        yield "read", f"{new.n_records:,} records were read, {old.n_records:,} before"
    gaps = missing_offsets(old, (gap[:2] for gap in joined_gaps(new.first, (gap[:2] for gap in new.gaps))))
    if gaps:
        yield "lost", f"its source had lost offsets {gaps[0][0]} to {gaps[0][1] - 1}"
    if new.quarantined > old.quarantined:
        yield "refused", f"{new.quarantined:,} records are refused, {old.quarantined:,} before"


def _unlike(old_chain: ChainKey, old: Commit, new_chain: ChainKey, new: Commit, *, by_bytes: bool) -> str:
    """The first file that is not the same in both, as its folder; "" when all are."""
    files = [_contents(chain, commit, by_bytes) for chain, commit in ((old_chain, old), (new_chain, new))]
    unlike = sorted(name for name in {*files[0], *files[1]} if files[0].get(name) != files[1].get(name))
    return unlike[0] if unlike else ""


def _contents(chain: ChainKey, commit: Commit, by_bytes: bool) -> dict[str, object]:
    """By folder and extension what a file has to have in common with the other generation's."""

    def content(file: CutObject) -> object:
        return file.sha256 if by_bytes else file.records, file.first, file.last

    keys = [(chain.parse_data(file.key, commit.first), file) for file in commit.files]
    return {f"{'/'.join(key.names)} {key.extension}".strip(): content(file) for key, file in keys}


def _dates(chain: ChainKey, commit: Commit) -> Counter[str]:
    records: Counter[str] = Counter()
    for file in commit.files:
        key = chain.parse_data(file.key, commit.first)
        if not key.refused:
            period = CalendarPeriod.of(key.names)
            records[str(period.day) if period else NO_DATE] += file.records
    return records
