"""A snapshot is not before the signals: what each kind of server is asked, and when it is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from include.clock import ManualClock
from include.document.database import DatabaseAddress
from include.document.reading.read_after import BEGIN, begin_after
from include.errors import Terminal, Transient
from include.record.gtid import Flavour, parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.record.settling import Settling

SID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def at(flavour: Flavour, gtids: str, pos: int = 500) -> SourcePosition:
    return SourcePosition(flavour, parse_gtid_set(gtids, flavour), BinlogPosition("bin.000002", pos), 0)


def server(**more: Any) -> DatabaseAddress:
    return DatabaseAddress(host="h", user="u", password=SecretStr(""), wait_s=3, **more)


class Told:
    """A server that answers as it is told: per statement's beginning one answer after the other, the last for ever."""

    def __init__(self, **answers: list[Any]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    def __call__(self, sql: str, arguments: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        self.asked.append(sql)
        for start, answers in self._answers.items():
            if start in sql:
                return [answers.pop(0) if len(answers) > 1 else answers[0]]
        return []


class Binlog(Told):
    """A MariaDB whose engine has committed up to these places of its second file."""

    def __init__(self, *places: int, **answers: list[Any]) -> None:
        super().__init__(**answers)
        self.places = list(places)

    def __call__(self, sql: str, arguments: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if sql.startswith("SHOW STATUS"):
            pos = self.places.pop(0) if len(self.places) > 1 else self.places[0]
            return [("Binlog_snapshot_file", "bin.000002"), ("Binlog_snapshot_position", str(pos))]
        return super().__call__(sql, arguments)


def begun(told: Told, position: SourcePosition, on: DatabaseAddress, clock: ManualClock, version: str = "9.7") -> None:
    def settling() -> Settling:
        major, minor = map(int, version.split("."))
        return Settling(told, (major, minor, 30), "SHOW MASTER STATUS", clock)

    begin_after(told, position, on, clock, settling)


def test_mysql_is_asked_for_the_gtids_before_the_snapshot_begins() -> None:
    told = Told(WAIT_FOR_EXECUTED_GTID_SET=[(1,), (0,)])
    begun(told, at("mysql", f"{SID}:1-9"), server(), ManualClock())
    assert [sql[:8] for sql in told.asked] == ["SELECT W", "SELECT W", BEGIN[:8]]


@pytest.mark.parametrize(
    ("position", "has", "behind"),
    [
        (at("mysql", f"{SID}:1-9"), (f"{SID}:1-5:8", ""), 3),
        (at("mariadb", "0-1-40,1-1-7"), ("0-1-31,1-1-9", ""), 9),
    ],
)
def test_a_replica_that_stays_behind_is_named_with_its_lag(position: SourcePosition, has: Any, behind: int) -> None:
    clock = ManualClock()

    class Slow(Told):
        def __call__(self, sql: str, arguments: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
            if arguments:
                clock.sleep(arguments[1])
            return super().__call__(sql, arguments)

    told = Slow(WAIT_FOR_EXECUTED_GTID_SET=[(1,)], MASTER_GTID_WAIT=[(-1,)], gtid_executed=[has], gtid_slave=[has])
    with pytest.raises(Transient, match=f"behind_transactions={behind}.*REPLICA STATUS"):
        begun(told, position, server(replica=True), clock)
    assert clock.monotonic_s() == 3
    assert BEGIN not in told.asked


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_a_replica_of_a_source_without_gtids_is_refused_with_advice(flavour: Flavour) -> None:
    for moved in (server(replica=True), server(fallbacks=["i:3306"])):
        with pytest.raises(Terminal, match=r"no GTIDs.*take `read_from`"):
            begun(Told(), at(flavour, ""), moved, ManualClock())


class NoRight(Told):
    """The account may not look into log_status; these are the settings of semi-sync replication."""

    def __init__(self, semi_sync: list[tuple[str, str]], **answers: list[Any]) -> None:
        super().__init__(**answers)
        self.semi_sync = semi_sync

    def __call__(self, sql: str, arguments: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if "log_status" in sql:
            raise Terminal("refused")
        return list(self.semi_sync) if "semi_sync" in sql else super().__call__(sql, arguments)


HELD = [
    ("rpl_semi_sync_source_enabled", "ON"),
    ("rpl_semi_sync_source_timeout", "6000"),
    ("rpl_semi_sync_source_wait_point", "AFTER_SYNC"),
]


def test_a_captured_mysql_without_gtids_is_read_as_it_is_where_nothing_holds_commits_back() -> None:
    after_commit = ("rpl_semi_sync_source_wait_point", "AFTER_COMMIT")
    for each in ([], [*HELD[:2], after_commit], HELD[1:]):
        told, clock = NoRight(each), ManualClock()
        begun(told, at("mysql", ""), server(), clock)
        assert told.asked[-1] == BEGIN
        assert clock.monotonic_s() == 0


def test_a_mysql_without_gtids_says_up_to_where_its_engine_has_committed() -> None:
    told, clock = Told(log_status=[("bin.000002", 499), ("bin.000002", 500)]), ManualClock()
    begun(told, at("mysql", ""), server(), clock)
    assert [sql[:6] for sql in told.asked] == ["SELECT", "SELECT", BEGIN[:6]]
    with pytest.raises(Transient, match="lacks transactions"):
        begun(Told(log_status=[("bin.000002", 499)], gtid_executed=[("", "")]), at("mysql", ""), server(), clock)


@pytest.mark.parametrize(("now_s", "waited_s"), [(100, 8), (102, 7), (108.5, 0.5), (200, 0)])
def test_a_commit_that_semi_sync_may_hold_back_is_waited_for_by_the_servers_clock(
    now_s: float, waited_s: float
) -> None:
    told, clock = NoRight(HELD, SYSDATE=[(now_s,)]), ManualClock()
    begun(told, replace(at("mysql", ""), commit_us=100_000_000), server(), clock)
    assert clock.monotonic_s() == waited_s
    assert told.asked[-1] == BEGIN


def test_a_captured_mariadb_is_asked_again_until_its_engine_has_committed_the_signal() -> None:
    told, clock = Binlog(100, 499, 500), ManualClock()
    begun(told, at("mariadb", "0-1-5"), server(), clock)
    assert told.places == [500]
    # What a snapshot says of itself may be a transaction off: it is asked before.
    assert (told.asked.count(BEGIN), told.asked[-1]) == (1, BEGIN)
    with pytest.raises(Transient, match="lacks transactions"):
        begun(Binlog(499, gtid_slave=[("", "0-1-4")]), at("mariadb", "0-1-5"), server(), clock)


def test_a_mariadb_without_a_binlog_is_no_captured_server() -> None:
    with pytest.raises(Terminal, match="`log_bin` on"):
        begun(Told(), at("mariadb", "0-1-5"), server(), ManualClock())


def test_a_server_that_took_over_shows_what_it_applied_and_what_it_wrote_itself() -> None:
    moved = server(fallbacks=["i:3306"])
    applied = Told(gtid_slave=[("0-1-4", ""), ("0-1-5", "")])
    begun(applied, at("mariadb", "0-1-5"), moved, ManualClock())
    assert applied.asked[-1] == BEGIN
    # Its own end in its own files, whatever the old server's position was.
    wrote = Binlog(60, 70, gtid_slave=[("0-1-4", "0-2-5")], MASTER=[("bin.000002", 70)])
    begun(wrote, at("mariadb", "0-2-5", pos=9_000), moved, ManualClock())
    assert wrote.places == [70]
    with pytest.raises(Transient) as refused:
        begun(Told(gtid_slave=[("0-1-4", "")]), at("mariadb", "0-1-5"), moved, ManualClock())
    assert refused.value.details["behind_transactions"] == 1
