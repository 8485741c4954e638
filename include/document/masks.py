"""Holds a definition's columns against the source's policy, which a document obeys as topics do.

| the source's policy | a column that the document shows | one that rows are found, chosen or sorted by |
|---|---|---|
| a mask | its values are masked as in topics | stays inside, as it is |
| ignored | refused | refused |
| either, and the definition names it `unmasked` | as it is | as it is |
| either, and its values are taken from topics (`told`) | refused | refused |

Records of changes show a masked value or none. So a change of such a column may show nothing of it: `hidden`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from include.errors import SettingsError
from include.policy.masks import HashMask, Mask, NullMask, masked_column
from include.policy.policy import Policy
from include.record.schema import Column
from include.record.value_texts import value_text
from include.settings.nearest import nearest

__all__ = ["NOTHING_MASKED", "ColumnRead", "ColumnsOf", "DocumentMasks", "obeyed"]

ColumnsOf = Callable[[str], Mapping[str, Column]]
"""Table → its columns by name."""
TableRow = Mapping[str, Any]
TableColumn = tuple[str, str]
ByTable = Mapping[str, Mapping[str, Mask]]


@dataclass(frozen=True, slots=True)
class ColumnRead:
    """A place of a definition that reads a column. `shown`: the document shows it; `above`: what it has to equal."""

    table: str
    column: str
    place: tuple[str | int, ...]
    shown: bool = False
    above: TableColumn | None = None

    @property
    def name(self) -> str:
        """`table.column`."""
        return f"{self.table}.{self.column}"


@dataclass(frozen=True)
class DocumentMasks:
    """The masks of one definition's columns.

    Args:
        shown: table → column → mask of what documents show of it.
        sought: the same of what rows are looked for by, where somebody is told of it.
        hidden: columns on which a document depends and whose change no record shows for certain.
        unmasked: `table.column` that the source masks or ignores, and documents show or use as it is.
    """

    shown: ByTable = field(default_factory=dict)
    sought: ByTable = field(default_factory=dict)
    hidden: frozenset[TableColumn] = frozenset()
    unmasked: tuple[str, ...] = ()

    def row(self, table: str, row: TableRow, columns: ColumnsOf) -> TableRow:
        """The row as documents show it."""
        return _masked(self.shown.get(table), table, row, columns)

    def values(self, table: str, values: TableRow, columns: ColumnsOf) -> TableRow:
        """Values that a row is looked for by, as those outside may hear of them."""
        return _masked(self.sought.get(table), table, values, columns)

    def columns(self, columns_of: ColumnsOf) -> ColumnsOf:
        """Columns as documents show them: a hash is a text."""
        return lambda table: {
            name: column if (mask := self.shown.get(table, {}).get(name)) is None else masked_column(column, mask)
            for name, column in columns_of(table).items()
        }

    def check(self, columns_of: ColumnsOf) -> None:
        """Raise `SettingsError` for a mask that gives no values of its column's type, as capture does."""
        for table, masks in self.shown.items():
            for name, mask in masks.items():
                column = columns_of(table)[name]
                if not mask.fits(column):
                    raise SettingsError(
                        "the mask does not fit the column's type",
                        table=table,
                        column=name,
                        type=column.type,
                        got=str(mask),
                        fix="keep_last is for columns of text: choose another mask in the source's `filter`.",
                    )

    def lines(self) -> list[str]:
        """`table.column (mask)` of each one masked, sorted."""
        return sorted(f"{table}.{name} ({mask})" for table, masks in self.shown.items() for name, mask in masks.items())

    def told(self) -> str:
        """What a person is told of them; empty where the policy does nothing to the documents."""
        parts = [("masked", self.lines()), ("unmasked", self.unmasked)]
        return "; ".join(f"{word} {', '.join(names)}" for word, names in parts if names)


NOTHING_MASKED: Final = DocumentMasks()


def _masked(masks: Mapping[str, Mask] | None, table: str, row: TableRow, columns: ColumnsOf) -> TableRow:
    if not masks:
        return row
    return {**row, **{name: _value(masks[name], table, name, row[name], columns) for name in masks if name in row}}


def _value(mask: Mask, table: str, name: str, value: Any, columns: ColumnsOf) -> str | None:
    if value is None or isinstance(mask, NullMask):
        return None
    text = mask.of(value_text(columns(table)[name], value))
    return None if text is None else text.decode()


def obeyed(
    policy: Policy,
    database: str,
    reads: Iterable[ColumnRead],
    told: Collection[TableColumn],
    unmasked: Sequence[str],
    error: Callable[..., SettingsError],
) -> DocumentMasks:
    """Holds a definition against the source's policy.

    Args:
        policy: of the source.
        database: of the tables.
        reads: each place where the definition reads a column.
        told: columns whose values come from records of changes.
        unmasked: `table.column` that the definition takes out of the policy.
        error: makes the error about a place of the definition.

    Returns:
        What follows for documents.

    Raises:
        SettingsError: a column is read that the source ignores, or taken from records that do not show it; or
            `unmasked` has a name to which the policy does nothing here.
    """
    shown: dict[str, dict[str, Mask]] = {}
    inside: dict[TableColumn, Mask] = {}
    hidden: set[TableColumn] = set()
    governed: set[str] = set()
    reads = list(reads)
    for read in reads:
        table, table_column = policy.of(database, read.table), (read.table, read.column)
        ignored, mask = table.ignores(read.column), table.mask(read.column)
        if not ignored and mask is None:
            continue
        governed.add(read.name)
        verdict = "ignores" if ignored else "masks"
        if table_column in told:
            raise error(
                read.place,
                f"the source {verdict} a column whose values documents are found by, as its topic tells them",
                got=read.name,
                filter=table.why,
                fix="Let it pass in the source's `filter`; or, of a look-up's table, take that table out of `signals`"
                " and `corrected`.",
            )
        if mask is None and read.name not in unmasked:
            raise error(
                read.place,
                "the document reads a column that the source ignores",
                got=read.name,
                filter=table.why,
                fix=f"Leave it out; or, if documents may have it, say `unmasked: [{read.name}]`.",
            )
        if mask is not None and read.name not in unmasked:
            if read.shown:
                shown.setdefault(read.table, {})[read.column] = mask
                continue
            inside[table_column] = mask
        if not isinstance(mask, HashMask):
            hidden.add(table_column)
    for number, name in enumerate(unmasked):
        if name not in governed:
            meant = f"Did you mean {nearest(name, governed)[0]}? " if governed else ""
            raise error(
                ("unmasked", number),
                "the document reads no column of this name that the source masks or ignores",
                got=name,
                allowed=sorted(governed),
                fix=f"{meant}Write it as `table.column`, or take it out.",
            )
    sought: dict[str, dict[str, Mask]] = {}
    for read in reads:
        mask = inside.get((read.table, read.column)) or (inside.get(read.above) if read.above else None)
        if read.above is not None and mask is not None:
            sought.setdefault(read.table, {})[read.column] = mask
    return DocumentMasks(shown, sought, frozenset(hidden), tuple(sorted(set(unmasked))))
