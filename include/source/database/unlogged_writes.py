"""Writes that a server carries out and does not log: of databases that it leaves out, of a primary that it follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from include.errors import Terminal
from include.source.database.finding import ServerFinding
from include.source.database.server import AskServer, Server
from include.source.definition import SourceDefinition

__all__ = ["gaps"]

_BINLOG_FILTER: Final = "Start the server without binlog_do_db and binlog_ignore_db; both hold until a restart."
_FOLLOWS: Final = (
    "Start it with --log-slave-updates (MySQL from 8.0.26 on: --log-replica-updates), then read the tables anew:"
    " --snapshot --anew; or capture its primary."
)
_SHOW: Final = "GRANT SLAVE MONITOR ON *.* (REPLICATION CLIENT on MySQL and before MariaDB 10.5) to it."


def gaps(ask: AskServer, server: Server, source: SourceDefinition) -> Iterator[ServerFinding]:
    """What is lost without a trace in the binlog."""
    yield from _left_out(ask, server, source)
    yield from _followed(ask, server)


def _left_out(ask: AskServer, server: Server, source: SourceDefinition) -> Iterator[ServerFinding]:
    status = _answer(ask, server.binlog_status)
    # None of it: no binlog, or no privilege, of which other findings speak.
    do, ignore = (_names(status[0][2]), _names(status[0][3])) if status else (set(), set())
    if not do and not ignore:
        return
    lost = [each for each in source.databases if (each not in do if do else each in ignore)]
    variable = "binlog_do_db" if do else "binlog_ignore_db"
    for database in lost:
        yield ServerFinding(f"database {database}", f"is not logged, by {variable}", _BINLOG_FILTER)
    if not lost:
        problem = "leaves out TRUNCATE, ALTER and DROP of captured tables in sessions whose own database it leaves out"
        yield ServerFinding(variable, problem, _BINLOG_FILTER, "warn")


def _followed(ask: AskServer, server: Server) -> Iterator[ServerFinding]:
    def of(name: str) -> str:
        return (server.variable(ask, name) or "").upper()

    variable = next((each for each in ("log_slave_updates", "log_replica_updates") if of(each) == "OFF"), "")
    if not variable:
        return
    replicas = _replication(ask, server)
    if of("wsrep_on") == "ON":
        yield ServerFinding(
            variable, "is off on a node of a cluster: what comes from the others is not logged", _FOLLOWS
        )
    elif replicas:
        yield ServerFinding(variable, "is off on a replica: what comes from its primary is not logged", _FOLLOWS)
    elif replicas is None and server.flavour == "mariadb" and ask("SELECT @@global.gtid_slave_pos")[0][0]:
        problem = "is off, and gtid_slave_pos tells of a primary, whose writes are not logged then"
        yield ServerFinding(variable, problem, f"{_FOLLOWS} If it is a replica no more: {_SHOW}")
    elif replicas is None:
        problem = (
            "is off, and the account may not see whether this is a replica, which would not log its primary's writes"
        )
        yield ServerFinding(variable, problem, _SHOW, "warn")


def _replication(ask: AskServer, server: Server) -> list[tuple[object, ...]] | None:
    """A row for each primary that it follows, or did until it was stopped; None where the account may not know."""
    if server.flavour == "mariadb":
        return _answer(ask, "SHOW ALL SLAVES STATUS")
    return _answer(ask, "SHOW REPLICA STATUS" if server.version >= (8, 0, 22) else "SHOW SLAVE STATUS")


def _answer(ask: AskServer, sql: str) -> list[tuple[object, ...]] | None:
    """None: the server refuses the question."""
    try:
        return ask(sql)
    except Terminal:
        return None


def _names(listed: object) -> set[str]:
    return {name for name in str(listed or "").split(",") if name}
