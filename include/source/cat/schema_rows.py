"""Rows of `information_schema.columns`, given as JSON → the tables that they describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from include.errors import Terminal
from include.source.database.table_info import TableInfo
from include.source.rows.columns import column_of

__all__ = ["described"]


def described(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], TableInfo]:
    """Tables by (database, table), from rows in any order; names of fields in any case.

    Needed are TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE and, of text, CHARACTER_SET_NAME;
    EXTRA, where it is given, tells which columns MariaDB computes and does not log, COLUMN_KEY whether it may hide the
    hashes of indexes. Raises `Terminal` for a row that
    lacks what is needed, or stands there twice.
    """
    tables: dict[tuple[str, str], dict[int, tuple[Any, str, bool]]] = {}
    for number, given in enumerate(rows, 1):
        try:
            row = {str(name).upper(): value for name, value in given.items()}
            column = column_of(
                str(row["COLUMN_NAME"]),
                str(row["COLUMN_TYPE"]),
                row.get("NUMERIC_PRECISION"),
                row.get("NUMERIC_SCALE"),
                row.get("DATETIME_PRECISION"),
                row.get("CHARACTER_SET_NAME"),
            )
            table = tables.setdefault((str(row["TABLE_SCHEMA"]), str(row["TABLE_NAME"])), {})
            place = int(row["ORDINAL_POSITION"])
            if place in table:
                raise ValueError(f"a second column {place} of the table")
            indexed = row.get("COLUMN_KEY") in ("UNI", "MUL")
            table[place] = column, str(row.get("EXTRA") or ""), indexed
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Terminal(
                "the schema is no list of rows of information_schema.columns",
                row=number,
                reason=repr(error),
                fix="Each row has TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE, "
                "NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_SET_NAME, COLUMN_KEY.",
            ) from error
    return {name: _info(name, columns) for name, columns in tables.items()}


def _info(name: tuple[str, str], columns: Mapping[int, tuple[Any, str, bool]]) -> TableInfo:
    info = TableInfo(*name)
    for _, (column, extra, indexed) in sorted(columns.items()):
        info.columns.append(column)
        # Which of its indexes is UNIQUE over a whole text is not told: as many as there may be.
        info.hashed += indexed
        info.note_extra(column.name, extra)
    return info
