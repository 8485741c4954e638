"""Advertising at work: makes its tables and writes one change after the other, beside the shop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from demo.advertising.plan import AdvertisingChange, changes, first_rows
from demo.advertising.schema import TABLES
from demo.shop.schema import create_tables
from demo.shop.writer import Connect, ShopWriter
from include.clock import Clock

__all__ = ["AdvertisingDesk", "at_work"]


class AdvertisingDesk:
    """Writes into the database that `connect` leads to; the same seed gives the same changes. Of one thread."""

    def __init__(self, connect: Connect, seed: int, clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._changes = changes(seed)
        self._writer = ShopWriter(connect, clock)
        self.written = 0

    def prepare(self) -> None:
        """Make the tables and their first rows where they are missing; what is there stays as it is."""
        connection = self._connect()
        try:
            create_tables(connection, TABLES)
            with connection.cursor() as cursor:
                for table, rows in first_rows().items():
                    marks = ", ".join(["%s"] * len(rows[0]))
                    cursor.executemany(f"INSERT INTO {table} VALUES ({marks}) ON DUPLICATE KEY UPDATE id = id", rows)  # noqa: S608 - names from our own schema
            connection.commit()
        finally:
            connection.close()

    def run(self, rate: float, stop: threading.Event) -> None:
        """Commit `rate` changes a second until `stop` is set, then leave the server.

        Blocks while the server is away, up to two minutes, then raises `Transient`.
        """
        began_s, due = self._clock.monotonic_s(), 0
        try:
            while not stop.is_set():
                self.write(next(self._changes))
                due += 1
                stop.wait(max(began_s + due / rate - self._clock.monotonic_s(), 0))
        finally:
            self._writer.close()

    def write(self, change: AdvertisingChange) -> None:
        """Commit one change; a second time it changes nothing more."""
        if change.row is None:
            self._writer.run_again(f"DELETE FROM {change.table} WHERE id = %s", (change.row_id,))  # noqa: S608 - names from Change's own list
        else:
            marks = ", ".join(["%s"] * len(change.row))
            # It leaves this row of that id, whatever an earlier run with another seed had there.
            self._writer.run_again(f"REPLACE INTO {change.table} VALUES ({marks})", change.row)  # noqa: S608 - names from Change's own list
        self.written += 1


@contextlib.contextmanager
def at_work(desk: AdvertisingDesk, rate: float) -> Iterator[None]:
    """Prepare, then write in a thread of its own until the block ends; what stopped it before is raised then."""
    desk.prepare()
    stop = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="advertising") as thread:
        work = thread.submit(desk.run, rate, stop)
        try:
            yield
        finally:
            stop.set()
    work.result()
