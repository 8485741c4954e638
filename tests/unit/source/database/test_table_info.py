"""What the server answers about its tables, put together."""

from __future__ import annotations

from typing import Any

from include.source.database.table_info import load_table, load_tables, table_names

Answer = list[tuple[Any, ...]]

COLUMNS: Answer = [
    ("shop", "orders", "id", "int(10) unsigned", 10, 0, None, None, "NO", "auto_increment"),
    ("shop", "orders", "note", b"varchar(40)", None, None, None, "utf8mb4", "YES", ""),
    ("shop", "orders", "twice", "int(11)", 10, 0, None, None, "YES", "VIRTUAL GENERATED"),
    ("shop", "orders_view", "id", "int(10) unsigned", 10, 0, None, None, "NO", ""),
]
KEYS: Answer = [
    ("shop", "orders", "PRIMARY", "id", None, "", "BTREE"),
    ("shop", "orders_view", "u", "id", None, "", "BTREE"),
]


def server(tables: Answer, asked: list[str]) -> Any:
    def ask(sql: str, *_: str) -> Answer:
        asked.append(sql)
        if "information_schema.tables" in sql:
            return tables
        return KEYS if "information_schema.statistics" in sql else COLUMNS

    return ask


def test_tables_are_told_by_questions_that_join_nothing_whatever_their_number() -> None:
    asked: list[str] = []
    found = load_tables(server([("shop", "orders", "BASE TABLE", "InnoDB")], asked), ["shop"], lambda *_: True)
    assert list(found) == [("shop", "orders")]
    orders = found["shop", "orders"]
    assert [(column.name, column.type, column.unsigned, column.length) for column in orders.columns] == [
        ("id", "int", True, 0),
        ("note", "varchar", False, 40),
        ("twice", "int", False, 0),
    ]
    assert (orders.key, orders.nullable, orders.virtual, orders.engine) == (
        ("id",),
        {"note", "twice"},
        {"twice"},
        "InnoDB",
    )
    assert len(asked) == 3
    assert not any(" JOIN " in sql for sql in asked)


def test_a_table_that_was_dropped_between_two_questions_is_none() -> None:
    tables: Answer = [("shop", "orders", "BASE TABLE", "InnoDB"), ("shop", "gone", "BASE TABLE", None)]
    found = load_tables(server(tables, []), ["shop"], lambda *_: True)
    assert list(found) == [("shop", "orders")]
    assert load_table(server([], []), "shop", "orders") is None


def test_names_are_those_that_are_captured() -> None:
    tables: Answer = [("shop", "orders", "BASE TABLE", "InnoDB"), ("shop", "audit", "SYSTEM VERSIONED", "InnoDB")]
    assert table_names(server(tables, []), ["shop"], lambda *_: True) == [("shop", "audit"), ("shop", "orders")]
    assert table_names(server(tables, []), ["shop"], lambda _, table: table == "orders") == [("shop", "orders")]
