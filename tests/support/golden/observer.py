"""What the server itself says: descriptions of all tables and their committed rows, seen from a session apart."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.support.golden.recording import DESCRIBED, Change, Description, Row, order
from tests.support.servers import Server

__all__ = ["Observer", "quoted"]

_OWN = "('mysql', 'information_schema', 'performance_schema', 'sys')"
_VERSIONED = "SYSTEM VERSIONED"


class Observer:
    """Compares what is committed with what it saw last. Reads only, autocommit, so that it is in nobody's way."""

    def __init__(self, server: Server) -> None:
        self._told = server.connect(charset="utf8mb4")
        self._bytes = server.connect(
            charset="utf8mb4", use_unicode=False, conv={}, init_command="SET time_zone = '+00:00'"
        )
        self._described = self._describable()
        self._tables: dict[tuple[str, str], tuple[Description, list[Row]]] = {}

    def close(self) -> None:
        """End both sessions."""
        self._told.close()
        self._bytes.close()

    def changes(self, after: int) -> list[Change]:
        """What is different since the last call, noted as the doing of statement `after`."""
        now = self._look()
        found: list[Change] = [Change(after, table, dropped=True) for table in self._tables if table not in now]
        for table, (description, rows) in now.items():
            was = self._tables.get(table)
            if was is None or was[0] != description:
                found.append(Change(after, table, description, come=order(rows)))
            elif Counter(was[1]) != Counter(rows):
                gone, come = Counter(was[1]) - Counter(rows), Counter(rows) - Counter(was[1])
                found.append(Change(after, table, gone=order([*gone.elements()]), come=order([*come.elements()])))
        self._tables = now
        return found

    def collations(self) -> dict[int, tuple[str, str]]:
        """Id → (collation, charset), of those that columns have or had since the last call."""
        if ("FULL_COLLATION_NAME",) in self.ask(
            "SELECT UPPER(COLUMN_NAME) FROM information_schema.columns "
            "WHERE TABLE_NAME = 'COLLATION_CHARACTER_SET_APPLICABILITY'"
        ):
            sql = (
                "SELECT ID, FULL_COLLATION_NAME, CHARACTER_SET_NAME "
                "FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
            )
        else:
            sql = "SELECT ID, COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATIONS"
        return {int(number): (name, charset) for number, name, charset in self.ask(sql) if number is not None}

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows as Python values."""
        with self._told.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def _describable(self) -> list[str]:
        there = {
            name
            for (name,) in self.ask(
                "SELECT UPPER(COLUMN_NAME) FROM information_schema.columns "
                "WHERE TABLE_SCHEMA = 'information_schema' AND TABLE_NAME = 'COLUMNS'"
            )
        }
        return [name if name in there else f"NULL AS {name}" for name in DESCRIBED]

    def _look(self) -> dict[tuple[str, str], tuple[Description, list[Row]]]:
        columns: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for database, table, *cells in self.ask(
            f"SELECT TABLE_SCHEMA, TABLE_NAME, {', '.join(self._described)} FROM information_schema.columns "
            f"WHERE TABLE_SCHEMA NOT IN {_OWN} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
        ):
            columns.setdefault((database, table), []).append(dict(zip(DESCRIBED, map(_plain, cells), strict=True)))
        keys: dict[tuple[str, str], list[tuple[str, bool, int, str, int | None]]] = {}
        for database, table, key, shared, place, column, part in self.ask(
            "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, NON_UNIQUE, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART "
            f"FROM information_schema.statistics WHERE TABLE_SCHEMA NOT IN {_OWN} "
            "ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX"
        ):
            keys.setdefault((database, table), []).append((key, not int(shared), int(place), column, _plain(part)))
        found = {}
        for database, table, engine, collation, kind in self.ask(
            "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, TABLE_COLLATION, TABLE_TYPE FROM information_schema.tables "
            f"WHERE TABLE_SCHEMA NOT IN {_OWN} AND TABLE_TYPE NOT IN ('VIEW', 'TEMPORARY', 'LOCAL TEMPORARY') "
            "ORDER BY TABLE_SCHEMA, TABLE_NAME"
        ):
            name = (database, table)
            names = [str(column["COLUMN_NAME"]) for column in columns[name]]
            explicit = any("ROW START" in str(column["GENERATION_EXPRESSION"]) for column in columns[name])
            if kind == _VERSIONED and not explicit:
                names += ["row_start", "row_end"]
            description = Description(
                tuple(columns[name]), tuple(keys.get(name, ())), engine or "", collation, kind, tuple(names)
            )
            found[name] = (description, self._rows(name, description))
        return found

    @staticmethod
    def _cells(description: Description) -> list[str]:
        floats = {column["COLUMN_NAME"] for column in description.columns if column["DATA_TYPE"] == "float"}
        return [f"{quoted(name)} * 1e0" if name in floats else quoted(name) for name in description.cells]

    def _rows(self, table: tuple[str, str], description: Description) -> list[Row]:
        cells = self._cells(description)
        past = " FOR SYSTEM_TIME ALL" if description.kind == _VERSIONED else ""
        with self._bytes.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(cells)} FROM {quoted(table[0])}.{quoted(table[1])}{past}")
            return [tuple(row) for row in cursor.fetchall()]


def quoted(name: str) -> str:
    """A name as it stands in SQL."""
    return "`" + name.replace("`", "``") + "`"


def _plain(cell: Any) -> Any:
    if isinstance(cell, bytes):
        return cell.decode()
    return cell if cell is None or isinstance(cell, str) else int(cell)
