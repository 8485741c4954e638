"""What an audit by counts asks of an index. `elasticsearch` and `memory` pass `tests/contract/test_range_count.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from include.audit.key_range import KeyRange

__all__ = ["NO_LOWS", "IndexView", "Seen", "Window"]

Window = Mapping[int, int]
"""Partition -> offset: documents from below these offsets count. A partition that is not named counts nothing."""
NO_LOWS: Final[Window] = MappingProxyType({})
"""Low watermarks: from the beginning of each partition."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A document at this moment: where it came from, and whether it is a tombstone."""

    partition: int
    offset: int
    version: int
    deleted: bool


class IndexView(Protocol):
    """One moment of an index: all counts and lists are of the same documents; `now` alone is of this moment.

    Only living documents from within the window count. Raises `Transient` for an answer that is not whole (a shard
    that failed, a search that ran out of time): no audit may rest on it.
    """

    @property
    def requests(self) -> int:
        """Requests so far."""

    @property
    def received(self) -> int:
        """Bytes of the answers, as they came over the wire."""

    def counts(self, ranges: Sequence[KeyRange]) -> list[int]:
        """How many documents are in each range. One round trip for 500 of them."""

    def ids(self, ranges: Sequence[KeyRange], most: int) -> list[list[str]]:
        """Ids in each range, sorted; at most `most` of each (10,000 at the utmost)."""

    def now(self, doc_ids: Sequence[str]) -> dict[str, Seen]:
        """Those that exist at this moment, without the window, tombstones too."""

    def close(self) -> None:
        """Let go of the moment; may be called twice."""
