"""Tables and columns that are captured, but not quite as a person may expect: said by `check`, refused by nobody."""

from __future__ import annotations

from collections.abc import Iterator

from include.record.schema import DATES
from include.source.database.server import Server
from include.source.database.table_info import TableInfo, unlogged
from include.source.definition import SourceDefinition

__all__ = ["needs_care"]


def needs_care(
    info: TableInfo, source: SourceDefinition, server: Server, labelled: bool
) -> Iterator[tuple[str, str, str]]:
    """(place, problem, what may be done) of each; columns that do not leave need none.

    `labelled`: the binlog tells labels of ENUM and SET, whatever information_schema shows.
    """
    table, policy = ".".join(info.name), source.policy.of(*info.name)
    if not info.key:
        yield (
            table,
            "has no key: all its columns together are the key, so of rows that are equal the copy has one",
            "Give it a primary key, or a unique one over columns that are NOT NULL.",
        )
    if info.in_memory:
        yield (
            table,
            "lies in the server's memory: a restart empties it, and the copy with the next statement that opens it",
            "Change its engine, or drop the table in the source's `filter`.",
        )
    if info.versioned and not info.by_transactions:
        yield (
            table,
            "is system-versioned: the copy has its rows of today, and what they were only as far as capture saw it",
            "Read older rows by SELECT … FOR SYSTEM_TIME ALL where they matter.",
        )
    missing = unlogged(info, server)
    for column in (each for each in info.columns if not policy.ignores(each.name)):
        full_name = f"{table}.{column.name}"
        if column.name in missing:
            yield (
                full_name,
                "is computed, and the binlog does not have it: it is not copied",
                "Compute it where the copy is read, or make it a plain column.",
            )
        elif column.name in info.rounded:
            yield (
                full_name,
                "is FLOAT or DOUBLE with digits: the server shows it padded or rounded, the copy has the number itself",
                "Make it DECIMAL if the digits matter.",
            )
        elif column.name in info.old_temporals:
            yield (
                full_name,
                "is stored as before MySQL 5.6 or MariaDB 10.1.2: the binlog alone does not tell its digits",
                "ALTER TABLE … FORCE rewrites it; until then nobody should alter it while capture is away.",
            )
        elif column.old:
            yield (
                full_name,
                "is a DECIMAL of before MySQL 5.0: the binlog alone does not tell its digits",
                "ALTER TABLE … MODIFY rewrites it; until then nobody should alter it while capture is away.",
            )
        elif column.name in info.key and column.type in DATES:
            yield (
                full_name,
                "is a date in the key: a zero or impossible one, which no key can hold, sets the table aside",
                "Keep such dates out by sql_mode (NO_ZERO_DATE, NO_ZERO_IN_DATE, without ALLOW_INVALID_DATES).",
            )
        elif not labelled and any("?" in label for label in column.labels):
            yield (
                full_name,
                "has a label with ?, which may stand for a character of four bytes: its first row sets the table aside",
                "SET GLOBAL binlog_row_metadata = FULL where the server has it, or ignore the column in `filter`.",
            )
