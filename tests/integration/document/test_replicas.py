"""Documents read from real replicas, from a server that took over, and from a captured server under load."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from include.document.database import DatabaseAddress
from include.document.reading.mysql import MysqlTables
from include.errors import Transient
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from tests.support.servers import Server
from tests.support.servers.fixture import PROVE, require_here
from tests.support.source.replica_pair import ReplicaPair, ask

LOOKS = 30
TABLE = "CREATE TABLE shop.orders (id int PRIMARY KEY, note varchar(20)) ENGINE=InnoDB"


@pytest.fixture(params=["mariadb-11.4", "mysql-9.7"], scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaPair]:
    """A server with a table, and its replica."""
    if request.param.startswith("mysql") and PROVE not in os.environ:
        pytest.skip(f"starts two slow servers: run `{PROVE}=1 pytest tests/integration/document`")
    with replicating(request.param, tmp_path_factory.mktemp("servers")) as made:
        yield made


@contextmanager
def replicating(name: str, folder: Path) -> Iterator[ReplicaPair]:
    require_here(name)
    with ExitStack() as stack:
        made = ReplicaPair(name, folder, stack)
        made.replicate()
        ask(made.first, "CREATE DATABASE shop", TABLE)
        made.applied(made.end())
        yield made


def opened(server: Server, **more: Any) -> MysqlTables:
    account: dict[str, Any] = {"user": "root", "password": server.root_password}
    return MysqlTables(DatabaseAddress(host=server.host, port=server.port, **account, **more), "shop")


def position(pair: ReplicaPair, server: Server | None = None) -> SourcePosition:
    """Where the binlog of the first server ends, or of another."""
    chosen = server or pair.first
    mysql = chosen.flavour == "mysql"
    # In this order: with writes in between the place in the binlog is not before the GTIDs.
    variable = "gtid_executed" if mysql else "gtid_binlog_pos"
    ((gtids,),) = ask(chosen, f"SELECT @@global.{variable}")
    ((file, pos, *_),) = ask(chosen, "SHOW BINARY LOG STATUS" if mysql else "SHOW MASTER STATUS")
    return SourcePosition(chosen.flavour, parse_gtid_set(gtids, chosen.flavour), BinlogPosition(file, int(pos)), 0)


def note(tables: MysqlTables, order: int, after: SourcePosition) -> list[Any]:
    with tables.snapshot(after) as now:
        return [row["note"] for row in now.rows("orders", ["note"], ["id"], [(order,)])]


def test_a_replica_that_is_behind_is_waited_for_and_its_lag_is_named(pair: ReplicaPair) -> None:
    # What another test wrote is not to be counted.
    pair.applied(pair.end())
    pair.stop_applying()
    ask(pair.first, "INSERT INTO shop.orders VALUES (1, 'one')", "UPDATE shop.orders SET note = 'two' WHERE id = 1")
    wanted = position(pair)
    impatient = opened(pair.second, replica=True, wait_s=0.3)
    with pytest.raises(Transient) as late:
        note(impatient, 1, wanted)
    assert late.value.details["behind_transactions"] == 2
    assert late.value.details["waited_s"] == 0.3
    impatient.close()
    patient = opened(pair.second, replica=True, wait_s=20)
    timer = threading.Timer(1.2, pair.start_applying)
    timer.start()
    assert note(patient, 1, wanted) == ["two"]
    timer.join()
    patient.close()


def test_a_captured_server_shows_what_its_binlog_has_however_fresh(pair: ReplicaPair) -> None:
    stop = threading.Event()

    def write() -> None:
        with pair.first.connect(database="shop") as connection, connection.cursor() as cursor:
            for number in itertools.count(101):
                if stop.is_set():
                    return
                cursor.execute(f"INSERT INTO orders VALUES ({number}, 'x')")

    before = logged(position(pair))
    writer = threading.Thread(target=write)
    writer.start()
    tables = opened(pair.first)
    try:
        while logged(position(pair)) - before < 5:
            time.sleep(0.01)
        for _ in range(LOOKS):
            wanted = position(pair)
            with tables.snapshot(wanted) as now:
                seen = len(now.keys_after("orders", ["id"], (100,), 10**6))
            # A row a transaction: there must be as many as the position counts.
            assert seen >= logged(wanted) - before > 0
    finally:
        stop.set()
        writer.join()
        tables.close()


def logged(where: SourcePosition) -> int:
    """Transactions of a server that alone has written."""
    return int(str(where.gtids).rpartition("-")[2])


@pytest.mark.skipif(PROVE not in os.environ, reason=f"two more servers: {PROVE}=1 pytest tests/integration/document")
def test_the_server_that_took_over_is_read_once_the_first_is_gone(tmp_path: Path) -> None:
    with replicating("mariadb-11.4", tmp_path) as pair:
        reads_from_the_second(pair)


def reads_from_the_second(pair: ReplicaPair) -> None:
    server: dict[str, Any] = {"fallbacks": [f"127.0.0.1:{pair.second.port}"], "wait_s": 20}
    tables = opened(pair.first, **server)
    ask(pair.first, "INSERT INTO shop.orders VALUES (50, 'first')")
    last = position(pair)
    assert note(tables, 50, last) == ["first"]
    pair.applied(pair.end())
    pair.kill_first()
    pair.promote()
    account: dict[str, Any] = {"user": "root", "password": pair.second.root_password}
    # Both servers of such a pair have the same accounts; here each made a password of its own.
    tables.close()
    tables = MysqlTables(DatabaseAddress(host="127.0.0.1", port=pair.first.port, **account, **server), "shop")
    with pytest.raises(Transient):
        note(tables, 50, last)
    assert note(tables, 50, last) == ["first"]
    ask(pair.second, "UPDATE shop.orders SET note = 'second' WHERE id = 50")
    assert note(tables, 50, position(pair, pair.second)) == ["second"]
    tables.close()
