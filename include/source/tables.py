"""What captured tables look like: from `information_schema`, held against each table map.

A table map with FULL metadata names columns, types, signs, charsets and the primary key as they were when its rows
were written. Where it agrees with what the server says today, the server's description is used; where it does not
(the table was altered since), the map's own, unless a type cannot be told from it (uuid, inet, vector look like
binary there).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from include.errors import Terminal
from include.record.schema import Column, TableSchema
from include.source.events import ENUM, SET, TableMap
from include.source.values import charset_decoder

__all__ = ["Catalog", "Load", "TableInfo", "derive", "load_tables"]

_TYPES: Final = {
    1: "tinyint", 2: "smallint", 9: "mediumint", 3: "int", 8: "bigint", 4: "float", 5: "double", 246: "decimal",
    10: "date", 13: "year", 18: "datetime", 17: "timestamp", 19: "time", ENUM: "enum", SET: "set",
}  # fmt: skip
_LOBS: Final = {1: "tiny", 2: "", 3: "medium", 4: "long"}
_BINARY: Final = 63
_SIGNED_TYPES: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal"})
_LABEL: Final = re.compile(r"'((?:[^']|'')*)'")

_COLUMNS: Final = """
SELECT c.table_schema, c.table_name, c.column_name, c.data_type, c.column_type, c.numeric_precision, c.numeric_scale,
       c.character_set_name, c.is_nullable, t.table_type, t.engine
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema IN ({}) AND t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')
ORDER BY c.table_schema, c.table_name, c.ordinal_position"""
_INDEXES: Final = """
SELECT table_schema, table_name, index_name, column_name, sub_part, nullable
FROM information_schema.statistics WHERE table_schema IN ({}) AND non_unique = 0
ORDER BY table_schema, table_name, index_name <> 'PRIMARY', index_name, seq_in_index"""
_COLLATIONS: Final = (
    "SELECT id, character_set_name FROM information_schema.collation_character_set_applicability WHERE id IS NOT NULL"
)

Ask = Callable[..., list[tuple[Any, ...]]]
"""Runs one statement: `ask(sql, *values)`."""


class TableInfo:
    """A table as the server describes it today; `problem` says why it cannot be captured, if so."""

    def __init__(self, database: str, table: str, engine: str, versioned: bool) -> None:
        self.name = (database, table)
        self.engine = engine
        self.versioned = versioned
        self.columns: list[Column] = []
        self.nullable: set[str] = set()
        self.key: tuple[str, ...] = ()

    def schema(self) -> TableSchema:
        """The description as all others use it; raises `Terminal` naming table, column and type."""
        for column in self.columns:
            try:
                column.avro()
            except Terminal as refused:
                raise Terminal(refused.message, fix=refused.fix, table=".".join(self.name), **refused.details) from None
        key = self.key
        if not key:
            if self.nullable:
                raise Terminal(
                    "a table without a primary or unique key has columns that may be null",
                    table=".".join(self.name),
                    columns=sorted(self.nullable),
                    fix="Give it a primary key, or leave it out of the source's `tables`.",
                )
            key = tuple(column.name for column in self.columns)
        return TableSchema(self.name[0], self.name[1], tuple(self.columns), key)


Load = Callable[[], tuple[Mapping[tuple[str, str], TableInfo], Mapping[int, str]]]
"""(tables by (database, name), charset of each collation id), as the server has them at the call."""


def load_tables(
    ask: Ask, databases: list[str], captures: Callable[[str, str], bool]
) -> tuple[dict[tuple[str, str], TableInfo], dict[int, str]]:
    """Captured tables of the server, and its collations. Three questions, whatever the number of tables."""
    marks = ", ".join(["%s"] * len(databases))
    tables: dict[tuple[str, str], TableInfo] = {}
    for row in ask(_COLUMNS.format(marks), *databases):
        name = (row[0], row[1])
        if not captures(*name):
            continue
        info = tables.setdefault(name, TableInfo(*name, row[10] or "", row[9] == "SYSTEM VERSIONED"))
        info.columns.append(_column(*row[2:8]))
        if row[8] == "YES":
            info.nullable.add(row[2])
    keys: dict[tuple[str, str], dict[str, list[tuple[str, bool]]]] = {}
    for database, table, index, column, sub_part, nullable in ask(_INDEXES.format(marks), *databases):
        fit = index == "PRIMARY" or (sub_part is None and nullable != "YES")
        keys.setdefault((database, table), {}).setdefault(index, []).append((column, fit))
    for name, indexes in keys.items():
        if name in tables:
            whole = [columns for columns in indexes.values() if all(fit for _, fit in columns)]
            tables[name].key = tuple(column for column, _ in whole[0]) if whole else ()
    return tables, {int(row[0]): str(row[1]) for row in ask(_COLLATIONS)}


def derive(table: TableMap, collations: Mapping[int, str]) -> tuple[Column, ...]:
    """Columns as a table map with FULL metadata tells them; raises `Terminal` without it."""
    name = f"{table.database}.{table.table}"
    if not table.names:
        raise Terminal("the binlog does not name its columns", table=name, fix="SET GLOBAL binlog_row_metadata = FULL.")
    return tuple(_derived(table, i, collations) for i in range(len(table.types)))


class Catalog:
    """Schemas of captured tables, cached until `forget`; loaded at the first need, and once more at a mismatch."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._tables: Mapping[tuple[str, str], TableInfo] | None = None
        self._collations: Mapping[int, str] = {}
        self._by_map: dict[TableMap, TableSchema] = {}

    def forget(self) -> None:
        """A DDL statement went by: what is known may be old."""
        self._tables = None
        self._by_map.clear()

    def tables(self) -> Mapping[tuple[str, str], TableInfo]:
        """All captured tables of the server."""
        if self._tables is None:
            self._tables, self._collations = self._load()
        return self._tables

    def schema(self, table: TableMap) -> TableSchema:
        """The schema that rows under this map have; raises `Terminal` naming table, column, type."""
        found = self._by_map.get(table)
        if found is None:
            found = self._by_map[table] = self._matched(table)
        return found

    def _matched(self, table: TableMap) -> TableSchema:
        name = (table.database, table.table)
        info = self.tables().get(name)
        columns = derive(table, self._collations)
        if info is None or tuple(info.columns) != columns:
            self.forget()
            info = self.tables().get(name)
        if info is not None and tuple(info.columns) == columns:
            return info.schema()
        today = {column.name: column.type for column in info.columns} if info else {}
        for column in columns:
            if column.type in ("binary", "varbinary") and today.get(column.name) != column.type:
                raise self._altered(table, column.name, "the binlog does not tell its type")
        if not table.key:
            raise self._altered(table, "", "the binlog does not tell its key")
        return TableSchema(*name, columns, tuple(columns[i].name for i in table.key))

    def _altered(self, table: TableMap, column: str, reason: str) -> Terminal:
        return Terminal(
            "the table was altered since its rows were written, and they cannot be read any more",
            table=f"{table.database}.{table.table}",
            column=column,
            reason=reason,
            fix="Read everything anew: `lyrebird capture run --source … --snapshot --anew`.",
        )


