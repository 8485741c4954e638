"""Reports what a source's filter policy makes of tables, column by column: small values for whoever shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from include.policy.checks import TableColumns, table_findings
from include.policy.policy import Policy, TablePolicy

__all__ = ["ColumnFate", "ColumnReport", "TablePolicyReport", "named_tables", "report", "tables_meant"]

ColumnFate = Literal["as is", "ignored", "masked"]
ReportedTables = Mapping[tuple[str, str], TableColumns]


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """One column; `mask` as the file writes it, "" without one."""

    name: str
    fate: ColumnFate
    mask: str = ""
    key: bool = False

    def __str__(self) -> str:
        return (f"masked, {self.mask}" if self.mask else self.fate) + (" (key)" if self.key else "")


@dataclass(frozen=True, slots=True)
class TablePolicyReport:
    """One table, or one pattern where no server says which tables there are.

    `known` is None when no server was asked, else whether it has the table. Of a table that is not known `columns`
    are those that the policy names; of a dropped one there are none. `problems` keep capture from starting.
    """

    table: str
    passes: bool
    why: str
    known: bool | None
    columns: tuple[ColumnReport, ...] = ()
    problems: tuple[str, ...] = ()


def report(policy: Policy, table: tuple[str, str], tables: ReportedTables | None) -> TablePolicyReport:
    """Reports what becomes of `(database, table)`; `tables` are the server's, None when it was not asked."""
    found = policy.of(*table)
    there = tables.get(table) if tables is not None else None
    problems = tuple(str(each) for each in table_findings(policy, table, there)) if there else ()
    known = None if tables is None else there is not None
    return TablePolicyReport(".".join(table), found.passes, found.why, known, _columns(found, there), problems)


def named_tables(policy: Policy) -> list[TablePolicyReport]:
    """The tables that `filter` names, in each database where they are meant, and its patterns, in their order."""
    names = [
        (database, rule.pattern.table)
        for rule in policy.rules
        if rule.pattern.exact
        for database in policy.databases
        if rule.pattern.matches_database(database)
    ]
    reports = [report(policy, name, None) for name in dict.fromkeys(names)]
    for rule in policy.rules:
        if not rule.pattern.exact:
            found = policy.by(rule, rule.pattern.database, rule.pattern.table)
            reports.append(TablePolicyReport(rule.pattern.text, found.passes, found.why, None, _columns(found, None)))
    return reports


def tables_meant(policy: Policy, text: str, tables: ReportedTables | None) -> list[tuple[str, str]]:
    """The tables that a person may mean by `table` or `database.table`.

    A bare name is meant in the captured databases that have it; where none has it, or no server was asked, in all.
    """
    database, dot, table = text.partition(".")
    if dot:
        return [(database, table)]
    everywhere = [(each, text) for each in policy.databases]
    return [name for name in everywhere if tables and name in tables] or everywhere


def _columns(found: TablePolicy, there: TableColumns | None) -> tuple[ColumnReport, ...]:
    if not found.passes:
        return ()
    names: Sequence[str] = (
        [column.name for column in there.columns] if there else [*sorted(found.ignored), *found.masks]
    )
    return tuple(_column(found, name, there is not None and name in there.key) for name in names)


def _column(found: TablePolicy, name: str, key: bool) -> ColumnReport:
    mask = found.mask(name)
    if found.ignores(name):
        return ColumnReport(name, "ignored", key=key)
    return ColumnReport(name, "as is" if mask is None else "masked", "" if mask is None else str(mask), key)
