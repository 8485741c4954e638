"""Tables of several kinds of keys that writers change all the while, and what a reader of their topics must find.

Every write puts a number of its own into `n`, so a state of a row tells which it is. In a topic each change must begin
with the state that the topic has of its key, and a snapshot's row must be that state: else a key stepped in time.
"""

from __future__ import annotations

import itertools
import random
import threading
from typing import Any

import pymysql

from include.log.control import ControlRecord
from include.log.registry.confluent import ConfluentRegistry
from include.log.topics import change, control
from include.record.codec import Decoder
from include.record.version import from_headers
from tests.support.source.capture_harness import CaptureHarness

__all__ = ["BusyTables"]

TABLES = {
    "numbers": "CREATE TABLE numbers (id int PRIMARY KEY, n bigint NOT NULL, v varchar(40))",
    "texts": "CREATE TABLE texts (name varchar(20) NOT NULL, kind enum('x','b','a') NOT NULL, day date NOT NULL, "
    "n bigint NOT NULL, v varchar(40), PRIMARY KEY (name, kind, day))",
    "latin": "CREATE TABLE latin (code varchar(12) CHARACTER SET latin1 NOT NULL, n bigint NOT NULL, v varchar(40), "
    "UNIQUE KEY (code))",
    "heap": "CREATE TABLE heap (a int, n bigint NOT NULL, v varchar(40))",
    "flat": "CREATE TABLE flat (id int PRIMARY KEY, n bigint NOT NULL, v varchar(40)) ENGINE=MyISAM",
}
_KEYS = {"numbers": 1, "texts": 3, "latin": 1, "heap": 1, "flat": 1}


class BusyTables:
    """Made and filled in a world's database; `with` lets `writers` threads change them."""

    def __init__(self, world: CaptureHarness, rows: int, writers: int = 4, seed: int = 0) -> None:
        self._world, self._rows, self._seed = world, rows, seed
        self._numbers = itertools.count(1)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(i,), daemon=True) for i in range(writers)]
        world.sql(*TABLES.values())
        for table in TABLES:
            keys = sorted({tuple(self._key(table, i)) for i in range(rows if table != "flat" else rows // 4)}, key=str)
            marks = "(" + ", ".join(["%s"] * (_KEYS[table] + 2)) + ")"
            for start in range(0, len(keys), 1000):
                part = [(*key, next(self._numbers), f"v{i}") for i, key in enumerate(keys[start : start + 1000])]
                world.ask(f"INSERT IGNORE INTO {table} VALUES " + ", ".join([marks] * len(part)), *sum(part, ()))

    def __enter__(self) -> BusyTables:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def is_copied(self) -> int:
        """The topics hold the tables, and no key stepped back; how many rows snapshots read."""
        return sum(self._is_copied(table) for table in TABLES)

    def _is_copied(self, table: str) -> int:
        world, decode = self._world, Decoder(ConfluentRegistry(self._world.registry).schema)
        controls = [ControlRecord.parse(r.value) for r in world.records(control(world.name)) if r.value]
        floor = max((found.floor for found in controls if found.table == table), default=0)
        newest: dict[bytes, tuple[int, Any]] = {}
        state: dict[bytes, int | None] = {}
        reads = 0
        for record in world.records(change(world.name, world.name, table)):
            version = from_headers(record.headers)
            assert version >= newest.get(record.key, (-1, None))[0]
            newest[record.key] = version, record.value
            if record.value is None:
                continue
            envelope = decode(record.value)
            before, after = ((envelope[side] or {}).get("n") for side in ("before", "after"))
            begins_with = after if envelope["op"] == "r" else before
            assert state.get(record.key, begins_with) == begins_with, (table, state[record.key], envelope)
            state[record.key] = after
            reads += envelope["op"] == "r"
        rows = [decode(value)["after"] for version, value in newest.values() if value and version >= floor]
        found = sorted(tuple(str(v) for k, v in row.items() if not k.startswith("_")) for row in rows)
        if table == "texts":
            # An Avro date counts days.
            days = {(row["name"], row["kind"], row["n"]) for row in rows}
            truth = {(name, kind, n) for name, kind, n in world.ask(f"SELECT name, kind, n FROM {world.name}.texts")}
            assert days == truth
        else:
            truth_rows = sorted({tuple(map(str, row)) for row in world.ask(f"SELECT * FROM {world.name}.{table}")})
            assert found == truth_rows, table
        return reads

    def _key(self, table: str, i: int) -> list[Any]:
        if table == "texts":
            return [("É", "e", "ß", "z ", "Zz")[i % 5] + str(i // 40), "xba"[i % 3], f"2026-01-{1 + i % 28:02}"]
        if table == "latin":
            return [("é", "E", "~", "a b")[i % 4] + str(i)]
        return [i]

    def _write(self, number: int) -> None:
        chance = random.Random(f"{self._seed} {number}")
        connection = self._world.server.connect(database=self._world.name)
        connection.autocommit(False)
        with connection, connection.cursor() as cursor:
            while not self._stop.wait(0.004):
                try:
                    for _ in range(chance.randint(1, 3)):
                        self._step(cursor, chance)
                    connection.commit()
                except pymysql.err.MySQLError:
                    connection.rollback()

    def _step(self, cursor: Any, chance: random.Random) -> None:
        table = chance.choice(list(TABLES))
        key, n, what = self._key(table, chance.randrange(self._rows * 5 // 4)), next(self._numbers), chance.random()
        names = {"texts": ["name", "kind", "day"], "latin": ["code"], "heap": ["a"]}.get(table, ["id"])
        where = " AND ".join(f"{name} = %s" for name in names)
        if what < 0.35:
            marks = ", ".join(["%s"] * (len(key) + 2))
            if table == "heap":
                # Of equal rows of a table without a key a topic holds one.
                cursor.execute("DELETE FROM heap WHERE a = %s", key)
            cursor.execute(f"REPLACE INTO {table} VALUES ({marks})", (*key, n, f"w{n}"))
        elif what < 0.7:
            cursor.execute(f"UPDATE {table} SET n = %s, v = %s WHERE {where}", (n, "u" * (n % 40), *key))
        elif what < 0.85 or table in ("texts", "heap"):
            cursor.execute(f"DELETE FROM {table} WHERE {where}", key)
        else:
            moved = self._key(table, chance.randrange(self._rows * 2))
            cursor.execute(f"UPDATE {table} SET {names[0]} = %s, n = %s WHERE {where}", (moved[0], n, *key))
