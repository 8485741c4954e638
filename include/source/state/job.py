"""Snapshots that capture owes, as its resolved records keep them: what is asked, and how far each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from include.source.state.key_range import WHOLE, KeyRange

__all__ = ["FIRST", "GAP_OF_TOPIC", "Job"]

FIRST = "first-snapshot"
"""The id of the job that reads all tables when capture begins."""


GAP_OF_TOPIC: Final = "gap:topic:"
"""How ids of jobs begin that read tables again because their topics were lost."""


@dataclass(frozen=True, slots=True)
class Job:
    """A snapshot that is owed.

    Attributes:
        tables: those that are left, in full names.
        gap: rows were missed before it, so a floor ends each table.
        asked: a request of that id, which is answered; else capture's own.
        where: `Condition` that chooses the rows; "": all.
        keys: the only rows that are wanted of its one table (`wanted_keys`); (): all.
        rows_per_s: most rows read in a second, 0: no limit; None: as the source says.
        uncovered: its tables are incomplete until it is done, as those of a gap are.
        left: table → ranges of keys not read yet, of tables that were begun.
        sorted_by: table → the key that those ranges were cut by.
        floors: table → its floor, of a gap's tables once it was begun.
        done: rows read.
        total: about how many there are to read, None while that is unknown.
    """

    id: str
    tables: tuple[str, ...]
    gap: bool
    asked: bool = False
    where: str = ""
    keys: tuple[str, ...] = ()
    rows_per_s: int | None = None
    uncovered: bool = False
    left: Mapping[str, tuple[KeyRange, ...]] = field(default_factory=dict)
    sorted_by: Mapping[str, str] = field(default_factory=dict)
    floors: Mapping[str, int] = field(default_factory=dict)
    done: int = 0
    total: int | None = None

    @property
    def incomplete(self) -> bool:
        """Whether its tables are incomplete until it is done."""
        return self.gap or self.uncovered

    def ranges(self, table: str) -> tuple[KeyRange, ...]:
        """What is left of a table."""
        return self.left.get(table, (WHOLE,))

    def begun(self, floor: int) -> Job:
        """With its tables begun, but for those that were; `floor`: no row of before has a version of at least this."""
        return replace(self, floors={**dict.fromkeys(self.tables, floor), **self.floors}) if self.gap else self

    def read(self, table: str, left: tuple[KeyRange, ...], sorted_by: str, rows: int) -> Job:
        """With `rows` more, and that left of the table."""
        return replace(
            self,
            left={**self.left, table: left},
            sorted_by={**self.sorted_by, table: sorted_by},
            done=self.done + rows,
        )

    def without(self, table: str) -> Job:
        """Without a table that is done, or gone."""
        return replace(
            self,
            tables=tuple(each for each in self.tables if each != table),
            left={name: left for name, left in self.left.items() if name != table},
            sorted_by={name: key for name, key in self.sorted_by.items() if name != table},
            floors={name: floor for name, floor in self.floors.items() if name != table},
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for the resolved record."""
        return {
            "id": self.id,
            "tables": list(self.tables),
            "gap": self.gap,
            "asked": self.asked,
            "where": self.where,
            "keys": list(self.keys),
            "rows_per_s": self.rows_per_s,
            "uncovered": self.uncovered,
            "left": {table: [each.to_json() for each in left] for table, left in self.left.items()},
            "sorted_by": dict(self.sorted_by),
            "floors": dict(self.floors),
            "done": self.done,
            "total": self.total,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Job:
        """Inverse of `to_json`; reads older records too. Raises `KeyError` and `TypeError` for anything else."""
        return cls(
            value["id"],
            tuple(value["tables"]),
            value["gap"],
            value.get("asked", not value["gap"]),
            value.get("where", ""),
            tuple(value.get("keys", ())),
            value.get("rows_per_s"),
            value.get("uncovered", False),
            {table: tuple(map(KeyRange.from_json, left)) for table, left in value.get("left", {}).items()},
            value.get("sorted_by", {}),
            value.get("floors", {}),
            value.get("done", 0),
            value.get("total"),
        )
