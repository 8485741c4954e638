"""The table of the capture bench, and the writes that fill a binlog with it: the same for the same seed."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["CREATE", "DATABASE", "fill", "fill_table", "single_rows"]

DATABASE = "bench"
CREATE = f"""CREATE TABLE {DATABASE}.mixed (
  id bigint unsigned NOT NULL PRIMARY KEY, user int unsigned NOT NULL, n int NOT NULL,
  state enum('new','paid','packed','sent','done','void') NOT NULL, rank_ smallint, flag tinyint NOT NULL,
  price decimal(12,2) NOT NULL, rate decimal(10,4), score double, ratio float, made datetime(6) NOT NULL,
  seen timestamp(3) NULL, day date, name varchar(100) CHARACTER SET utf8mb4 NOT NULL, doc json, raw_ blob
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"""
_WORDS = ("lyre", "bird", "song", "fern", "straße", "tail", "日本", "gully", "mimic", "dance")


def fill(connection: Any, rows: int, seed: int = 1) -> None:
    """Half inserts (100 a statement), 30 % updates (20), 20 % deletes (50) of `rows` row changes."""
    chance = random.Random(seed)
    inserts, updates, deletes = rows // 2, rows * 3 // 10, rows // 5
    with connection.cursor() as cursor:
        for first in range(1, inserts + 1, 100):
            values = [_row(chance, number) for number in range(first, min(first + 100, inserts + 1))]
            marks = "(" + ", ".join(["%s"] * 16) + ")"
            cursor.execute(f"INSERT INTO {DATABASE}.mixed VALUES " + ", ".join([marks] * len(values)), sum(values, ()))
        for first in range(1, updates + 1, 20):
            cursor.execute(
                f"UPDATE {DATABASE}.mixed SET n = n + 1, name = CONCAT(name, '!'), seen = seen + INTERVAL 1 SECOND "
                f"WHERE id BETWEEN {first} AND {min(first + 19, updates)}"
            )
        for first in range(1, deletes + 1, 50):
            cursor.execute(f"DELETE FROM {DATABASE}.mixed WHERE id BETWEEN {first} AND {min(first + 49, deletes)}")


def fill_table(connection: Any, table: str, rows: int, seed: int = 3) -> None:
    """Rows 1 to `rows`."""
    chance = random.Random(seed)
    marks = "(" + ", ".join(["%s"] * 16) + ")"
    with connection.cursor() as cursor:
        for first in range(1, rows + 1, 100):
            values = [_row(chance, number) for number in range(first, min(first + 100, rows + 1))]
            cursor.execute(
                f"INSERT INTO {DATABASE}.{table} VALUES " + ", ".join([marks] * len(values)), sum(values, ())
            )


def single_rows(connection: Any, transactions: int, seed: int = 2) -> None:
    """Transactions of one inserted row each."""
    chance = random.Random(seed)
    marks = "(" + ", ".join(["%s"] * 16) + ")"
    with connection.cursor() as cursor:
        for number in range(transactions):
            row = _row(chance, 10_000_000 + number)
            cursor.execute(f"INSERT INTO {DATABASE}.mixed VALUES {marks}", row)


def _row(chance: random.Random, number: int) -> tuple[Any, ...]:
    def perhaps(share: float, value: Any) -> Any:
        return None if chance.random() < share else value

    return (
        number,
        chance.randrange(1 << 32),
        chance.randrange(-(1 << 31), 1 << 31),
        chance.randint(1, 6),
        perhaps(0.1, chance.randrange(-30000, 30000)),
        chance.randint(0, 1),
        f"{chance.randrange(10**7)}.{chance.randrange(100):02}",
        perhaps(0.3, f"{chance.randrange(10**5)}.{chance.randrange(10**4):04}"),
        perhaps(0.2, chance.random() * 1e6),
        perhaps(0.2, chance.randrange(1000) / 8),
        f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02} 12:00:00.{chance.randrange(10**6):06}",
        perhaps(0.1, f"2026-11-{chance.randint(1, 28):02} 01:02:03.{chance.randrange(1000):03}"),
        perhaps(0.1, f"2025-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"),
        " ".join(chance.choices(_WORDS, k=5)),
        perhaps(0.3, '{"k": "' + "v" * chance.randrange(60) + '", "n": [1, 2, 3]}'),
        perhaps(0.3, chance.randbytes(chance.randrange(40))),
    )
