"""Sides of a comparison that only remember: a table by its history, read now or as of then."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from include.audit.merkle.sides import AsOfRange, FoundRows
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.hashes.scan import ScannedRange
from include.source.hashes.sums import HashSum, leaf_of
from include.source.snapshot.watermark_window import SnapshotSpan
from include.source.state.key_range import KeyRange

__all__ = ["History", "Now", "Then", "at", "hashed"]


def hashed(key: str, row: str) -> str:
    """Of rows whose texts lack their keys."""
    return hashlib.md5(f"{key}{row}".encode(), usedforsecurity=False).hexdigest()


def at(number: int) -> SourcePosition:
    """The moment after so many transactions."""
    return SourcePosition(
        "mariadb", MariadbGtidSet.parse(f"0-1-{number}"), BinlogPosition("bin.000001", number), number
    )


@dataclass
class History:
    """A table of whole numbers as keys: each transaction puts or deletes a row; `wrong` is what a copy makes of keys.

    `number`: how many transactions a moment has. `hashed`: of a key and its row.
    """

    changes: list[tuple[str, str | None]]
    wrong: Mapping[str, str | None] = field(default_factory=dict)
    number: Callable[[SourcePosition], int] = lambda position: position.commit_us
    hashed: Callable[[str, str], str] = hashed

    def rows(self, number: int, part: KeyRange) -> dict[str, str]:
        """Those of a range after so many transactions."""
        found = {**dict(self.changes[:number]), **self.wrong}
        return {
            key: value
            for key, value in found.items()
            if value is not None
            and (not part.after or int(key) > int(part.after[0]))
            and (not part.upto or int(key) <= int(part.upto[0]))
        }

    def leaves(self, number: int, part: KeyRange, bits: int) -> dict[int, HashSum]:
        """Sums of them."""
        found: dict[int, HashSum] = {}
        for key, row in self.rows(number, part).items():
            leaf = leaf_of(key.encode(), bits)
            found[leaf] = found.get(leaf, HashSum()).plus(HashSum.of(self.hashed(key, row)))
        return found

    def of_leaves(self, number: int, part: KeyRange, leaves: Collection[int], bits: int) -> dict[str, str]:
        """Those of some leaves."""
        return {key: row for key, row in self.rows(number, part).items() if leaf_of(key.encode(), bits) in leaves}


class Now:
    """Leads: each range is read at the next of some moments, which may be spans that show anything between."""

    def __init__(self, history: History, moments: Sequence[tuple[int, int, int]]) -> None:
        self.history, self._left = history, list(moments)

    def _next(self) -> tuple[SnapshotSpan, int]:
        low, shows, high = self._left.pop(0) if self._left else (len(self.history.changes),) * 3
        return SnapshotSpan(at(low), at(high)), shows

    def leaves(self, parts: Sequence[KeyRange], bits: int) -> list[ScannedRange]:
        moments = [self._next() for _ in parts]
        return [
            ScannedRange(span, self.history.leaves(n, part, bits))
            for part, (span, n) in zip(parts, moments, strict=True)
        ]

    def rows_of(self, parts: Mapping[KeyRange, Collection[int]], bits: int) -> dict[KeyRange, FoundRows]:
        found = {}
        for part, leaves in parts.items():
            span, shows = self._next()
            found[part] = FoundRows(span, self.history.of_leaves(shows, part, leaves, bits))
        return found


class Then:
    """Follows: any moment of the same history, or of one that went wrong."""

    def __init__(self, history: History) -> None:
        self.history, self.asked = history, list[Collection[str]]()

    def leaves(self, asked: Sequence[AsOfRange], bits: int) -> list[ScannedRange]:
        number = self.history.number
        return [ScannedRange(each.at, self.history.leaves(number(each.at.low), each.rows, bits)) for each in asked]

    def rows_of(self, asked: Mapping[AsOfRange, Collection[int]], bits: int) -> dict[AsOfRange, FoundRows]:
        return {each: self._rows(each, leaves, bits) for each, leaves in asked.items()}

    def _rows(self, each: AsOfRange, leaves: Collection[int], bits: int) -> FoundRows:
        low, high = self.history.number(each.at.low), self.history.number(each.at.high)
        moved = {key for key, _ in self.history.changes[low:high]}
        return FoundRows(each.at, self.history.of_leaves(low, each.rows, leaves, bits), moved)

    def earlier(self, keys: Collection[str]) -> Mapping[str, Collection[str]]:
        self.asked.append(keys)
        newest = dict(self.history.changes)
        found: dict[str, set[str]] = {}
        for key, value in self.history.changes:
            if value != newest[key]:
                found.setdefault(key, set()).add(value or "")
        return found
