"""Compares a chain with its log: finds what the log has lost, and refuses a log that was truncated."""

from __future__ import annotations

from typing import Final

from include.errors import Terminal
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Gap, gap_kind

__all__ = ["check_epoch", "check_log", "gap_at"]

_FIX: Final = (
    "Find out what Kafka lost (unclean election?), then raise the group's `revision`: it stores again from the last cut"
    " on that the log has as it is stored. What Kafka lost stays in objects of the older generation, until they expire."
)


def gap_at(first: int, expected: int, until: int, begin: int) -> Gap | None:
    """The part of [expected, until) that the log no longer has in the cut at `first`, when it begins at `begin`.

    To be asked for before reading (`expected` is `first`) and when the log begins later in the midst of it. Jumps of
    offsets above the log's beginning are no gaps: compaction, markers and aborted records leave offsets out.
    """
    return Gap(expected, min(begin, until), gap_kind(first)) if begin > expected else None


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
            fix=_FIX,
        )


def check_epoch(chain: ChainKey, first: int, stored: int, before: int | None) -> None:
    """Raise `Terminal` when the log's last record `before` offset `first` is of a newer leader than any that is stored.

    Leaders' epochs never go down along a log: so that record was not there when the chain came as far as `first`. The
    log was truncated and has grown since, and offsets alone do not show it.
    """
    if before is not None and before > stored:
        raise Terminal(
            "the log has other records than are stored of it: it was truncated, and has grown since",
            topic=chain.of.topic,
            partition=chain.partition,
            head=first,
            epoch=before,
            stored_epoch=stored,
            fix=_FIX,
        )
