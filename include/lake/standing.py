"""How a chain stands to its log: what is there to store, what is lost, and what must not be."""

from __future__ import annotations

from include.errors import Terminal
from include.lake.chain_key import ChainKey
from include.lake.cut import Gap

__all__ = ["check_log", "gap_before"]


def gap_before(first: int, until: int, begin: int) -> Gap | None:
    """What of the cut [first, until) the log no longer has when it begins at `begin`.

    Below the first cut of a topic's first chain (`first` 0) nothing was ever promised; elsewhere it is a loss.
    Jumps further up are none: compaction, markers and aborted records leave offsets out.
    """
    if begin <= first:
        return None
    return Gap(first, min(begin, until), "lost" if first else "before")


def check_log(chain: ChainKey, head: int, end: int) -> None:
    """Raise `Terminal` when a log of the same topic id ends before the head of its chain: it was truncated.

    A topic made anew has another id and another chain.
    """
    if end < head:
        raise Terminal(
            "the log ends before what is stored of it: it was truncated",
            topic=chain.of.topic,
            partition=chain.partition,
            head=head,
            end=end,
            fix="Find out what Kafka lost (unclean election?), then go on under a new generation.",
        )
