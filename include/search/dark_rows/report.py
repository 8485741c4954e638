"""The report of a dark launch of joined rows, in words and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from include.search.dark_rows.comparison import RowDifference

__all__ = ["DarkRowOutcome", "DarkRowsReport"]

DarkRowOutcome = Literal["equal", "lag", "differs", "undecided"]
"""equal: at once. lag: once both indexes had the database's position. differs: then, too. undecided: an index did not
get there in time, or does not say where it is."""
_KEPT: Final = 1000
_SHOWN: Final = 20


@dataclass
class DarkRowsReport:
    """`outcomes`: documents; `items`: those that are to have rows, of all documents; `rows`: read of them.

    `found`: differences by kind and field; `examples`: the first thousand.
    """

    name: str
    outcomes: Counter[DarkRowOutcome] = field(default_factory=Counter)
    items: int = 0
    rows: int = 0
    found: Counter[str] = field(default_factory=Counter)
    examples: list[RowDifference] = field(default_factory=list)

    def decided(self, outcome: DarkRowOutcome, items: int, rows: int, found: Sequence[RowDifference] = ()) -> None:
        """Take what one document has come to."""
        self.outcomes[outcome] += 1
        self.items += items
        self.rows += rows
        self.found.update(each.name for each in found)
        self.examples += found[: _KEPT - len(self.examples)]

    @property
    def documents(self) -> int:
        """The number of documents that were looked at."""
        return self.outcomes.total()

    @property
    def differs(self) -> bool:
        """Whether one is known to differ."""
        return self.outcomes["differs"] > 0

    @property
    def good(self) -> bool:
        """Whether something was compared, and all of it is the same."""
        return self.items > 0 and not self.differs and not self.outcomes["undecided"]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "good": self.good,
            "documents": self.documents,
            "items": self.items,
            "rows": self.rows,
            "outcomes": {name: self.outcomes[name] for name in ("equal", "lag", "differs", "undecided")},
            "found": dict(sorted(self.found.items())),
            "differences": [each.to_json() for each in self.examples],
        }

    def lines(self, of: str, item: str) -> list[str]:
        """For a person; `of` and `item` are the fields that name a document's rows, and an item."""
        said = ", ".join(f"{self.outcomes[name]:,} {name}" for name in ("lag", "differs", "undecided"))
        out = [
            f"dark rows {self.name}: {self.documents:,} documents with {self.items:,} items, {self.rows:,} rows",
            f"  {self.outcomes['equal']:,} equal, {said}",
        ]
        for example in self.examples[:_SHOWN]:
            where = f"{of} {example.of}, {item} {example.item}"
            if example.kind == "field":
                out.append(f"field: {where}: {example.field} is {example.document!r}, in the row {example.row!r}")
            else:
                out.append(f"{example.kind}: {where}")
        more = self.found.total() - min(len(self.examples), _SHOWN)
        if more:
            out.append(f"… and {more:,} more (--json shows {_KEPT:,})")
        if self.outcomes["undecided"]:
            out.append("next: see by `lyrebird index status` how far both indexes are, then run this again")
        return out
