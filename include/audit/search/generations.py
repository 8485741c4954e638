"""Compares the documents of two generations of an index by sums over states, while both are written.

1. sums of all living documents by bucket, of both (`peel`): what both share cancels,
2. what does not is named, a state at a time,
3. the offsets that each generation has settled are read, then each named document in realtime, from both.

A document that the one has in a newer state differs only if the other has settled the record that the state came from;
else that record is on its way there. So there is no false finding however fast the topic is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from include.audit.search.bounds import Window
from include.audit.search.iblt import DecodedSketch, Histogram, SketchCells, differences, peel
from include.audit.search.views.state_view import IndexState, StateView

__all__ = ["ALL", "Equality", "Settled", "equality"]

Settled = Callable[[], tuple[Window, Window]]
"""Offsets below which the one and the other generation have settled all records of the topic, by now."""
GenerationVerdict = Literal["equal", "moving", "missing", "extra", "differing"]
ALL: Final[int] = 1 << 62
"""A window's end beyond all offsets: sums are of all living documents."""
_LEVELS: Final = (14, 16)
_RUNS: Final = 4
_SHOWN: Final = 20


@dataclass(frozen=True)
class Equality:
    """The documents of one topic in two generations.

    `missing` are in `old` alone, `extra` in `new` alone, `differing` in both and not the same. `moving` were written
    meanwhile and are not judged. `unresolved` buckets differ further: then more differs than is named.
    """

    topic: str
    old: str
    new: str
    documents: tuple[int, int]
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    moving: int = 0
    unresolved: int = 0
    bits: tuple[int, ...] = ()
    requests: int = 0
    received_bytes: int = 0

    @property
    def findings(self) -> int:
        """Documents that are not the same, and buckets that hold more of them."""
        return len(self.missing) + len(self.extra) + len(self.differing) + self.unresolved

    def lines(self, shown: int = _SHOWN) -> list[str]:
        """For people."""
        kinds = {"missing": self.missing, "extra": self.extra, "differing": self.differing}
        counts = ", ".join(f"{len(keys):,} {kind}" for kind, keys in kinds.items() if keys)
        if self.unresolved:
            counts = f"{counts or 'no key'} so far, and {self.unresolved:,} buckets differ further"
        held = " and ".join(f"{count:,}" for count in self.documents)
        out = [f"{self.new} against {self.old}, {self.topic}: {counts or 'equal'}; {held} documents"]
        if self.moving:
            out.append(f"  {self.moving:,} documents were written meanwhile and are not judged")
        for kind, keys in kinds.items():
            out += [f"{kind}: {key}" for key in keys[:shown]]
            if len(keys) > shown:
                out.append(f"{kind}: … and {len(keys) - shown:,} more (--json shows all)")
        return [*out, f"  {self.requests} requests, {self.received_bytes / 1e6:.1f} MB received"]

    def to_json(self) -> dict[str, Any]:
        """Plain values, with all keys."""
        return {
            "topic": self.topic,
            "old": self.old,
            "new": self.new,
            "documents": {"old": self.documents[1], "new": self.documents[0]},
            "findings": self.findings,
            "missing": list(self.missing),
            "extra": list(self.extra),
            "differing": list(self.differing),
            "moving": self.moving,
            "unresolved_buckets": self.unresolved,
            "bits": list(self.bits),
            "requests": self.requests,
            "received_bytes": self.received_bytes,
        }


def equality(
    topic: str,
    new: tuple[str, StateView],
    old: tuple[str, StateView],
    settled: Settled,
    *,
    everywhere: bool = False,
    levels: Sequence[int] = _LEVELS,
) -> Equality:
    """Compare the generations `new` and `old`; reads only.

    Args:
        topic: whose documents are compared.
        new: name of a generation, and a moment of it.
        old: the same of the other.
        settled: tells of (new, old); asked once, and only where something differs.
        everywhere: documents may lie under any routing.
        levels: bits of the numbers of buckets, tried in this order until the sums tell all.

    Raises:
        Transient: an answer is not whole.
    """
    (name, mine), (other, theirs) = new, old
    peeled, ids = DecodedSketch(), set[str]()
    bits: tuple[int, ...] = ()
    documents = (0, 0)
    for level in levels:
        one, two = mine.histograms(level)[0], theirs.histograms(level)[0]
        bits, documents = (*bits, level), (_count(one), _count(two))
        peeled, ids = _proven(differences(one, two), level, mine, theirs)
        if peeled.whole:
            break
    verdicts: dict[GenerationVerdict, list[str]] = {
        "missing": [],
        "extra": [],
        "differing": [],
        "moving": [],
        "equal": [],
    }
    if ids:
        acked = settled()
        now = mine.now(ids, everywhere=everywhere), theirs.now(ids, everywhere=everywhere)
        for doc_id in sorted(ids):
            verdicts[_judge(now[0].get(doc_id, []), now[1].get(doc_id, []), *acked)].append(doc_id)
    return Equality(
        topic,
        other,
        name,
        documents,
        tuple(verdicts["missing"]),
        tuple(verdicts["extra"]),
        tuple(verdicts["differing"]),
        len(verdicts["moving"]) + len(verdicts["equal"]),
        max(len(cells) for cells in peeled.rest),
        bits,
        mine.requests + theirs.requests,
        mine.received + theirs.received,
    )


def _proven(cells: SketchCells, bits: int, mine: StateView, theirs: StateView) -> tuple[DecodedSketch, set[str]]:
    """Peel until each state that came out has a holder, as others came out by chance; and the holders' ids."""
    refused: set[int] = set()
    peeled, holders = peel(cells, bits), list[IndexState]()
    for _ in range(_RUNS):
        holders = mine.holders(peeled.more) if peeled.more else []
        holders += theirs.holders(peeled.less) if peeled.less else []
        chance = {*peeled.more, *peeled.less} - {holder.state for holder in holders}
        if not chance:
            break
        refused |= chance
        peeled = peel(cells, bits, refused)
    else:
        # The last peeling was not looked at any more: what came out before it is no answer.
        return DecodedSketch(rest=cells), {holder.doc_id for holder in holders}
    return peeled, {holder.doc_id for holder in holders}


def _judge(
    mine: Sequence[IndexState], theirs: Sequence[IndexState], acked: Window, acked_old: Window
) -> GenerationVerdict:
    """What became of one document, from its copies now and the offsets that were settled before."""
    living = Counter(d.state for d in mine if not d.deleted), Counter(d.state for d in theirs if not d.deleted)
    if living[0] == living[1]:
        return "equal"
    newest, newest_old = (max(each, key=lambda d: d.version, default=None) for each in (mine, theirs))
    if newest is not None and (newest_old is None or newest.version > newest_old.version):
        moving = newest.offset >= acked_old.get(newest.partition, 0)
    elif newest_old is not None and (newest is None or newest_old.version > newest.version):
        moving = newest_old.offset >= acked.get(newest_old.partition, 0)
    else:
        moving = False
    if moving:
        return "moving"
    return "missing" if not living[0] else "extra" if not living[1] else "differing"


def _count(sums: Sequence[Histogram]) -> int:
    return sum(count for count, _ in sums[0].values())
