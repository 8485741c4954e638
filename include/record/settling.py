"""A place in the binlog up to which the engine has committed all: what is opened behind it shows all of that.

The server logs a transaction before the engine commits it: of 1,000 snapshots that were opened after SHOW MASTER STATUS
593 lacked one that was logged before that place; with semi-sync replication it may be seconds, until a replica has it.
A MySQL with GTIDs says in `gtid_executed` what is committed.

MariaDB says by `binlog_snapshot_*`, asked *before* a snapshot, how far its engine has committed: it looks under the
lock under which groups commit. Inside a snapshot these are meant to be the snapshot's own place, and mostly are: of
64,500 snapshots under six writers (11.4) 196 lacked something up to there, and 28 showed something beyond
(docs/adr/0003-where-a-snapshot-of-mariadb-stands.md).

Of a MySQL without GTIDs two things tell more, each with a privilege:

* `performance_schema.log_status` (8.0.11, BACKUP_ADMIN) stops commits for the moment in which it reads the place.
* `innodb_trx` (PROCESS): whatever was logged before the place and is not committed is there, its connection busy. So
  those are waited for that were there before. The server fills this table at most every 100 ms, and only where nobody
  has just read it; whether it is fresh, a text in our own query tells, which stands there too.

Without either, two seconds have to do, and the time for which the server waits for replicas.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from include.clock import Clock
from include.errors import Terminal, Transient
from include.record.position import BinlogPosition

__all__ = ["COMMITTED", "SETTLE_S", "Settling", "committed_place"]

COMMITTED: Final = "SHOW STATUS LIKE 'binlog_snapshot_%'"
"""Asks a MariaDB how far its engine has committed; nothing may be open on the connection."""

SETTLE_S: Final = 2.0
"""What a commit takes from the binlog into the engine, at most, where nothing holds it back."""
_LOG_STATUS: Final = (
    "SELECT JSON_UNQUOTE(JSON_EXTRACT(`LOCAL`, '$.binary_log_file')), JSON_EXTRACT(`LOCAL`, '$.binary_log_position') "
    "FROM performance_schema.log_status"
)
_TRANSACTIONS: Final = (
    "SELECT /* %s */ t.trx_id, t.trx_mysql_thread_id = CONNECTION_ID(), t.trx_query, "
    "t.trx_rows_modified > 0 AND p.command <> 'Sleep' "
    "FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id"
)
# More than the time for which the server keeps what it read.
_LOOK_EVERY_S: Final = 0.12
_MOST_STALE: Final = 50
# What has not committed by then is a long statement, which nothing was logged of.
_LONGEST_S: Final = 60.0
# Whoever looks more often than that sees the same again: all readers of this process look one after another.
_LOOKING: Final = threading.Lock()


def committed_place(rows: Iterable[tuple[Any, ...]]) -> BinlogPosition | None:
    """What the answer to `COMMITTED` says; None where the binlog is off."""
    status = {str(name).lower(): str(value) for name, value in rows}
    file, pos = status.get("binlog_snapshot_file", ""), status.get("binlog_snapshot_position", "")
    return BinlogPosition(file, int(pos)) if file and pos.isdigit() else None


class Settling:
    """Of a MySQL without GTIDs. For one connection; nothing may be open on it.

    `ask` runs a statement, and raises `Terminal` where the account may not; `status` is that of the binlog's end.
    """

    def __init__(
        self, ask: Callable[[str], list[tuple[Any, ...]]], version: tuple[int, int, int], status: str, clock: Clock
    ) -> None:
        self._ask, self._status, self._clock = ask, status, clock
        self._log_status = version >= (8, 0, 11)
        self._transactions = True

    def place(self) -> BinlogPosition:
        """Such a place, as late as can be; takes a moment, and as long as a transaction takes to commit."""
        now = self.place_now()
        if now is not None:
            return now
        rows = self._ask(self._status)
        if not rows:
            raise Terminal("the server has no binlog", fix="Is log_bin on? `lyrebird capture check` tells.")
        at = BinlogPosition(str(rows[0][0]), int(rows[0][1]))
        if not self._waited_for_transactions():
            self._clock.sleep(SETTLE_S + self.held_back_s())
        return at

    def place_now(self) -> BinlogPosition | None:
        """Such a place, at once; None where the server or the account has no way to it."""
        if not self._log_status:
            return None
        try:
            ((file, pos),) = self._ask(_LOG_STATUS)
        except Terminal:
            self._log_status = False
            return None
        return BinlogPosition(str(file), int(pos))

    def _waited_for_transactions(self) -> bool:
        """Wait for those that may have been logged; False where the account may not look."""
        if not self._transactions:
            return False
        until_s = self._clock.monotonic_s() + _LONGEST_S + self.held_back_s()
        # So that we are among them.
        self._ask("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            pending = self._look()
            while pending and self._clock.monotonic_s() < until_s:
                pending &= self._look()
        except Terminal:
            self._transactions = False
        finally:
            self._ask("ROLLBACK")
        return self._transactions

    def _look(self) -> frozenset[str]:
        """Transactions with changes, of connections that are busy."""
        for _ in range(_MOST_STALE):
            text = uuid.uuid4().hex
            with _LOOKING:
                self._clock.sleep(_LOOK_EVERY_S)
                rows = self._ask(_TRANSACTIONS % text)
            if any(mine and text in _text(query) for _, mine, query, _ in rows):
                return frozenset(_text(trx) for trx, mine, _, busy in rows if busy and not mine)
        raise Transient(
            "somebody reads innodb_trx so often that the server never looks again", system="mysql", tries=_MOST_STALE
        )

    def held_back_s(self) -> float:
        """How long a transaction may stand in the binlog before the engine commits it: until a replica has it.

        With AFTER_COMMIT, and before MySQL 5.7, the engine commits first.
        """
        found = {str(name): str(value) for name, value in self._ask("SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync_%'")}
        for role in ("master", "source"):
            ahead = found.get(f"rpl_semi_sync_{role}_wait_point") == "AFTER_SYNC"
            if ahead and found.get(f"rpl_semi_sync_{role}_enabled") == "ON":
                return int(found.get(f"rpl_semi_sync_{role}_timeout", "0")) / 1000
        return 0.0


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
