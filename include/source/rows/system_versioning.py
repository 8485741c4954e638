"""System-versioned tables of MariaDB: rows of today, and those that the server keeps of the past.

Its binlog shows how it keeps them: an UPDATE is an update of today's row and a write of the one before with another
end of its period; a DELETE is an update of that end; DELETE HISTORY deletes rows of the past. A topic has the rows of
today alone, as a plain table would send them: what they were is in its older records. Rows whose period was counted in
transactions are logged as text, which no row is read from.
"""

from __future__ import annotations

from typing import Final

from include.errors import Terminal
from include.record.schema import Column
from include.source.binlog.events import TableMap
from include.source.database.table_info import HIDDEN_END, HIDDEN_START, TableInfo
from include.source.rows.avro import long_piece
from include.source.rows.shape import Image

__all__ = ["ImagePair", "altered_until", "logged_columns", "of_today", "until_of"]

ImagePair = tuple[Image | None, Image | None]
"""(before, after) of a row."""

# The end of what has no end: the greatest TIMESTAMP(6) up to MariaDB 11.4, and since 11.5 (of 64 bits).
_ENDLESS: Final = tuple(long_piece((1 << bits) * 1_000_000 - 1)[1:] for bits in (31, 32))
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


def of_today(pairs: list[ImagePair]) -> list[ImagePair]:
    """What happened to the rows of today; their images as those of any table. `Shape.until` says where they are from.

    A row that goes into the past is deleted; what happens in the past alone is left out.
    """
    found = ((_of_today(before), _of_today(after)) for before, after in pairs)
    return [(before, after) for before, after in found if before is not None or after is not None]


def _of_today(image: Image | None) -> Image | None:
    if image is None:
        return None
    # Varints: none is the beginning of another.
    for end in _ENDLESS:
        if image.key.startswith(end):
            return image._replace(key=image.key[len(end) :])
    return None
