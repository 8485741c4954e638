"""Finds the offset up to which a chain and its log agree: there a newer revision of a group begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from include.lake.protocol.chain import Chain
from include.lake.protocol.commit_protocol import Head
from include.lake.protocol.cut import Commit

__all__ = ["agreed_until"]


def agreed_until(chain: Chain, head: Head, end: int, epoch_before: Callable[[int], int | None]) -> int:
    """The chain's head; where the log was truncated below it, the end of the last cut that it has as it is stored.

    `end` is the log's, asked for after `head`; `epoch_before` gives the epoch of the leader who took the last record
    below an offset, None where that is not told.
    """
    if head.last is None:
        return head.next
    offset: int | None = None
    for commit in _newest_first(chain, head.last):
        if commit.next > end:
            continue
        offset = commit.next if offset is None else offset
        if commit.leader_epoch is not None:
            before = epoch_before(commit.next)
            if before is None or before <= commit.leader_epoch:
                return offset
            offset = None
        # A cut without records says nothing of those before it.
    return chain.start if offset is None else offset


def _newest_first(chain: Chain, last: int) -> Iterator[Commit]:
    """Mostly the newest is all that is asked for."""
    newest = chain.commit(last)
    if newest is not None:
        yield newest
    yield from reversed([each for each in chain.commits() if each.first < last])
