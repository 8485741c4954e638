"""The text of a row that the server makes is that of the row in the topic: every type, random values, real servers."""

from __future__ import annotations

import io
import os
from random import Random
from typing import Any

import fastavro
import pytest

from include.record.schema import Column, TableSchema
from include.source.database.server import read_server
from include.source.database.tables import Catalog, load_tables
from include.source.hashes import plain, server_sql
from include.source.hashes.columns import compared_columns
from include.source.policy.masks import Hash, KeepLast
from include.source.policy.policy import Policy, TableFilter
from include.source.rows.text import row_reader, select_list
from tests.random_tables import columns, literals
from tests.servers.fixture import PROVE, Give, server

__all__ = ["server"]

ROWS = 20_000 if PROVE in os.environ else 400
AT_ONCE = 100
SEED = int(os.environ.get("LYREBIRD_SEED") or Random().randrange(1 << 32))
NOT_COMPARED = {"vec"}
MASKS: dict[str, Any] = {"v": "hash", "n": "hash", "t": {"keep_last": 4}, "c": {"keep_last": 0}, "b": None}


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
    refused, differing = _differing(given, "hashes", "t", Policy.declared("accept", {}, ["hashes"]))
    assert refused.keys() == NOT_COMPARED & made.keys()
    assert not differing, (SEED, differing[:5])


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_texts_of_masked_columns_are_those_that_leave(server: Give, name: str) -> None:
    given = server(name)
    with given.connect(charset="utf8mb4") as writer, writer.cursor() as cursor:
        cursor.execute("CREATE DATABASE masks")
        cursor.execute(
            "CREATE TABLE masks.masked (id BIGINT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1, n DECIMAL(9,3),"
            " t TEXT CHARACTER SET utf8mb4, c CHAR(5) CHARACTER SET utf8mb4, b BLOB, d DOUBLE) CHARACTER SET utf8mb4"
        )
        cursor.executemany(
            "INSERT INTO masks.masked VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [
                (1, "é@example.org", "-0.500", "日本語の文", "abc", b"\x00", 0.1),
                (2, None, None, None, None, None, None),
                (3, "", "12", "abc", "", b"x", -0.0),
            ],
        )
    policy = Policy.declared("accept", {"masked": TableFilter(masks=MASKS)}, ["masks"], salt="pepper of the mill")
    found = policy.of("masks", "masked")
    assert isinstance(found.mask("v"), Hash)
    assert isinstance(found.mask("t"), KeepLast)
    refused, differing = _differing(given, "masks", "masked", policy)
    assert not refused
    assert not differing


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_bytes_that_are_no_characters_to_the_server_are_told(server: Give, name: str) -> None:
    given = server(name)
    with given.connect(charset="utf8mb4") as writer, writer.cursor() as cursor:
        cursor.execute("CREATE DATABASE gaps")
        cursor.execute("CREATE TABLE gaps.t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET cp1251)")
        cursor.execute("INSERT INTO gaps.t VALUES (1, x'C698'), (2, x'C6')")
    _, differing = _differing(given, "gaps", "t", Policy.declared("accept", {}, ["gaps"]))
    assert [each[:3] for each in differing] == [(1, "v", "?C698")]


def test_what_has_no_equal_text_is_named_with_the_reason() -> None:
    columns_ = [
        Column("id", "int"),
        Column("v", "vector", length=3),
        Column("o", "decimal", precision=5, scale=2, old=True),
    ]
    schema = TableSchema("shop", "t", tuple(columns_), ("id",))
    compared, refused = compared_columns(columns_, schema, Policy.declared("accept", {}, ["shop"]).of("shop", "t"))
    assert [each.column.name for each in compared] == ["id"]
    assert {name: why.split()[0] for name, why in refused.items()} == {"v": "vector", "o": "a"}


def _differing(given: Any, database: str, table: str, policy: Policy) -> tuple[dict[str, str], list[Any]]:
    """Columns that are not compared; (key, column, the server's text, that of the topic) where they differ."""
    with given.connect(charset="utf8mb4", init_command="SET time_zone = '+00:00'") as connection:
        cursor = connection.cursor()

        def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            cursor.execute(sql, values)
            return list(cursor.fetchall())

        tables = load_tables(ask, [database], lambda *_: True)
        shape = Catalog(lambda: tables, read_server(ask), policy).shape(tables[database, table])
        compared, refused = compared_columns(shape.columns, shape.schema, policy.of(database, table))
        at_server = ask(
            f"SELECT {', '.join(server_sql.value_text(each) for each in compared)}, {server_sql.row_hash(compared)}"
            f" FROM {database}.{table} ORDER BY id"
        )
    with given.connect(charset="utf8mb4", use_unicode=False, conv={}) as connection, connection.cursor() as reader:
        reader.execute("SET time_zone = '+00:00'")
        reader.execute(f"SELECT {select_list(shape)} FROM {database}.{table} ORDER BY id")
        read = row_reader(shape)
        images = [read(row) for row in reader.fetchall()]
    envelope = shape.schema.envelope_avro("s")
    schema = fastavro.parse_schema(_without_logical({**envelope["fields"][0]["type"][1], "namespace": "n"}))
    differing: list[Any] = []
    assert len(images) == len(at_server)
    for image, (*texts, hashed) in zip(images, at_server, strict=True):
        row: Any = fastavro.schemaless_reader(io.BytesIO(image.row), schema, None)
        invalid = row.get(shape.schema.invalid_field) or {}
        for each, text in zip(compared, texts, strict=True):
            mine = plain.value_text(each, row[each.column.name])
            mine = invalid.get(each.column.name) if mine is None else mine
            if mine != (text.decode() if isinstance(text, bytes) else text):
                differing.append((row["id"], each.column.name, text, mine))
        if plain.row_hash(compared, row, shape.schema.invalid_field) != hashed and not differing:
            differing.append((row["id"], "the row", hashed, plain.row_text(compared, row, shape.schema.invalid_field)))
    return refused, differing


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _without_logical(value) for key, value in schema.items() if key != "logicalType"}
    return [_without_logical(each) for each in schema] if isinstance(schema, list) else schema
