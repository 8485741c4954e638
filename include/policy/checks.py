"""The filter policy held against the tables that there are: what a deployment file alone cannot tell.

To be asked at the start, of all tables, and of a table whenever its columns change: a masked column that was renamed
would leave in the clear under its new name, and is refused here as one that the table does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from include.errors import SettingsError
from include.policy.masks import MASKS, NullMask
from include.policy.patterns import TablePattern
from include.policy.policy import Policy
from include.record.schema import Column

__all__ = ["TableColumns", "check_columns", "check_key", "findings", "table_findings"]


@dataclass(frozen=True, slots=True)
class TableColumns:
    """A table to check: its columns, and its primary or unique key, () when it has none."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]


def check_key(policy: Policy, table: tuple[str, str], key_columns: Sequence[str]) -> None:
    """Raise `SettingsError` when the records of `(database, table)` would lose what they are told apart by.

    Key columns must be there as they are: hashed ones are refused too. Columns of `partition_by` must leave values
    to choose by, so they are neither ignored nor null. A table that is dropped has nothing to lose.
    """
    table_policy = policy.of(*table)
    if not table_policy.passes:
        return
    name, path = ".".join(table), ("filter", table_policy.entry)
    for column in key_columns:
        if table_policy.ignores(column) or table_policy.mask(column) is not None:
            raise policy.origin.error(
                (*path, "ignored_columns" if table_policy.ignores(column) else "masks"),
                f"a key column cannot be {'ignored' if table_policy.ignores(column) else 'masked'}",
                table=name,
                column=column,
                key=list(key_columns),
                fix="Take it out of the list, or drop the table.",
            )
    for column in policy.partition_columns(*table):
        if table_policy.ignores(column) or isinstance(table_policy.mask(column), NullMask):
            raise policy.origin.error(
                (*path, "ignored_columns" if table_policy.ignores(column) else "masks"),
                f"a column of `partition_by` cannot be {'ignored' if table_policy.ignores(column) else 'null'}",
                table=name,
                column=column,
                partition_by=list(policy.partition_columns(*table)),
                fix="Take it out of the list, or choose the partition by another column.",
            )


def check_columns(policy: Policy, table: tuple[str, str], columns: Sequence[Column]) -> None:
    """Raise `SettingsError` when the deciding entry does not fit the table's columns.

    An entry that names the table may name its columns only. One with wildcards may name columns that just some of
    its tables have. A mask must give values of the column's type.
    """
    table_policy = policy.of(*table)
    if not table_policy.passes or table_policy.whole:
        return
    there = {column.name.lower() for column in columns}
    if TablePattern.parse(table_policy.entry).exact:
        for column, path in _named(policy, table_policy.entry):
            if column.lower() not in there:
                raise policy.origin.error(
                    path,
                    "no such column",
                    table=".".join(table),
                    got=column,
                    allowed=sorted(c.name for c in columns),
                    fix="Correct the name; if the column was renamed, name it as it is called now.",
                )
    for table_column in columns:
        mask = table_policy.mask(table_column.name)
        if mask is not None and not mask.fits(table_column):
            raise policy.origin.error(
                ("filter", table_policy.entry, "masks", _as_listed(table_column.name, table_policy.masks)),
                "the mask does not fit the column's type",
                table=".".join(table),
                column=table_column.name,
                type=table_column.type,
                got=str(mask),
                allowed=list(MASKS[:2]),
                fix="keep_last is for columns of text.",
            )


def table_findings(policy: Policy, name: tuple[str, str], table: TableColumns) -> list[SettingsError]:
    """Collects what `check_columns` and `check_key` refuse of one table."""
    errors = []
    try:
        check_columns(policy, name, table.columns)
    except SettingsError as refused:
        errors.append(refused)
    try:
        check_key(policy, name, table.key)
    except SettingsError as refused:
        errors.append(refused)
    return errors


def findings(policy: Policy, tables: Mapping[tuple[str, str], TableColumns]) -> list[SettingsError]:
    """Everything wrong with the policy on a server with these tables.

    Beside `table_findings` of each: an entry with wildcards that names a column which none of its tables has, and one
    that names a table in other letters than the server: what it should have held back would leave.
    """
    errors: list[SettingsError] = []
    there: dict[str, set[str]] = {}
    for name, table in tables.items():
        entry = policy.of(*name).entry
        there.setdefault(entry, set()).update(column.name for column in table.columns)
        errors += table_findings(policy, name, table)
    for rule in policy.rules:
        entry = rule.pattern.text
        if rule.pattern.exact:
            errors += _in_other_letters(policy, rule.pattern, tables)
        if rule.pattern.exact or entry not in there:
            continue
        lower = {column.lower() for column in there[entry]}
        errors += [
            policy.origin.error(
                path,
                "no table of this entry has such a column",
                got=column,
                allowed=sorted(there[entry]),
                fix="Correct the name, or leave it out.",
            )
            for column, path in _named(policy, entry)
            if column.lower() not in lower
        ]
    return errors


def _in_other_letters(
    policy: Policy, pattern: TablePattern, tables: Iterable[tuple[str, str]]
) -> Iterator[SettingsError]:
    names = [name for name in tables if name[1].lower() == pattern.table.lower() and pattern.matches_database(name[0])]
    if names and not any(pattern.matches(*name) for name in names):
        yield policy.origin.error(
            ("filter", pattern.text),
            "no table has this name, but one has it in other letters",
            got=pattern.text,
            allowed=sorted(".".join(name) for name in names),
            fix="Write it as the server does.",
        )


def _named(policy: Policy, entry: str) -> list[tuple[str, tuple[str, ...]]]:
    """Columns that an entry names, each with its place."""
    rule = next(rule for rule in policy.rules if rule.pattern.text == entry)
    ignored = [(column, ("filter", entry, "ignored_columns")) for column in sorted(rule.ignored)]
    return [*ignored, *((column, ("filter", entry, "masks", column)) for column in rule.masks)]


def _as_listed(column: str, names: Iterable[str]) -> str:
    return next(name for name in names if name.lower() == column.lower())
