"""What a question costs a MySQL or MariaDB server, in rows that it reads."""

from __future__ import annotations

from collections.abc import Callable

from include.document.reading.mysql import MysqlTables

__all__ = ["rows_read"]


def rows_read(tables: MysqlTables, ask: Callable[[], object]) -> int:
    """How many rows the server reads for what `ask` does on the connection of `tables`."""
    first, second = _so_far(tables), _so_far(tables)
    ask()
    # Asking for the count reads rows too.
    return _so_far(tables) - second - (second - first)


def _so_far(tables: MysqlTables) -> int:
    found = tables._execute("SHOW SESSION STATUS LIKE 'Handler_read%%'")
    return sum(int(count) for _, count in found)
