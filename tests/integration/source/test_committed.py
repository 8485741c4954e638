"""MariaDB: a snapshot has what it says, and nothing beyond what it says it may have, under writers."""

from __future__ import annotations

import itertools
import random
import threading
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pymysql
import pytest
from pydantic import SecretStr

from include.clock import SystemClock
from include.record.gtid import MariadbGtidSet
from include.source.definition import SourceDefinition
from include.source.snapshot.reader import SnapshotReader
from include.source.snapshot.watermark_window import SnapshotSpan
from tests.support.servers.fixture import Give, server
from tests.support.source.database import Database

pytestmark = pytest.mark.timeout(180)
__all__ = ["server"]

WRITERS, READERS, KEYS, TRIALS = 6, 3, 300, 6_000
_Written = dict[int, tuple[int, int]]
"""A change's number → its key, and the sequence number of its transaction's GTID."""


@contextmanager
def writers(at: Database, name: str) -> Iterator[_Written]:
    """Each writes numbers into rows of `t`, up to three in a transaction."""
    ended, numbers, written = threading.Event(), itertools.count(1), _Written()

    def write(seed: int) -> None:
        draw = random.Random(seed)
        with at.connect(database=name) as connection, connection.cursor() as cursor:
            connection.autocommit(False)
            while not ended.is_set():
                mine = {next(numbers): draw.randrange(KEYS) for _ in range(draw.randrange(1, 4))}
                try:
                    for number, key in mine.items():
                        cursor.execute("REPLACE INTO t VALUES (%s, %s)", (key, number))
                    connection.commit()
                except pymysql.err.MySQLError:
                    connection.rollback()
                    continue
                cursor.execute("SELECT @@last_gtid")
                sequence = int(str(cursor.fetchone()[0]).rpartition("-")[2])
                written.update({number: (key, sequence) for number, key in mine.items()})

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield written
    finally:
        ended.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("product", ["mariadb-11.4", "mariadb-10.11"])
def test_what_was_committed_before_a_snapshot_is_in_it_and_nothing_that_was_not_logged_after(
    server: Give, unique: str, product: str
) -> None:
    at = server(product)
    with at.connect() as root, root.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {unique}")
        cursor.execute(f"CREATE TABLE {unique}.t (id int PRIMARY KEY, n bigint NOT NULL) ENGINE=InnoDB")
    source = SourceDefinition(
        host=at.host, port=at.port, user="root", password=SecretStr(at.root_password), databases=[unique]
    )
    found: list[tuple[SnapshotSpan, dict[int, int]]] = []

    def look(_: int) -> None:
        reader = SnapshotReader(source, SystemClock())
        while len(found) < TRIALS:
            span = reader.open()
            found.append((span, {key: n for key, n in reader.ask(f"SELECT id, n FROM {unique}.t")}))
            reader.end()
        reader.close()

    with writers(at, unique) as written, ThreadPoolExecutor(READERS) as threads:
        list(threads.map(look, range(READERS)))
    with at.connect() as root, root.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {unique}")
    history: dict[int, list[tuple[int, int]]] = {key: [] for key in range(KEYS)}
    for number, (key, sequence) in written.items():
        history[key].append((sequence, number))
    for changes in history.values():
        changes.sort()
    wider = 0
    for span, rows in found:
        low, high = sequence_of(span.low.gtids), sequence_of(span.high.gtids)
        wider += low < high
        for key, changes in history.items():
            shown = written[rows[key]][1] if key in rows else 0
            # In a transaction the last of a row counts, which all of them share the sequence number of.
            known = bisect_right(changes, (low, 1 << 60))
            assert shown >= (changes[known - 1][0] if known else 0), (span, key)
            assert shown <= high, (span, key)
    assert wider > TRIALS / 100


def sequence_of(gtids: object) -> int:
    assert isinstance(gtids, MariadbGtidSet)
    return max((last for _, last in gtids.last.values()), default=0)
