"""Random values, 200,000 and more a run: compiled decoders = Python ones = what SELECT says on real servers."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from include.errors import Terminal
from include.policy.policy import Policy
from include.source.catalog.catalog import TableCatalog
from include.source.database.server import read_server
from include.source.database.table_info import load_tables
from include.source.rows.decoder import NativeImages
from include.source.rows.other_types import inet6_text
from include.source.rows.text import row_reader, select_list
from include.source.rows.text_rows import select_rows
from tests.support.binlog.random_row_images import KINDS, event, layout_of
from tests.support.binlog.random_tables import columns, literals, streamed
from tests.support.servers.fixture import Give, server

__all__ = ["server"]

VALUES = 200_000
ROWS = 100
SEED = int(os.environ.get("LYREBIRD_SEED") or Random().randrange(1 << 32))


@pytest.mark.compiled
def test_compiled_decoders_give_what_python_gives() -> None:
    random, values, refused = Random(SEED), 0, 0
    while values < VALUES:
        native = NativeImages(layout_of(random, tuple(random.choices(KINDS, k=random.randint(1, 6)))))
        for _ in range(30):
            op: Any = random.choice("cud")
            # Few rows, as one odd value among them has the whole event refused.
            body = event(random, native.layout, 2 if op == "u" else 1, 4)
            try:
                expected = native.plain.rows(op, body)
            except Terminal:
                refused += 1
                assert native.decoder.rows(op, body) is None, SEED
                continue
            assert native.rows(op, body) == expected, SEED
            values += len(expected) * (2 if op == "u" else 1) * len(native.layout.fields)
    assert refused


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_rows_of_the_binlog_are_those_of_select(server: Give, name: str) -> None:
    given, random = server(name), Random(SEED)
    made = columns(given.flavour)
    writer = given.connect(charset="utf8mb4")
    with writer, writer.cursor() as cursor:

        def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            cursor.execute(sql, values)
            return list(cursor.fetchall())

        cursor.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        cursor.execute("CREATE DATABASE differential")
        kinds = ", ".join(f"{column} {kind}" for column, (kind, _) in made.items())
        cursor.execute(f"CREATE TABLE differential.t (id INT PRIMARY KEY, {kinds})")
        cursor.execute("FLUSH BINARY LOGS")
        file = ask("SHOW BINARY LOGS")[-1][0]
        makers = [make for _, make in made.values()]
        count = VALUES // len(made) + 1
        for first in range(0, count, ROWS):
            rows = (f"({i}, {', '.join(literals(random, makers))})" for i in range(first, first + ROWS))
            cursor.execute(f"INSERT INTO differential.t VALUES {', '.join(rows)}")
        cursor.execute("FLUSH BINARY LOGS")
        tables = load_tables(ask, ["differential"], lambda *_: True)
        shape = TableCatalog(lambda: tables, read_server(ask), Policy.declared("accept", {}, ["differential"])).shape(
            tables["differential", "t"]
        )
    expected = {}
    with given.connect(charset="utf8mb4", use_unicode=False, conv={}) as reader, reader.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        sql = f"SELECT {select_list(shape)} FROM differential.t ORDER BY id"
        cursor.execute(sql)
        read = row_reader(shape)
        for row in cursor.fetchall():
            image = read(row)
            expected[image.key] = image, row
    with given.connect(charset="utf8mb4", init_command="SET time_zone = '+00:00'") as streaming:
        found = [image for images in select_rows(streaming, sql, shape) for image in images]
        assert found == [image for image, _ in expected.values()], SEED
        # Read to its end, the connection is of use still.
        assert [image for images in select_rows(streaming, sql, shape) for image in images] == found
    flavour: Any = given.flavour
    compared = 0
    for plain, native in streamed(Path(given.data) / file, shape, flavour):
        image, row = expected.pop(plain.key)
        assert plain == image, (SEED, row)
        assert native in (None, plain), (SEED, row)
        compared += len(made)
    assert not expected
    assert compared >= VALUES


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_addresses_are_those_of_select_wherever_they_have_zeros(server: Give, name: str) -> None:
    addresses = [b"".join(words) for words in product((b"\0\0", b"\xff\xff", b"\0\x1a"), repeat=8)]
    with server(name).connect() as writer, writer.cursor() as cursor:
        cursor.execute("CREATE DATABASE addresses")
        cursor.execute("CREATE TABLE addresses.t (id int PRIMARY KEY, v inet6)")
        for first in range(0, len(addresses), 500):
            rows = ", ".join(f"({first + i}, x'{v.hex()}')" for i, v in enumerate(addresses[first : first + 500]))
            cursor.execute(f"INSERT INTO addresses.t VALUES {rows}")
        cursor.execute("SELECT v FROM addresses.t ORDER BY id")
        assert [shown for (shown,) in cursor.fetchall()] == [inet6_text(v).decode() for v in addresses]
