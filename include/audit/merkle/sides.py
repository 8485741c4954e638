"""Ports of the two copies of a table: each is a side that gives hashes of its rows, range by range.

One side leads: it reads a range when it is asked to, and says of which moment that is. The other follows: it gives the
same range as of that moment. A database can only lead; whoever follows can lead as well, as of one moment
(`SnapshotSide`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from include.record.position import SourcePosition
from include.source.hashes.scan import ScannedRange
from include.source.snapshot.watermark_window import SnapshotSpan
from include.source.state.key_range import KeyRange

__all__ = ["AsOfRange", "FollowingSide", "FoundRows", "LeadingSide", "SnapshotSide"]


class AsOfRange(NamedTuple):
    """A range of keys, and the moment that it is wanted as of."""

    rows: KeyRange
    at: SnapshotSpan


@dataclass(frozen=True)
class FoundRows:
    """The rows of some leaves of a range: text of the key → text of the row (`source.hashes.plain`).

    `unsure`: keys that changed within `span`, where that is not one moment; a side that leads knows of none.
    """

    span: SnapshotSpan
    texts: Mapping[str, str]
    unsure: Collection[str] = ()


class LeadingSide(Protocol):
    """Reads now. Calls raise `Transient` where a server does not answer, `Terminal` where no comparison can be."""

    def leaves(self, parts: Sequence[KeyRange], bits: int) -> list[ScannedRange]:
        """The leaves of each range, by numbers of so many bits."""

    def rows_of(self, parts: Mapping[KeyRange, Collection[int]], bits: int) -> dict[KeyRange, FoundRows]:
        """The rows of some leaves of each range."""


class FollowingSide(Protocol):
    """Reads as of given moments, which are no earlier than it was opened. Raises as `LeadingSide`."""

    def leaves(self, asked: Sequence[AsOfRange], bits: int) -> list[ScannedRange]:
        """The leaves of each range as of its moment; of a span, as of its beginning."""

    def rows_of(self, asked: Mapping[AsOfRange, Collection[int]], bits: int) -> dict[AsOfRange, FoundRows]:
        """The rows of some leaves of each range as of its moment."""

    def earlier(self, keys: Collection[str]) -> Mapping[str, Collection[str]]:
        """Texts of the rows that the topic has had for these keys before its newest one, by text of the key."""


class SnapshotSide:
    """A copy that leads: all that it gives is as of one moment, which is no earlier than it was opened."""

    def __init__(self, copy: FollowingSide, at: SourcePosition) -> None:
        self._copy, self._span = copy, SnapshotSpan(at, at)

    def leaves(self, parts: Sequence[KeyRange], bits: int) -> list[ScannedRange]:
        """As `LeadingSide`."""
        return self._copy.leaves([AsOfRange(part, self._span) for part in parts], bits)

    def rows_of(self, parts: Mapping[KeyRange, Collection[int]], bits: int) -> dict[KeyRange, FoundRows]:
        """As `LeadingSide`."""
        found = self._copy.rows_of({AsOfRange(part, self._span): leaves for part, leaves in parts.items()}, bits)
        return {asked.rows: rows for asked, rows in found.items()}
