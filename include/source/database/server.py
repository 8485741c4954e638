"""Tells a server's family and version, whether it numbers transactions, and whether it has those that capture has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from include.errors import Terminal, Transient
from include.record.gtid import Flavour, GtidSet, MariadbGtidSet, MysqlGtidSet, parse_gtid_set

__all__ = ["AskServer", "MissingTransactions", "Reset", "Server", "own_of", "read_server"]

AskServer = Callable[..., list[tuple[Any, ...]]]
"""Runs one statement: `ask(sql, *values)`."""


class MissingTransactions(Transient):
    """The server lacks transactions that capture has: it may catch up, or it has lost them."""


class Reset(Terminal):
    """The server lacks transactions that it made itself, and there is nobody to catch up from."""


@dataclass(frozen=True, slots=True)
class Server:
    """A source's server.

    Attributes:
        text: its version, as it says.
        gtids: its transactions carry GTIDs, by which capture goes on; else by file and byte.
        lower_names: names of tables are kept in small letters, however statements write them.
    """

    flavour: Flavour
    version: tuple[int, int, int]
    text: str
    gtids: bool
    lower_names: bool = False

    def variable(self, ask: AskServer, name: str) -> str | None:
        """A global variable, None where this server has none of that name."""
        rows = ask("SHOW GLOBAL VARIABLES LIKE %s", name.replace("_", r"\_"))
        return str(rows[0][1]) if rows else None

    @property
    def binlog_status(self) -> str:
        """The statement that tells where the binlog ends."""
        newer = self.flavour == "mysql" and self.version >= (8, 2, 0)
        return "SHOW BINARY LOG STATUS" if newer else "SHOW MASTER STATUS"

    def logged(self, ask: AskServer) -> GtidSet:
        """Transactions that its binlog has, or had before it was purged."""
        variable = "gtid_binlog_pos" if self.flavour == "mariadb" else "gtid_executed"
        return parse_gtid_set(str(ask(f"SELECT @@global.{variable}")[0][0] or ""), self.flavour)

    def require(self, ask: AskServer, gtids: GtidSet, place: str) -> None:
        """Raise `MissingTransactions` when it lacks some of them, `Reset` when no waiting brings them back.

        A MariaDB that knows nothing of a domain says so itself later.
        """
        logged = self.logged(ask)
        if isinstance(logged, MariadbGtidSet) and isinstance(gtids, MariadbGtidSet):
            gtids = MariadbGtidSet({domain: last for domain, last in gtids.last.items() if domain in logged.last})
        if not logged.contains(gtids):  # type: ignore[arg-type]
            if not logged.contains(own_of(ask, gtids)) and self._follows_nobody(ask):  # type: ignore[arg-type]
                raise Reset(
                    "the server has lost transactions of its own that capture has: its binlog was reset, or restored",
                    server=place,
                    has=str(logged)[:200],
                    captured=str(gtids)[:200],
                    fix="It numbers others alike now, so nothing can be added to what was captured: read everything "
                    "anew, by `lyrebird capture run --source … --snapshot --anew`.",
                )
            raise MissingTransactions(
                "the server lacks transactions that capture has",
                system="mysql",
                server=place,
                has=str(logged)[:200],
                captured=str(gtids)[:200],
                fix="Is it a replica that is behind? It is waited for.",
            )

    def _follows_nobody(self, ask: AskServer) -> bool:
        """Whether it replicates from no other server; False where that is not told."""
        if self.flavour == "mariadb":
            # SHOW SLAVE STATUS takes a privilege that capture does not ask for.
            running = ask("SHOW GLOBAL STATUS LIKE 'Slaves\\_running'")
            return bool(running) and int(running[0][1]) == 0
        try:
            return not ask("SHOW REPLICA STATUS" if self.version >= (8, 0, 22) else "SHOW SLAVE STATUS")
        except Terminal:
            return False


def own_of(ask: AskServer, gtids: GtidSet) -> GtidSet:
    """Those of the transactions that the server has made itself."""
    if isinstance(gtids, MysqlGtidSet):
        uuid = str(ask("SELECT @@global.server_uuid")[0][0]).lower()
        return MysqlGtidSet({source: seen for source, seen in gtids.seen.items() if source.partition(":")[0] == uuid})
    own_id = int(ask("SELECT @@global.server_id")[0][0])
    return MariadbGtidSet({domain: last for domain, last in gtids.last.items() if last[0] == own_id})


def read_server(ask: AskServer) -> Server:
    """Asks the server; raises `Terminal` for a version text that is not understood."""
    text = str(ask("SELECT VERSION()")[0][0])
    numbers = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)", text)
    if numbers is None:
        raise Terminal(
            "the server's version is not understood",
            version=text,
            fix="Capture reads MariaDB from 10.1 and MySQL from 5.6 on; is it one of these?",
        )
    version = (int(numbers[1]), int(numbers[2]), int(numbers[3]))
    lower_names = int(ask("SELECT @@lower_case_table_names")[0][0]) == 1
    if "mariadb" in text.lower():
        return Server("mariadb", version, text, gtids=True, lower_names=lower_names)
    mode = ask("SHOW GLOBAL VARIABLES LIKE 'gtid\\_mode'")
    gtids = bool(mode) and str(mode[0][1]).upper() == "ON"
    return Server("mysql", version, text, gtids=gtids, lower_names=lower_names)
