"""`document.reading.tables`: the double and MariaDB read the same rows, of one moment."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

import pytest
from pydantic import SecretStr

from include.document.database import DatabaseAddress as Server
from include.document.reading.mysql import MysqlTables
from include.document.reading.tables import MemoryTables, SourceTables
from include.errors import Terminal, Transient
from include.record.schema import Column
from tests.support.source.query_cost import rows_read

ROWS = [
    {"a": 1, "b": "x", "amount": Decimal("1.10"), "at": 1_000_001, "day": 1, "big": Decimal(2**64 - 1), "part": 0.5},
    {"a": 1, "b": "y", "amount": Decimal("0.00"), "at": -1, "day": -1, "big": None, "part": None},
    {"a": 2, "b": "日本 '%s'", "amount": None, "at": None, "day": None, "big": Decimal(0), "part": -1.5},
]
COLUMNS = (
    Column("a", "bigint"),
    Column("b", "varchar", charset="utf8mb4"),
    Column("amount", "decimal", precision=12, scale=2),
    Column("at", "datetime"),
    Column("day", "date"),
    Column("big", "bigint", unsigned=True),
    Column("part", "double"),
)
NAMES = [column.name for column in COLUMNS]
TABLE = """CREATE TABLE things (a bigint NOT NULL, b varchar(32) NOT NULL, amount decimal(12,2), at datetime(6),
    day date, big bigint unsigned, part double, PRIMARY KEY (a, b)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"""
VALUES = """INSERT INTO things VALUES
    (1, 'x', 1.1, '1970-01-01 00:00:01.000001', '1970-01-02', 18446744073709551615, 0.5),
    (1, 'y', 0, '1969-12-31 23:59:59.999999', '1969-12-31', NULL, NULL),
    (2, '日本 ''%s''', NULL, NULL, NULL, 0, -1.5)"""


class Real:
    """A database with the table in it."""

    def __init__(self, mariadb: Any, name: str) -> None:
        self.admin, self.name = mariadb.connect(), name
        self.run(f"CREATE DATABASE {name}", f"USE {name}", TABLE, VALUES)
        server = Server(host=mariadb.host, port=mariadb.port, user="root", password=mariadb.root_password)
        self.tables = MysqlTables(server, name)

    def run(self, *statements: str) -> None:
        with self.admin.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def delete_all(self) -> None:
        self.run("DELETE FROM things")

    def close(self) -> None:
        self.tables.close()
        self.run(f"DROP DATABASE {self.name}")
        self.admin.close()


class Double:
    """The same in memory."""

    def __init__(self) -> None:
        self.tables = MemoryTables({"things": ROWS}, {"things": COLUMNS})

    def delete_all(self) -> None:
        self.tables.tables["things"].clear()

    def close(self) -> None:
        pass


@pytest.fixture(params=["memory", "mariadb"])
def held(request: pytest.FixtureRequest, unique: str) -> Iterator[Any]:
    made = Double() if request.param == "memory" else Real(request.getfixturevalue("mariadb"), unique)
    yield made
    made.close()


@pytest.fixture
def tables(held: Any) -> SourceTables:
    found: SourceTables = held.tables
    return found


def by_key(rows: Any) -> list[Any]:
    return sorted(rows, key=lambda row: (row["a"], row["b"]))


def test_rows_come_by_one_column_and_by_several(tables: SourceTables) -> None:
    with tables.snapshot() as now:
        assert by_key(now.rows("things", NAMES, ["a"], [(1,), (2,), (9,)])) == ROWS
        assert now.rows("things", ["b"], ["a", "b"], [(1, "y"), (2, "y")]) == [{"b": "y"}]
        assert now.rows("things", ["a"], ["b"], [("日本 '%s'",)]) == [{"a": 2}]
        assert now.rows("things", NAMES, ["a"], []) == []


def test_more_values_than_fit_one_question_are_all_asked_for(tables: SourceTables) -> None:
    with tables.snapshot() as now:
        assert len(now.rows("things", ["a"], ["a"], [(n,) for n in range(-2500, 3)])) == 3


def test_keys_come_ascending_and_distinct_from_after_the_last(tables: SourceTables) -> None:
    with tables.snapshot() as now:
        assert now.keys_after("things", ["a"], None, 9) == [(1,), (2,)]
        assert now.keys_after("things", ["a"], (1,), 9) == [(2,)]
        assert now.keys_after("things", ["a", "b"], None, 2) == [(1, "x"), (1, "y")]
        assert now.keys_after("things", ["a", "b"], (1, "x"), 1) == [(1, "y")]
        assert now.keys_after("things", ["a", "b"], (2, "日本 '%s'"), 9) == []


def test_rows_come_newest_first_up_to_a_number(tables: SourceTables) -> None:
    with tables.snapshot() as now:
        assert now.newest("things", NAMES, ["a"], (1,), "b", 9) == [ROWS[1], ROWS[0]]
        assert now.newest("things", ["b"], ["a"], (1,), "amount", 1) == [{"b": "x"}]
        assert now.newest("things", ["part"], ["a", "b"], (2, "日本 '%s'"), "day", 9) == [{"part": -1.5}]
        assert now.newest("things", ["a"], ["a"], (9,), "b", 9) == []


def test_of_many_rows_the_newest_cost_no_more_reads_than_rows_that_come(mariadb: Any, unique: str) -> None:
    held = Real(mariadb, unique)
    try:
        held.run(
            "CREATE TABLE history (id int PRIMARY KEY, user_id int NOT NULL, f float, KEY (user_id))",
            "INSERT INTO history SELECT seq, seq % 2, seq FROM seq_1_to_40000",
            "ANALYZE TABLE history",
        )
        with held.tables.snapshot() as now:
            # Column types are looked up once.
            held.tables.columns("history")
            found = []
            cost = rows_read(
                held.tables, lambda: found.extend(now.newest("history", ["id", "f"], ["user_id"], (1,), "id", 3))
            )
            assert found == [{"id": n, "f": float(n)} for n in (39_999, 39_997, 39_995)]
            assert cost < 10
    finally:
        held.close()


def test_keys_come_of_the_rows_that_have_a_value_with_null_as_the_least(tables: SourceTables) -> None:
    with tables.snapshot() as now:
        assert now.keys_after("things", ["day", "b"], None, 9) == [(None, "日本 '%s'"), (-1, "y"), (1, "x")]
        assert now.keys_after("things", ["part", "a"], None, 2, {"a": 1}) == [(None, 1), (0.5, 1)]
        assert now.keys_after("things", ["part", "b"], (None, "y"), 9, {"a": 1}) == [(0.5, "x")]
        assert now.keys_after("things", ["part", "b"], (None, "x"), 9, {"a": 1}) == [(None, "y"), (0.5, "x")]
        assert now.keys_after("things", ["b"], None, 9, {"a": 1, "amount": Decimal("0.00")}) == [("y",)]
        assert now.keys_after("things", ["a"], (1,), 9, {"b": "日本 '%s'"}) == [(2,)]
        assert now.keys_after("things", ["a"], None, 9, {"a": 3}) == []


def test_a_snapshot_is_of_one_moment(held: Any) -> None:
    with held.tables.snapshot() as now:
        held.delete_all()
        assert by_key(now.rows("things", NAMES, ["a"], [(1,), (2,)])) == ROWS
        assert now.keys_after("things", ["a"], None, 9) == [(1,), (2,)]
    with held.tables.snapshot() as later:
        assert later.rows("things", NAMES, ["a"], [(1,), (2,)]) == []


def test_columns_tell_their_types(tables: SourceTables) -> None:
    found = tables.columns("things")
    assert list(found) == NAMES
    assert [found[name].avro() for name in NAMES] == [column.avro() for column in COLUMNS]


def test_distinct_rows_come_up_to_a_number(tables: SourceTables) -> None:
    with tables.snapshot() as now:
        assert now.rows("things", ["a"], ["a"], [(1,), (2,)], 9) == [{"a": 1}, {"a": 2}]
        assert len(now.rows("things", ["a", "b"], ["a"], [(n,) for n in range(-2500, 3)], 2)) == 2


def test_values_that_are_equal_to_themselves_alone_are_not_folded(tables: SourceTables) -> None:
    with tables.snapshot() as now:
        assert now.folded("things", ["a"], [(1,), (2,)]) == {}
        found = now.folded("things", ["a", "b"], [(1, "x"), (1, "X"), (2, "x")])
        assert len({found.get(each, each) for each in [(1, "x"), (1, "X"), (2, "x")]}) == 3


ALIKE = ["straße", "STRASSE", "strasse  ", "Strasse", "strass", "", " ", "x'%s", "X'%S"]


@pytest.mark.parametrize(
    "collation",
    [
        "ascii_general_ci",
        "latin1_german2_ci",
        "utf8mb4_bin",
        "utf8mb4_general_ci",
        "utf8mb4_nopad_bin",
        "utf8mb4_unicode_ci",
        "utf8mb4_unicode_nopad_ci",
    ],
)
def test_texts_fold_exactly_as_the_server_compares_them(mariadb: Any, unique: str, collation: str) -> None:
    held = Real(mariadb, unique)
    try:
        charset = collation.partition("_")[0]
        texts = [text for text in ALIKE if text.isascii() or charset != "ascii"]
        held.run(f"CREATE TABLE t (id int PRIMARY KEY, k varchar(20) CHARACTER SET {charset} COLLATE {collation})")
        with held.admin.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (%s, %s)", list(enumerate(texts)))
        with held.tables.snapshot() as now:
            found = now.folded("t", ["k"], [(text,) for text in texts])
            for text in texts:
                equal = {row["id"] for row in now.rows("t", ["id"], ["k"], [(text,)])}
                apart = {row["k"] for row in now.rows("t", ["k"], ["k"], [(text,)], 99)}
                assert apart == {texts[n] for n in equal}
                same = {n for n, each in enumerate(texts) if found[(each,)] == found[(text,)]}
                assert same == equal, text
            keys: list[tuple[Any, ...]] = []
            while page := now.keys_after("t", ["k"], keys[-1] if keys else None, 2):
                keys += page
            assert len(keys) == len(set(found.values()))
    finally:
        held.close()


def test_a_walk_by_enums_and_sets_meets_every_key(mariadb: Any, unique: str) -> None:
    held = Real(mariadb, unique)
    try:
        held.run(
            "CREATE TABLE e (r enum('us','eu','asia'), s set('b','a'), id int, PRIMARY KEY (r, s, id))",
            "INSERT INTO e VALUES ('us','b',1),('us','a,b',2),('eu','a',1),('asia','',1),('asia','b',3),('eu','a',9)",
        )
        for columns in (["r", "s", "id"], ["s", "id"], ["r"]):
            with held.tables.snapshot() as now:
                keys: list[Any] = []
                while page := now.keys_after("e", columns, keys[-1] if keys else None, 2):
                    keys += page
            with held.admin.cursor() as cursor:
                cursor.execute(f"SELECT DISTINCT {', '.join(columns)} FROM e")
                assert sorted(keys) == sorted(cursor.fetchall())
    finally:
        held.close()


def test_floats_and_bits_are_read_as_they_are_kept(mariadb: Any, unique: str) -> None:
    held = Real(mariadb, unique)
    try:
        held.run(
            "CREATE TABLE n (id int PRIMARY KEY, f float, b1 bit(1), b63 bit(63), b64 bit(64))",
            "INSERT INTO n VALUES (1, 16777217, 1, 9223372036854775807, 18446744073709551615)",
            "INSERT INTO n VALUES (2, 3.1415927, 0, 5, 5), (3, 1.1754944e-38, NULL, NULL, NULL), (4, NULL, 1, 1, 1)",
        )
        names = ["id", "f", "b1", "b63", "b64"]
        kinds = held.tables.columns("n")
        assert [kinds[name].avro() for name in names[:4]] == ["int", "float", "long", "long"]
        with held.tables.snapshot() as now:
            rows = sorted(now.rows("n", names, ["id"], [(n,) for n in range(9)]), key=lambda row: row["id"])
            assert now.keys_after("n", ["b1"], None, 9)[-2:] == [(0,), (1,)]
        assert [tuple(row.values())[1:] for row in rows] == [
            (16777216.0, 1, 2**63 - 1, Decimal(2**64 - 1)),
            (struct.unpack("f", struct.pack("f", 3.1415927))[0], 0, 5, Decimal(5)),
            (struct.unpack("f", struct.pack("f", 1.1754944e-38))[0], None, None, None),
            (None, 1, 1, Decimal(1)),
        ]
    finally:
        held.close()


def test_an_altered_column_is_seen_once_what_was_known_is_forgotten(mariadb: Any, unique: str) -> None:
    held = Real(mariadb, unique)
    try:
        assert held.tables.columns("things")["a"].avro() == "long"
        held.run("ALTER TABLE things ADD COLUMN more int")
        assert "more" not in held.tables.columns("things")
        held.tables.forget()
        assert held.tables.columns("things")["more"].avro() == "int"
    finally:
        held.close()


def test_mariadb_says_what_is_wrong_and_what_to_do(mariadb: Any, unique: str) -> None:
    held = Real(mariadb, unique)
    try:
        with pytest.raises(Terminal, match=r"no such table.*grant SELECT"):
            held.tables.columns("nothing")
        with held.tables.snapshot() as now, pytest.raises(Terminal, match="nothing"):
            now.rows("things", ["nothing"], ["a"], [(1,)])
        server = Server(host=mariadb.host, port=mariadb.port, user="root", password=SecretStr("wrong"))
        with pytest.raises(Terminal, match="refuses the account"):
            opened(MysqlTables(server, unique).snapshot())
        with pytest.raises(Transient, match=r"does not answer.*lyrebird status"):
            opened(MysqlTables(Server(host="127.0.0.1", port=1, user="u", password=SecretStr("")), unique).snapshot())
    finally:
        held.close()


def test_a_connection_that_was_cut_is_made_anew(mariadb: Any, unique: str) -> None:
    held = Real(mariadb, unique)
    try:
        with held.tables.snapshot() as now:
            now.keys_after("things", ["a"], None, 1)
            with held.admin.cursor() as cursor:
                cursor.execute(
                    "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> CONNECTION_ID()", (unique,)
                )
                for (connection,) in cursor.fetchall():
                    cursor.execute(f"KILL {connection}")
            with pytest.raises(Transient):
                now.keys_after("things", ["a"], None, 1)
        with held.tables.snapshot() as now:
            assert now.keys_after("things", ["a"], None, 1) == [(1,)]
    finally:
        held.close()


def opened(context: AbstractContextManager[Any]) -> None:
    """Enter and leave."""
    with context:
        pass