def _column(
    name: str, data_type: str, column_type: str, precision: int | None, scale: int | None, charset: str | None
) -> Column:
    kind = data_type.lower()
    decimal = kind == "decimal"
    return Column(
        name,
        kind,
        unsigned=kind in _SIGNED_TYPES and "unsigned" in column_type.lower(),
        precision=int(precision) if decimal and precision is not None else None,
        scale=int(scale) if decimal and scale is not None else None,
        charset=charset,
        labels=tuple(label.replace("''", "'") for label in _LABEL.findall(column_type))
        if kind in ("enum", "set")
        else (),
    )


def _derived(table: TableMap, index: int, collations: Mapping[int, str]) -> Column:
    name, code, meta = table.names[index], table.real_type(index), table.metas[index]
    where = f"{table.database}.{table.table}"
    if code in (15, 252, 253, 254):
        collation = table.charsets.get(index)
        binary = collation == _BINARY
        charset = None if binary or collation is None else collations.get(collation)
        if not binary and charset is None:
            raise Terminal("a column's charset is not known", table=where, column=name, collation=collation)
        if code == 252:
            kind = _LOBS.get(meta, "?") + ("blob" if binary else "text")
        else:
            kind = ("binary" if binary else "char") if code == 254 else ("varbinary" if binary else "varchar")
        return Column(name, kind, charset=charset)
    if code not in _TYPES:
        raise Terminal(
            "column type is not supported",
            table=where,
            column=name,
            type=f"binlog code {code}",
            fix="Leave the table out of the source's `tables`, or drop the column from it.",
        )
    kind = _TYPES[code]
    if code in (ENUM, SET):
        charset = collations.get(table.charsets.get(index, -1))
        decode = charset_decoder(charset, where, name)
        return Column(name, kind, charset=charset, labels=tuple(decode(label) for label in table.labels.get(index, ())))
    decimal = code == 246
    return Column(
        name,
        kind,
        unsigned=kind in _SIGNED_TYPES and index in table.unsigned,
        precision=meta >> 8 if decimal else None,
        scale=meta & 0xFF if decimal else None,
    )
