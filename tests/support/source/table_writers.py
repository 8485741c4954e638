"""Writers beside a capture: threads that change rows of a world's tables in transactions."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from typing import Any

import pymysql

from tests.support.source.capture_harness import CaptureHarness

__all__ = ["TableWriters"]


class TableWriters:
    """Threads that insert, update, move and delete rows in transactions until told to stop."""

    def __init__(self, world: CaptureHarness, count: int = 2) -> None:
        self._world, self._stop = world, threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(seed,), daemon=True) for seed in range(count)]

    def __enter__(self) -> TableWriters:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, seed: int) -> None:
        chance = random.Random(seed)
        while not self._stop.is_set():
            # Where the server is away, another connection is tried.
            with contextlib.suppress(pymysql.err.MySQLError):
                connection = self._world.server.connect(database=self._world.name)
                with connection, connection.cursor() as cursor:
                    connection.autocommit(False)
                    self._transactions(connection, cursor, chance)
            time.sleep(0.05)

    def _transactions(self, connection: Any, cursor: Any, chance: random.Random) -> None:
        while not self._stop.is_set():
            try:
                for _ in range(chance.randint(1, 4)):
                    self._step(cursor, chance)
                connection.commit()
            except pymysql.err.MySQLError:
                connection.rollback()
            time.sleep(0.01)

    def _step(self, cursor: Any, chance: random.Random) -> None:
        id_, part = chance.randint(1, 60), chance.randint(1, 5)
        what = chance.random()
        if what < 0.4:
            cursor.execute(
                "REPLACE INTO a VALUES (%s, %s, %s, %s, NOW(6))", (id_, part, f"v{what}", round(what * 100, 2))
            )
            cursor.execute("INSERT INTO b (a_id, v) VALUES (%s, %s)", (id_, "ü" * chance.randint(0, 50)))
        elif what < 0.6:
            cursor.execute("UPDATE a SET v = %s, part = %s WHERE id = %s", (None, part, id_))
        elif what < 0.7:
            cursor.execute("UPDATE a SET id = id + 1000 WHERE id = %s", (id_,))
        elif what < 0.9:
            cursor.execute("DELETE FROM a WHERE id IN (%s, %s)", (id_, id_ + 1000))
        else:
            cursor.execute("SAVEPOINT s")
            cursor.execute("DELETE FROM b WHERE a_id = %s", (id_,))
            cursor.execute("ROLLBACK TO s" if what < 0.95 else "RELEASE SAVEPOINT s")
