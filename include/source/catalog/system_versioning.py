"""System-versioned tables of MariaDB: rows of today, and those that the server keeps of the past.

Its binlog shows how it keeps them: an UPDATE is an update of today's row and a write of the one before with another
end of its period; a DELETE is an update of that end; DELETE HISTORY deletes rows of the past. A topic has the rows of
today alone, as a plain table would send them: what they were is in its older records. Rows whose period was counted in
transactions are logged as text, which no row is read from.
"""

from __future__ import annotations

from include.errors import Terminal
from include.record.schema import Column
from include.source.binlog.events import TableMap
from include.source.database.table_info import HIDDEN_END, HIDDEN_START, TableInfo

__all__ = ["altered_until", "logged_columns", "until_of"]

_TIMESTAMP, _DIGITS = 17, 6


def logged_columns(info: TableInfo) -> tuple[Column, ...]:
    """The columns that table maps have: those of a period that nobody declared come last."""
    columns = tuple(info.columns)
    if info.period is None or {column.name for column in columns} & set(info.period):
        return columns
    return (*columns, *(Column(name, "timestamp", digits=_DIGITS) for name in info.period))


def until_of(info: TableInfo, columns: tuple[Column, ...]) -> int | None:
    """Index of the column that ends the period; None without one. Raises `Terminal` for one of transactions."""
    if info.period is None:
        return None
    if info.by_transactions:
        raise Terminal(
            "the table is system-versioned by transactions: MariaDB logs its changes as text, without rows",
            table=".".join(info.name),
            fix="Let its period be TIMESTAMP(6), or drop the table in the source's `filter`.",
        )
    return [column.name for column in columns].index(info.period[1])


def altered_until(table: TableMap, info: TableInfo | None) -> int | None:
    """`until_of` for rows of before an ALTER, by their map alone, which names its columns.

    Raises `ValueError` where it cannot be told whether the table was system-versioned then.
    """
    names, last = table.names, len(table.names) - 1
    timed = [i for i in range(len(names)) if table.types[i] == _TIMESTAMP and table.metas[i] == _DIGITS]
    hidden = names[-2:] == (HIDDEN_START, HIDDEN_END) and {last - 1, last} <= set(timed)
    if info is not None and info.period is not None:
        until = names.index(info.period[1]) if info.period[1] in names else None
        if until in timed and (until in table.key or not table.key):
            return until
    declared = {column.name for column in info.columns} if info else set()
    strange = any(not info or names[i] not in info.key for i in timed if i in table.key)
    if strange or (hidden and not {HIDDEN_START, HIDDEN_END} <= declared):
        raise ValueError("it may have been system-versioned then")
    return None
