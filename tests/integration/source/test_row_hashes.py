"""The text of a row that the server makes is that of the row in the topic: every type, random values, real servers."""

from __future__ import annotations

import io
import os
from random import Random
from typing import Any

import fastavro
import pytest

from include.errors import Terminal
from include.lake.formats.avro_schemas import plain_schema
from include.policy.masks import HashMask, KeepLastMask
from include.policy.policy import Policy, TableFilter
from include.record.schema import Column, TableSchema
from include.source.catalog.catalog import TableCatalog
from include.source.database.server import read_server
from include.source.database.table_info import load_tables
from include.source.hashes import plain, server_sql
from include.source.hashes.columns import ComparedRows, server_digest
from include.source.hashes.sums import HashSum, bits_for, leaf_of
from include.source.rows.text import row_reader, select_list
from tests.support.binlog.random_tables import columns, literals
from tests.support.servers.fixture import PROVE, Give, server

__all__ = ["server"]

ROWS = 20_000 if PROVE in os.environ else 400
AT_ONCE = 100
SEED = int(os.environ.get("LYREBIRD_SEED") or Random().randrange(1 << 32))
NOT_COMPARED = {"vec"}
MASKS: dict[str, Any] = {"v": "hash", "n": "hash", "t": {"keep_last": 4}, "c": {"keep_last": 0}, "b": None}
MASKS |= {"z": "hash", "y": "hash", "w": None}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_texts_of_all_types_are_those_of_the_topic(server: Give, name: str) -> None:
    given, random = server(name), Random(SEED)
    made = columns(given.flavour)
    with given.connect(charset="utf8mb4") as writer, writer.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        cursor.execute("CREATE DATABASE hashes")
        kinds = ", ".join(f"{column} {kind}" for column, (kind, _) in made.items())
        cursor.execute(f"CREATE TABLE hashes.t (id INT UNSIGNED ZEROFILL PRIMARY KEY, {kinds})")
        makers = [make for _, make in made.values()]
        for first in range(0, ROWS, AT_ONCE):
            rows = (f"({i}, {', '.join(literals(random, makers))})" for i in range(first, first + AT_ONCE))
            cursor.execute(f"INSERT INTO hashes.t VALUES {', '.join(rows)}")
    found = _Found(given, "hashes", "t", Policy.declared("accept", {}, ["hashes"]))
    assert found.compared.not_compared.keys() == NOT_COMPARED & made.keys()
    differing = found.differing()
    assert not differing, (SEED, differing[:5])
    bits = bits_for(8 * ROWS)
    assert found.leaves(bits) == found.leaves_of_topic(bits), SEED


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_a_row_that_differs_is_in_the_leaf_that_differs(server: Give, name: str) -> None:
    given = server(name)
    with given.connect(charset="utf8mb4") as writer, writer.cursor() as cursor:
        cursor.execute("CREATE DATABASE leaves")
        cursor.execute("CREATE TABLE leaves.t (a VARCHAR(9), b INT, n INT, PRIMARY KEY (a, b)) CHARACTER SET utf8mb4")
        cursor.executemany("INSERT INTO leaves.t VALUES (%s, %s, 0)", [(f"é{i % 7}", i) for i in range(5_000)])
        found = _Found(given, "leaves", "t", Policy.declared("accept", {}, ["leaves"]), order="b")
        bits = bits_for(5_000)
        before = found.leaves(bits)
        assert len(before) == 1 << bits
        assert max(each.rows for each in before.values()) < 1_000
        cursor.execute("UPDATE leaves.t SET n = NULL WHERE b = 4321")
        after = found.leaves(bits)
        (leaf,) = [each for each in before if before[each] != after[each]]
        rows = dict(found.ask(found.rows_of(bits, [leaf])))
        assert len(rows) == before[leaf].rows
        (row,) = [each for each in found.rows if each["b"] == 4321]
        key = plain.key_text(found.compared, row)
        assert rows.pop(key.decode()) != plain.row_text(found.compared, row).decode()
        of_topic = {plain.key_text(found.compared, each).decode(): each for each in found.rows}
        assert all(plain.row_text(found.compared, of_topic[key]).decode() == row for key, row in rows.items())


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_texts_of_masked_columns_are_those_that_leave(server: Give, name: str) -> None:
    given = server(name)
    with given.connect(charset="utf8mb4") as writer, writer.cursor() as cursor:
        cursor.execute("CREATE DATABASE masks")
        cursor.execute(
            "CREATE TABLE masks.masked (id BIGINT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1, n DECIMAL(9,3),"
            " t TEXT CHARACTER SET utf8mb4, c CHAR(5) CHARACTER SET utf8mb4, b BLOB, d DOUBLE, z INT(6) ZEROFILL,"
            " y YEAR, w VARCHAR(9)) CHARACTER SET utf8mb4"
        )
        cursor.executemany(
            "INSERT INTO masks.masked VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                (1, "é@example.org", "-0.500", "日本語の文", "abc", b"\x00", 0.1, 42, 2026, "a"),
                (2, None, None, None, None, None, None, None, None, None),
                (3, "", "12", "abc", "", b"x", -0.0, 7_000_000, 0, ""),
            ],
        )
    policy = Policy.declared("accept", {"masked": TableFilter(masks=MASKS)}, ["masks"], salt="pepper of the mill")
    found = policy.of("masks", "masked")
    assert isinstance(found.mask("v"), HashMask)
    assert isinstance(found.mask("t"), KeepLastMask)
    made = _Found(given, "masks", "masked", policy)
    assert not made.compared.not_compared
    assert not made.differing()
    # Of before the mask: what should not leave is in the copy.
    clear = [{**row, "w": "a clear text"} for row in made.rows]
    texts = [plain.row_text(made.compared, row) for row in made.rows]
    assert all(plain.row_text(made.compared, row) != text for row, text in zip(clear, texts, strict=True))


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_columns_may_have_the_names_that_are_given_to_sums(server: Give, name: str) -> None:
    given = server(name)
    with given.connect(charset="utf8mb4") as writer, writer.cursor() as cursor:
        cursor.execute("CREATE DATABASE named")
        cursor.execute("CREATE TABLE named.t (id INT PRIMARY KEY, leaf TINYINT, number INT, k INT, r INT)")
        cursor.executemany("INSERT INTO named.t VALUES (%s, %s, 1, 2, 3)", [(i, i % 5) for i in range(2_000)])
    found, bits = _Found(given, "named", "t", Policy.declared("accept", {}, ["named"])), bits_for(2_000)
    assert found.leaves(bits) == found.leaves_of_topic(bits)
    leaf = min(found.leaves(bits))
    assert len(found.ask(found.rows_of(bits, [leaf]))) == found.leaves(bits)[leaf].rows


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_rows_without_a_key_are_one_where_their_bytes_are_and_not_where_a_collation_says_so(
    server: Give, name: str
) -> None:
    given = server(name)
    with given.connect(charset="utf8mb4") as writer, writer.cursor() as cursor:
        cursor.execute("CREATE DATABASE keyless")
        cursor.execute("CREATE TABLE keyless.t (v VARCHAR(9)) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        cursor.execute("INSERT INTO keyless.t VALUES ('a'), ('A'), ('a'), ('b')")
    found = _Found(given, "keyless", "t", Policy.declared("accept", {}, ["keyless"]), order="v")
    assert found.compared.keyless
    ((leaf, sums),) = found.leaves(0).items()
    assert (leaf, sums.rows) == (0, 3)
    assert dict(found.ask(found.rows_of(0, [0]))).keys() == {"1;a", "1;A", "1;b"}


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_bytes_that_are_no_characters_to_the_server_are_told(server: Give, name: str) -> None:
    given = server(name)
    with given.connect(charset="utf8mb4") as writer, writer.cursor() as cursor:
        cursor.execute("CREATE DATABASE gaps")
        cursor.execute("CREATE TABLE gaps.t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET cp1251)")
        cursor.execute("INSERT INTO gaps.t VALUES (1, x'C698'), (2, x'C6')")
        column = Column("v", "varchar", charset="cp1251")
        schema = TableSchema("gaps", "t", (column,), ("v",))
        rows = ComparedRows.of([column], schema, Policy.declared("accept", {}, ["gaps"]).of("gaps", "t"))
        cursor.execute(f"SELECT {server_sql.value_text(rows.columns[0], rows.digest)} FROM gaps.t ORDER BY id")
        assert cursor.fetchall() == (("?C698",), ("Ж",))


def test_what_has_no_equal_text_is_named_with_the_reason() -> None:
    columns_ = (
        Column("id", "int"),
        Column("v", "vector", length=3),
        Column("o", "decimal", precision=5, scale=2, old=True),
    )
    policy = Policy.declared("accept", {}, ["shop"]).of("shop", "t")
    found = ComparedRows.of(columns_, TableSchema("shop", "t", columns_, ("id",)), policy)
    assert [each.column.name for each in found.columns] == ["id"]
    assert {name: why.split()[0] for name, why in found.not_compared.items()} == {"v": "vector", "o": "a"}
    with pytest.raises(Terminal) as refused:
        ComparedRows.of(columns_, TableSchema("shop", "t", columns_, ("o",)), policy)
    assert refused.value.details["column"] == "o"


class _Found:
    """A table as the server has it, and its rows as they would stand in the topic now."""

    def __init__(self, given: Any, database: str, table: str, policy: Policy, order: str = "id") -> None:
        self._given, self._table, self._order = given, f"{database}.{table}", order
        tables = load_tables(lambda sql, *values: self.ask(sql, *values), [database], lambda *_: True)
        at = read_server(self.ask)
        shape = TableCatalog(lambda: tables, at, policy).shape(tables[database, table])
        digest = server_digest(at.flavour, at.version)
        keyless = not tables[database, table].key
        of_table = policy.of(database, table)
        self.compared = ComparedRows.of(shape.columns, shape.schema, of_table, digest, keyless=keyless)
        with given.connect(charset="utf8mb4", use_unicode=False, conv={}) as connection, connection.cursor() as reader:
            reader.execute("SET time_zone = '+00:00'")
            reader.execute(f"SELECT {select_list(shape)} FROM {self._table} ORDER BY {order}")
            read = row_reader(shape)
            images = [read(row) for row in reader.fetchall()]
        (value,) = (each for each in shape.schema.envelope_avro("s")["fields"][0]["type"] if each != "null")
        schema = fastavro.parse_schema(plain_schema({**value, "namespace": "n"}))
        self.rows: list[Any] = [fastavro.schemaless_reader(io.BytesIO(each.row), schema, None) for each in images]

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with (
            self._given.connect(charset="utf8mb4", init_command="SET time_zone = '+00:00'") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(sql, values)
            return list(cursor.fetchall())

    def differing(self) -> list[Any]:
        """(key, column, the server's text, that of the topic)."""
        compared, differing = self.compared, list[Any]()
        wanted = [f"CONCAT({server_sql.value_text(each, compared.digest)})" for each in compared.columns]
        selected = f"SELECT {', '.join(wanted)}, {server_sql.row_hash(compared)} FROM {self._table}"
        for row, (*texts, hashed) in zip(self.rows, self.ask(f"{selected} ORDER BY {self._order}"), strict=True):
            for each, text in zip(compared.columns, texts, strict=True):
                mine = plain.value_text(each, compared, row)
                if mine != (text.decode() if isinstance(text, bytes) else text):
                    differing.append((row["id"], each.column.name, text, mine))
            if plain.row_hash(compared, row) != hashed and not differing:
                differing.append((row["id"], "the row", hashed, plain.row_text(compared, row)))
        return differing

    def leaves(self, bits: int) -> dict[int, HashSum]:
        """As the server sums them up."""
        found = self.ask(server_sql.leaf_sums(self._table, self.compared, bits))
        assert all(int(total) < server_sql.UNHASHED for _, _, total in found)
        return {leaf: HashSum(rows, int(total)) for leaf, rows, total in found}

    def leaves_of_topic(self, bits: int) -> dict[int, HashSum]:
        """Of the rows in the topic."""
        sums = dict[int, HashSum]()
        for row in self.rows:
            leaf = leaf_of(plain.key_text(self.compared, row), bits)
            sums[leaf] = sums.get(leaf, HashSum()).plus(HashSum.of(plain.row_hash(self.compared, row)))
        return sums

    def rows_of(self, bits: int, leaves: list[int]) -> str:
        return server_sql.leaf_rows(self._table, self.compared, bits, leaves)
