"""A table's hashes at a real server: ranges add up to the whole, and what would make them wrong is refused."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest

from include.audit.merkle.database import AuditLoad, DatabaseSide
from include.audit.merkle.tree import Tree
from include.clock import Clock, SystemClock
from include.errors import Terminal
from include.policy.policy import Policy
from include.source.catalog.catalog import TableCatalog
from include.source.definition import SourceDefinition
from include.source.hashes import plain
from include.source.hashes.scan import TableScan
from include.source.hashes.sums import HashSum, bits_for
from include.source.snapshot.reader import SnapshotReader
from include.source.state.key_range import WHOLE, KeyRange
from tests.support.servers.fixture import Give, server

__all__ = ["server"]

ROWS = 5_000
BITS = bits_for(ROWS)
MOMENTS = 20
PATIENCE_S = 60.0


@pytest.fixture(params=["mariadb-11.4", "mysql-9.7"])
def given(request: pytest.FixtureRequest, server: Give) -> Any:
    """A server with an empty database `scan`."""
    found = server(request.param)
    with found.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS scan")
        cursor.execute("CREATE DATABASE scan CHARACTER SET utf8mb4")
    return found


def ask(given: Any, *statements: str) -> None:
    with given.connect(database="scan", charset="utf8mb4") as connection, connection.cursor() as cursor:
        for each in statements:
            cursor.execute(each)


def fill(given: Any, rows: int = ROWS) -> None:
    ask(given, "CREATE TABLE t (id DECIMAL(12,2) PRIMARY KEY, n BIGINT, v VARCHAR(99), m LONGTEXT)")
    values = ", ".join(f"({number}.5, {number}, 'row {number}', NULL)" for number in range(-rows // 2, rows // 2))
    ask(given, f"INSERT INTO t VALUES {values}")


def scan(given: Any, reader: SnapshotReader, table: str = "t", where: str = "") -> TableScan:
    policy = Policy.declared("accept", {}, ["scan"])
    catalog = TableCatalog(dict, reader.server, policy)
    return TableScan(reader, "scan", table, policy.of("scan", table), catalog.shape, where)


def opened(given: Any) -> Any:
    source = SourceDefinition(
        host=given.host, port=given.port, user="root", password=given.root_password, databases=["scan"]
    )
    return closing(SnapshotReader(source, SystemClock()))


def ranges(found: TableScan, rows: int) -> list[KeyRange]:
    parts, after = [], None
    while (bound := found.boundary(KeyRange(after, None), rows)) is not None:
        parts.append(KeyRange(after, bound))
        after = bound
    return [*parts, KeyRange(after, None)]


def summed(parts: list[dict[int, HashSum]]) -> dict[int, HashSum]:
    found: dict[int, HashSum] = {}
    for part in parts:
        for leaf, each in part.items():
            found[leaf] = found.get(leaf, HashSum()).plus(each)
    return found


def test_ranges_of_a_key_add_up_to_the_whole_table(given: Any) -> None:
    fill(given)
    with opened(given) as reader:
        found = scan(given, reader)
        whole = found.leaves(WHOLE, BITS)
        assert whole.rows == ROWS
        parts = ranges(found, 700)
        assert len(parts) == 8
        assert summed([dict(found.leaves(part, BITS).leaves) for part in parts]) == dict(whole.leaves)
        _, rows = found.rows_of(WHOLE, BITS, range(1 << BITS))
        assert len(rows) == ROWS
        some = scan(given, reader, where="n >= 10 AND n < 30 OR v = 'row 77'").leaves(WHOLE, BITS)
        assert some.rows == 21


def test_a_snapshot_is_of_one_moment_while_others_write(given: Any) -> None:
    """Each transaction moves one from a row to another: their sum is the same in every snapshot."""
    ask(given, "CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 500), (2, 500)")
    over = threading.Event()

    def write() -> None:
        with given.connect(database="scan") as connection, connection.cursor() as cursor:
            while not over.is_set():
                cursor.execute("BEGIN")
                cursor.execute("UPDATE t SET n = n - 1 WHERE id = 1")
                cursor.execute("UPDATE t SET n = n + 1 WHERE id = 2")
                cursor.execute("COMMIT")

    with opened(given) as reader:
        found = scan(given, reader)

        def after(transactions: int) -> HashSum:
            rows = ({"id": 1, "n": 500 - transactions}, {"id": 2, "n": 500 + transactions})
            one, two = (HashSum.of(plain.row_hash(found.rows, row)) for row in rows)
            return one.plus(two)

        thread = threading.Thread(target=write)
        thread.start()
        scanned, until_s = [found.leaves(WHOLE, 0)], time.monotonic() + PATIENCE_S
        try:
            while len({each.leaves[0] for each in scanned}) < MOMENTS and time.monotonic() < until_s:
                scanned.append(found.leaves(WHOLE, 0))
        finally:
            over.set()
            thread.join()
    states = {after(number): number for number in range(100_000)}
    numbers = [states[each.leaves[0]] for each in scanned]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) >= MOMENTS
    for each, later in pairwise(scanned):
        assert later.span.high.covers(each.span.low)


def test_rows_that_are_alike_in_a_table_without_a_key_are_one_as_in_its_topic(given: Any) -> None:
    ask(given, "CREATE TABLE t (a INT, b VARCHAR(9))", "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (1, NULL), (2, 'x')")
    with opened(given) as reader:
        found = scan(given, reader)
        assert not found.divides
        assert found.boundary(WHOLE, 1) is None
        assert found.leaves(WHOLE, 0).rows == 3
        assert len(found.rows_of(WHOLE, 0, [0])[1]) == 3


def test_an_empty_table_has_no_leaves(given: Any) -> None:
    ask(given, "CREATE TABLE t (id INT PRIMARY KEY)")
    with opened(given) as reader:
        assert scan(given, reader).leaves(WHOLE, 4).leaves == {}


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE t ADD c INT", "DROP TABLE t", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)"]
)
def test_a_table_that_is_altered_meanwhile_is_not_compared(given: Any, statement: str) -> None:
    fill(given, 10)
    with opened(given) as reader:
        found = scan(given, reader)
        ask(given, statement)
        with pytest.raises(Terminal, match="altered or dropped"):
            found.leaves(WHOLE, 0)


def test_rows_too_long_for_a_text_are_told(given: Any) -> None:
    ask(
        given,
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9500), m LONGTEXT)",
        "INSERT INTO t VALUES (1, REPEAT('x', 9000), NULL), (2, 'x', REPEAT('x', 9000))",
    )
    with given.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@global.max_allowed_packet")
        ((most,),) = cursor.fetchall()
        cursor.execute("SET GLOBAL max_allowed_packet = 8192")
        try:
            with opened(given) as reader, pytest.raises(Terminal, match=r"max_allowed_packet.*rows=1"):
                scan(given, reader).leaves(WHOLE, 0)
        finally:
            cursor.execute("SET GLOBAL max_allowed_packet = %s", (most,))


def test_what_cannot_be_compared_is_refused_with_the_reason(given: Any) -> None:
    ask(given, "CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MyISAM")
    with opened(given) as reader:
        with pytest.raises(Terminal, match="no snapshots"):
            scan(given, reader)
        with pytest.raises(Terminal, match="no such table"):
            scan(given, reader, "none")


def test_a_connection_that_is_lost_amid_a_scan_is_made_again_and_its_range_read_again(given: Any) -> None:
    fill(given)
    source = SourceDefinition(
        host=given.host, port=given.port, user="root", password=given.root_password, databases=["scan"]
    )
    made: list[Cut] = []

    def cut(definition: SourceDefinition, clock: Clock) -> SnapshotReader:
        made.append(Cut(definition, clock, after=40 if len(made) < 2 else None))
        return made[-1]

    clock = SystemClock()
    load = AuditLoad(clock, connections=2, rows_per_s=0, busy_threads=0)
    with closing(DatabaseSide(source, "scan", "t", load, clock, range_rows=500, reader=cut)) as side:
        found = side.leaves(side.parts, BITS)
        texts = side.rows_of({side.parts[0]: range(1 << BITS)}, BITS)
    with opened(given) as reader:
        whole = scan(given, reader).leaves(WHOLE, BITS)
    assert len(made) > 2
    assert Tree.of(BITS, [each.leaves for each in found]) == Tree.of(BITS, [whole.leaves])
    assert len(texts[side.parts[0]].texts) == 500


class Cut(SnapshotReader):
    """Its server ends the connection after so many statements."""

    def __init__(self, source: SourceDefinition, clock: Clock, after: int | None) -> None:
        self._left = after
        super().__init__(source, clock)

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.interrupt()
        return super().ask(sql, *values)
