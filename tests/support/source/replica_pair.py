"""Two servers of one kind, the second a replica of the first by GTID, to be promoted when the first dies."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.servers import Server, running
from tests.support.source.capture_harness import CaptureHarness
from tests.support.source.table_writers import TableWriters

__all__ = ["ReplicaPair", "ask", "takes_over"]


class ReplicaPair:
    """They run until `stack` ends."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self.first = stack.enter_context(running(name, folder / "first"))
        self.second = stack.enter_context(running(name, folder / "second", server_id=2))
        self._mysql = self.first.flavour == "mysql"
        self._variable = "gtid_executed" if self._mysql else "gtid_binlog_pos"

    def replicate(self) -> None:
        to = {"HOST": "'127.0.0.1'", "PORT": self.first.port, "USER": "'root'"}
        to |= {"PASSWORD": f"'{self.first.root_password}'"}
        if self._mysql:
            more = ", SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
            place = ", ".join(f"SOURCE_{word}={value}" for word, value in to.items())
            ask(self.second, f"CHANGE REPLICATION SOURCE TO {place}{more}", "START REPLICA")
        else:
            more = ", MASTER_USE_GTID=slave_pos, MASTER_SSL=0, MASTER_SSL_VERIFY_SERVER_CERT=0"
            place = ", ".join(f"MASTER_{word}={value}" for word, value in to.items())
            ask(self.second, f"CHANGE MASTER TO {place}{more}", "START SLAVE")

    def end(self) -> str:
        """The GTIDs that the first has logged."""
        ((found,),) = ask(self.first, f"SELECT @@global.{self._variable}")
        return str(found).replace("\n", "")

    def applied(self, end: str) -> None:
        """Wait until the second has applied these."""
        wait = "WAIT_FOR_EXECUTED_GTID_SET" if self._mysql else "MASTER_GTID_WAIT"
        reached = ask(self.second, f"SELECT {wait}('{end}', 20)") == ((0,),)
        assert reached, self._replica()

    def received(self, end: str) -> None:
        """Wait until the second has got these, applied or not."""
        until_s = time.monotonic() + 10
        while not self._has(end):
            assert time.monotonic() < until_s, self._replica()
            time.sleep(0.1)

    def _has(self, end: str) -> bool:
        if not self._mysql:
            return end.rpartition("-")[2] in str(self._replica())
        got = "SELECT GTID_SUBSET(%s, CONCAT(@@global.gtid_executed, ',', (SELECT received_transaction_set FROM "
        got += "performance_schema.replication_connection_status)))"
        return bool(ask(self.second, got % repr(end)) == ((1,),))

    def _replica(self) -> Any:
        return ask(self.second, "SHOW REPLICA STATUS" if self._mysql else "SHOW SLAVE STATUS")

    def stop_applying(self) -> None:
        ask(self.second, f"STOP {'REPLICA' if self._mysql else 'SLAVE'} SQL_THREAD")

    def start_applying(self) -> None:
        ask(self.second, f"START {'REPLICA' if self._mysql else 'SLAVE'} SQL_THREAD")

    def cut(self) -> None:
        """The second gets nothing more."""
        ask(self.second, f"STOP {'REPLICA' if self._mysql else 'SLAVE'}")

    def kill_first(self) -> None:
        os.kill(self.first.process.pid, signal.SIGKILL)

    def promote(self) -> None:
        self.cut()
        ask(self.second, f"RESET {'REPLICA' if self._mysql else 'SLAVE'} ALL")


def ask(server: Server, *statements: str) -> Any:
    """The rows of the last."""
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


def takes_over(world: CaptureHarness, pair: ReplicaPair) -> None:
    """The first dies while the second has not applied all that was captured; then it has, and is promoted."""
    with TableWriters(world):
        time.sleep(0.5)
        world.run("run", "--snapshot")
        capture = world.start("run")
        world.wait(lambda: world.sequence() > 8)
    pair.applied(pair.end())
    pair.stop_applying()
    world.sql(f"INSERT INTO {world.name}.a VALUES (999, 1, 'last', 1, NULL)")
    world.wait_until_complete()
    end = pair.end()
    pair.received(end)
    pair.kill_first()
    before = world.sequence()
    said = ""
    until_s = time.monotonic() + 20
    while "waits for the database server" not in said:
        assert time.monotonic() < until_s, said
        said = world.status()["state"]["text"]
    time.sleep(1)
    assert world.sequence() == before
    assert capture.poll() is None
    pair.start_applying()
    pair.applied(end)
    pair.promote()
    world.move(pair.second)
    with TableWriters(world):
        world.wait(lambda: world.sequence() > before + 5)
    world.is_whole()
    assert 999 in world.copy("a")
    world.stop(capture)
