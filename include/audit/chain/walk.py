"""One chain from its first commit to its head: each begins where the one before it ends, each has its intent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from include.audit.chain.commits import UnreadableCommit
from include.audit.chain.finding import Findings, counted
from include.audit.chain.listing import ChainFolder
from include.lake.protocol.cut import Commit

__all__ = ["WalkedChain", "WalkedCut", "walk"]

_US = 1_000_000


class WalkedCut(NamedTuple):
    """A cut as far as offsets and counts go; `records` None where its commit cannot be read.

    `gone` of its offsets the log had no more, `lost` of these after the topic was begun with.
    """

    first: int
    next: int
    records: int | None = None
    filtered: int = 0
    quarantined: int = 0
    gone: int = 0
    lost: int = 0


@dataclass(slots=True)
class WalkedChain:
    """A chain as it was found. `expected` are its objects with their sizes, `unjudged` those of unreadable commits.

    `holes` are ranges of offsets that no commit has, though later ones do, `overlaps` those that two have. `under_way`
    are cuts that have an intent alone, as it should be.
    """

    folder: ChainFolder
    cuts: list[WalkedCut] = field(default_factory=list)
    holes: list[tuple[int, int]] = field(default_factory=list)
    overlaps: list[tuple[int, int]] = field(default_factory=list)
    expected: dict[str, int] = field(default_factory=dict)
    unjudged: set[str] = field(default_factory=set)
    under_way: int = 0

    def in_hole(self, first: int) -> bool:
        """Whether no commit has this offset, and that was found already."""
        return any(start <= first < end for start, end in self.holes)


def walk(
    folder: ChainFolder,
    commits: Iterable[Commit | UnreadableCommit],
    findings: Findings,
    *,
    start: int | None,
    again: Callable[[int], Commit | None],
    reads: Callable[[int], bool],
    now_us: int,
    stale_s: int,
) -> WalkedChain:
    """Go along a chain, and note what is wrong with it.

    Args:
        folder: what was listed of it.
        commits: all of them, by `first`.
        findings: takes what is wrong.
        start: where it begins; None for a backfill's, whose cuts may lie apart.
        again: the commit of the cut at an offset, asked for now, where none was listed.
        reads: whether readers look here for the cut at an offset; of others nothing is asked but that they fit.
        now_us: to tell how long an intent has been standing.
        stale_s: for how long one may, before somebody should ask.
    """
    walked = WalkedChain(folder)
    end: int | None = start
    blind: int | None = None
    for commit in commits:
        if blind is not None:
            # Where a commit and its intent tell nothing, the next commit tells where the cut ended.
            walked.cuts.append(WalkedCut(blind, max(commit.first, blind + 1)))
        blind = commit.first if commit.next is None else None
        while start is not None and end is not None and end < commit.first and (missed := again(end)) is not None:
            # Committed while it was being listed: the listing had passed its place.
            _count(walked, missed)
            end = missed.next
        _place(walked, commit, findings, start, end)
        end = commit.next if end is None or commit.next is None else max(end, commit.next)
        _count(walked, commit)
        if commit.first not in folder.intents and commit.first in folder.commits:
            findings.add(
                "intent broken",
                folder.key,
                "is gone, though its commit stands: what was promised cannot be told any more",
                first=commit.first,
                until=commit.next,
                key=folder.key.intent(commit.first),
            )
    if start is None:
        # A backfill's cuts lie anywhere; what readers miss of them shows when its ranges are followed.
        walked.under_way += len(folder.intents.keys() - folder.commits.keys())
    else:
        promised = max((first for first in folder.intents if reads(first)), default=0)
        while end is not None and end < promised and (missed := again(end)) is not None:
            # The same of the last ones, of which the listing had the intent.
            _count(walked, missed)
            end = missed.next
        _intents(walked, findings, end, reads, now_us, stale_s)
    for key in folder.strangers:
        findings.add(
            "chain unreadable",
            folder.key,
            "is no name of the protocol: it stops whoever follows the chain",
            key=key,
            run="lyrebird lake cat {key}",
        )
    return walked


def _place(
    walked: WalkedChain, each: Commit | UnreadableCommit, findings: Findings, start: int | None, end: int | None
) -> None:
    chain = walked.folder.key
    if end is not None and each.first < end:
        walked.overlaps.append((each.first, end))
        findings.add(
            "read twice",
            chain,
            f"begins at {each.first}, before the cut before it ends at {end}",
            first=each.first,
            until=end,
            key=chain.commit(each.first),
        )
    elif start is not None and end is not None and each.first > end:
        walked.holes.append((end, each.first))
        begun = end in walked.folder.intents
        findings.add(
            "hole",
            chain,
            "no commit has these offsets, and later ones follow: "
            + ("their intent stands, so their commit was removed" if begun else "neither intent nor commit stands"),
            first=end,
            until=each.first,
            key=chain.commit(end),
        )


def _count(walked: WalkedChain, each: Commit | UnreadableCommit) -> None:
    if isinstance(each, UnreadableCommit):
        walked.unjudged.update(each.keys)
        if each.next is not None:
            walked.cuts.append(WalkedCut(each.first, each.next))
        return
    gaps = [(gap.until - gap.first, gap.kind) for gap in each.gaps]
    gone, lost = sum(size for size, _ in gaps), sum(size for size, kind in gaps if kind == "lost")
    walked.cuts.append(WalkedCut(each.first, each.next, each.n_records, each.filtered, each.quarantined, gone, lost))
    walked.expected.update({file.key: file.bytes for file in each.files})


def _intents(
    walked: WalkedChain, findings: Findings, end: int | None, reads: Callable[[int], bool], now_us: int, stale_s: int
) -> None:
    """Of cuts without a commit: at the head one is under way; anywhere else nobody may have promised one."""
    folder = walked.folder
    firsts = {cut.first for cut in walked.cuts} | folder.commits.keys()
    for first, info in sorted(folder.intents.items()):
        if first in firsts or walked.in_hole(first):
            continue
        if not reads(first):
            # Whoever wrote here was overtaken by another generation, or a backfill is not promoted yet.
            walked.under_way += 1
            continue
        if end is not None and first != end:
            findings.add(
                "intent broken",
                folder.key,
                f"promises a cut where none can begin: the chain ends at {end}",
                first=first,
                key=info.key,
            )
            continue
        walked.under_way += 1
        age_s = None if info.modified_us is None else (now_us - info.modified_us) // _US
        if age_s is not None and age_s > stale_s:
            findings.add(
                "intent stale",
                folder.key,
                f"has been standing for {counted(age_s // 60, 'minute')} without a commit: is its application running?",
                first=first,
                key=info.key,
                run="lyrebird lake status",
            )
