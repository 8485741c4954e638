"""Begin a snapshot that is not before a position: else a document would be stale, and nothing would wake it.

| server | when it has all up to the position |
|---|---|
| MySQL with GTIDs | `WAIT_FOR_EXECUTED_GTID_SET`: a transaction counts when the engine has committed it |
| MariaDB, a replica | `MASTER_GTID_WAIT` |
| MariaDB, the server that is captured | `binlog_snapshot_position` before the snapshot: what its engine has committed |
| MariaDB, that or a fallback of it | its GTIDs; those that it wrote itself, by the same position |
| MySQL without GTIDs, captured itself | `performance_schema.log_status` (8.0.11, BACKUP_ADMIN), else the clock |
| any other without GTIDs | refused: files and bytes of one server say nothing of another |

The server that is captured is asked too, as a transaction can be in the binlog, and thus in the log, a moment before
the engine shows it; with semi-sync AFTER_SYNC that is until a replica has it, or the time for that is over. So long
after its commit a transaction is waited for where only the clock tells. A look at the row that was changed would tell
less: it may have been changed again, or deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from include.clock import Clock
from include.document.database import DatabaseAddress
from include.errors import Terminal, Transient
from include.record.gtid import GtidSet, MariadbGtidSet, MysqlGtidSet, parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.record.settling import COMMITTED, SETTLE_S, Settling, committed_place

__all__ = ["BEGIN", "AskServer", "ReplicaBehind", "begin_after"]

AskServer = Callable[..., list[tuple[Any, ...]]]
"""Runs one statement: `ask(sql, arguments)`."""

BEGIN: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
# `ask` fills in arguments.
_COMMITTED: Final = COMMITTED.replace("%", "%%")
_SLICE_S: Final = 1.0
_AGAIN_S: Final = 0.02


class ReplicaBehind(Transient):
    """A server lacks what a batch's signals speak of. It may come hours later: who reads documents there waits."""


def begin_after(
    ask: AskServer, position: SourcePosition, server: DatabaseAddress, clock: Clock, settling: Callable[[], Settling]
) -> None:
    """Begin a snapshot with all that is before `position`. `settling` is that of the connection.

    Raises:
        Behind: the server still lacks some of it after `wait_s`; details say how much.
        Terminal: nobody can tell, as transactions carry no GTIDs.
    """
    moves = server.replica or bool(server.fallbacks)
    if moves and not str(position.gtids):
        raise Terminal(
            "documents cannot be read from a replica, as the source's transactions carry no GTIDs",
            server=server.place,
            position=str(position.binlog),
            fix="Switch GTIDs on (`gtid_mode`), or take `read_from` and `fallbacks` out, to read from the source.",
        )
    if position.flavour == "mysql":
        if str(position.gtids):
            _wait(ask, "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", position, server, clock)
        else:
            _wait_for_engine(ask, position, server, clock, settling())
        ask(BEGIN)
    elif server.replica:
        _wait(ask, "SELECT MASTER_GTID_WAIT(%s, %s)", position, server, clock)
        ask(BEGIN)
    elif moves:
        _begin_mariadb(ask, position, server, clock)
    else:
        _begin_at(ask, position.binlog, position, server, clock)


def _wait(ask: AskServer, statement: str, position: SourcePosition, server: DatabaseAddress, clock: Clock) -> None:
    """In slices, as a connection's silence is bounded too."""
    until_s = clock.monotonic_s() + server.wait_s
    while True:
        left_s = max(0.0, until_s - clock.monotonic_s())
        if ask(statement, (str(position.gtids), min(left_s, _SLICE_S)))[0][0] == 0:
            return
        if clock.monotonic_s() >= until_s:
            raise _behind(ask, position, server)


def _wait_for_engine(
    ask: AskServer, position: SourcePosition, server: DatabaseAddress, clock: Clock, settling: Settling
) -> None:
    until_s = clock.monotonic_s() + server.wait_s
    while (place := settling.place_now()) is not None:
        if place >= position.binlog:
            return
        if clock.monotonic_s() >= until_s:
            raise _behind(ask, position, server)
        clock.sleep(_AGAIN_S)
    held_s = settling.held_back_s()
    if held_s:
        # By the server's own clock, in whose time it was logged; older servers say the second in which that began.
        ((now_s,),) = ask("SELECT UNIX_TIMESTAMP(SYSDATE(6))")
        left_s = position.commit_us / 1e6 + 1 + held_s + SETTLE_S - float(now_s)
        clock.sleep(min(max(0.0, left_s), held_s + SETTLE_S))


def _begin_mariadb(ask: AskServer, position: SourcePosition, server: DatabaseAddress, clock: Clock) -> None:
    """On the captured server or one that took over from it, as it is."""
    until_s = clock.monotonic_s() + server.wait_s
    while True:
        applied, written = (_set(position, text) for text in ask("SELECT @@gtid_slave_pos, @@gtid_binlog_pos")[0])
        if applied.contains(position.gtids):  # type: ignore[arg-type]
            ask(BEGIN)
            return
        if applied.union(written).contains(position.gtids):  # type: ignore[arg-type]
            file, pos, *_ = ask("SHOW MASTER STATUS")[0]
            _begin_at(ask, BinlogPosition(str(file), int(pos)), position, server, clock)
            return
        if clock.monotonic_s() >= until_s:
            raise _behind(ask, position, server)
        clock.sleep(_AGAIN_S)


def _begin_at(
    ask: AskServer, end: BinlogPosition, position: SourcePosition, server: DatabaseAddress, clock: Clock
) -> None:
    until_s = clock.monotonic_s() + server.wait_s
    while True:
        committed = committed_place(ask(_COMMITTED))
        if committed is None:
            raise Terminal(
                "the server does not say how far it has committed, as its binlog is off",
                server=server.place,
                fix="Switch `log_bin` on; is this the server that is captured? Else name it in `read_from`.",
            )
        if committed >= end:
            ask(BEGIN)
            return
        if clock.monotonic_s() >= until_s:
            raise _behind(ask, position, server)
        clock.sleep(_AGAIN_S)


def _behind(ask: AskServer, position: SourcePosition, server: DatabaseAddress) -> ReplicaBehind:
    names = "@@global.gtid_executed, ''" if position.flavour == "mysql" else "@@gtid_slave_pos, @@gtid_binlog_pos"
    applied, written = (_set(position, text) for text in ask(f"SELECT {names}")[0])
    has: Any = applied.union(written)  # type: ignore[arg-type]
    return ReplicaBehind(
        "the server lacks transactions that the documents must show",
        system="mysql",
        server=server.place,
        behind_transactions=_behind_by(has, position.gtids),
        has=str(has)[:200],
        wanted=str(position.gtids)[:200],
        waited_s=server.wait_s,
        fix="Does it replicate (SHOW REPLICA STATUS)? Documents wait until it has them.",
    )


def _set(position: SourcePosition, text: Any) -> GtidSet:
    return parse_gtid_set(str(text or ""), position.flavour)


def _behind_by(has: GtidSet, wanted: GtidSet) -> int:
    """How many transactions of `wanted` are missing; of MariaDB those of a domain number one after the other."""
    if isinstance(has, MariadbGtidSet) and isinstance(wanted, MariadbGtidSet):
        return sum(max(0, n - has.last.get(domain, (0, 0))[1]) for domain, (_, n) in wanted.last.items())
    if isinstance(has, MysqlGtidSet) and isinstance(wanted, MysqlGtidSet):
        return sum(b - a + 1 for parts in wanted.subtract(has).seen.values() for a, b in parts)
    return 0
