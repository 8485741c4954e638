"""Checks the cuts that readers find by the pointer: every offset of a partition in one cut, up to the head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from include.audit.chain.finding import Findings
from include.audit.chain.listing import LifeListing
from include.audit.chain.walk import WalkedChain, WalkedCut
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.pointer import ReadersPointer

__all__ = ["check_pointer", "read_cuts"]


def check_pointer(listing: LifeListing, pointer: ReadersPointer, findings: Findings) -> None:
    """Notes a missing pointer, generations that it reserves twice, does not reserve or does not know, and lost chains.

    A chain is lost where the pointer says how far it had come, and no generation has anything of the partition.
    """
    topic = listing.topic
    if not listing.pointer:
        findings.add("pointer wrong", topic, "is gone: readers find nothing of this topic", key=topic.pointer)
        return
    numbers = [each.generation for each in pointer.reserved]
    known = set(numbers)
    if len(known) != len(numbers):
        findings.add("pointer wrong", topic, "reserves a generation twice", key=topic.pointer)
    for entry in pointer.entries:
        if entry.generation not in known:
            meaning = f"sends readers to generation {entry.generation}, which nobody reserved"
            findings.add("pointer wrong", topic, meaning, key=topic.pointer)
    for generation in sorted({generation for generation, _ in listing.chains} - known):
        partition = min(p for g, p in listing.chains if g == generation)
        findings.add(
            "pointer wrong",
            ChainKey(topic, generation, partition),
            "does not know this generation: nobody reserved it, and another may take its number",
            key=topic.pointer,
        )
    for partition, head in sorted(_reached(pointer).items()):
        if head > pointer.floor(partition) and all(partition != p for _, p in listing.chains):
            findings.add(
                "hole",
                ChainKey(topic, pointer.live.generation if pointer.live else 1, partition),
                "the pointer says that readers found them, and no commit is there any more",
                first=pointer.floor(partition),
                until=head,
            )


def _reached(pointer: ReadersPointer) -> dict[int, int]:
    """By partition up to where commits were, as far as the pointer tells."""
    reached = dict(pointer.heads)
    for entry in pointer.entries:
        for partition, ranges in entry.cuts.items():
            reached[partition] = max([reached.get(partition, 0), *(first for first, _ in ranges)])
    return reached


def read_cuts(
    listing: LifeListing, pointer: ReadersPointer, partition: int, chains: Mapping[int, WalkedChain], findings: Findings
) -> list[WalkedCut]:
    """The cuts that readers find, by `first`; notes what lies between them and what two have, unless it is known.

    `chains` are those of the partition, by generation.
    """
    cuts = sorted(
        (cut, generation)
        for generation, chain in chains.items()
        for cut in chain.cuts
        if pointer.generation_of(partition, cut.first) == generation
    )
    end = min((start for entry in pointer.entries if (start := entry.start(partition)) is not None), default=0)
    end = max(end, pointer.floor(partition))
    for cut, generation in cuts:
        key = ChainKey(listing.topic, generation, partition)
        if cut.first > end:
            sent_to = pointer.generation_of(partition, end) or generation
            oldest = cut is cuts[0][0]
            _hole(ChainKey(listing.topic, sent_to, partition), end, cut.first, chains, findings, oldest=oldest)
        elif cut.first < end and not _known((each.overlaps for each in chains.values()), cut.first, end):
            findings.add(
                "read twice",
                key,
                "the pointer's ranges let readers find these offsets in two generations",
                first=cut.first,
                until=min(end, cut.next),
                key=listing.topic.pointer,
            )
        end = max(end, cut.next)
    needed, generation = _needed(pointer, partition)
    if needed > end:
        _hole(ChainKey(listing.topic, generation, partition), end, needed, chains, findings)
    return [cut for cut, _ in cuts]


def _needed(pointer: ReadersPointer, partition: int) -> tuple[int, int]:
    """Up to where the entries take something to be there, and the generation of the entry that does."""
    ends = [(0, 0)]
    for entry in pointer.entries:
        for first, until in entry.cuts.get(partition, ()):
            ends.append((first if until is None else until, entry.generation))
    return max(ends)


def _hole(
    key: ChainKey,
    first: int,
    until: int,
    chains: Mapping[int, WalkedChain],
    findings: Findings,
    *,
    oldest: bool = False,
) -> None:
    if _known((each.holes for each in chains.values()), first, until):
        return
    findings.add(
        "hole",
        key,
        "the pointer sends readers where no commit has these offsets"
        + (
            "; the oldest are gone: did a lifecycle rule take them? `lyrebird lake forget --accept-missing` accepts it"
            if oldest
            else ""
        ),
        first=first,
        until=until,
        key=key.of.pointer,
    )


def _known(noted: Iterable[Sequence[tuple[int, int]]], first: int, until: int) -> bool:
    """Whether some of it was noted when the chains were walked."""
    return any(start < until and first < end for ranges in noted for start, end in ranges)
