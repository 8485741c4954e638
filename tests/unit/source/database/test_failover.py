"""Which server of a source is read: the first that answers and has all that capture has."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from include.errors import LyrebirdError, Terminal, Transient
from include.record.gtid import MysqlGtidSet, parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.source.database import failover
from include.source.database.failover import chosen, places, there
from include.source.database.server import AskServer, MissingTransactions, Reset, Server
from include.source.definition import SourceDefinition
from tests.support.binlog.builder import SID

SOURCE = SourceDefinition(
    host="a", port=1, user="u", password=SecretStr("p"), databases=["shop"], fallbacks=["b:2", "[::1]:3"], group_ms=7
)
MARIADB = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB", gtids=True)
AT = SourcePosition("mariadb", parse_gtid_set("0-1-10,1-1-5", "mariadb"), BinlogPosition("bin.000003", 500), 0)


def world(monkeypatch: pytest.MonkeyPatch, **has: str | LyrebirdError) -> None:
    """Servers by host: what their binlogs have, or why they do not answer."""

    def asked(source: SourceDefinition, question: Any) -> Any:
        found = has[source.host]
        if isinstance(found, LyrebirdError):
            raise found
        answers = {
            "SELECT VERSION()": "11.4.5-MariaDB",
            "SELECT @@lower_case_table_names": "0",
            "SELECT @@global.server_id": "77",
        }
        return question(lambda sql, *_: [(answers.get(sql, found),)])

    monkeypatch.setattr(failover, "asked", asked)


def away() -> Transient:
    return Transient("the server does not answer", system="mysql")


def test_a_source_is_the_same_at_each_of_its_places() -> None:
    assert [place.place for place in places(SOURCE)] == ["a:1", "b:2", "::1:3"]
    assert {place.group_ms for place in places(SOURCE)} == {7}
    assert all(place.captures("shop", "t") for place in places(SOURCE))


def test_the_first_that_answers_and_is_not_behind_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world(monkeypatch, a="0-1-10,1-1-5", b="0-1-99,1-1-99")
    assert chosen(SOURCE, AT).host == "a"
    world(monkeypatch, a=away(), b="0-2-11,1-1-5")
    assert chosen(SOURCE, AT).host == "b"
    world(monkeypatch, a=away(), b="0-1-9,1-1-5", **{"::1": "0-1-10,1-1-5"})
    assert chosen(SOURCE, AT).host == "::1"
    world(monkeypatch, a=away(), b="")
    assert chosen(SOURCE, None).host == "b"


def test_while_none_can_go_on_they_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world(monkeypatch, a=away(), b="0-1-9,1-1-5", **{"::1": away()})
    with pytest.raises(Transient, match="no server of the source") as refusal:
        chosen(SOURCE, AT)
    assert not isinstance(refusal.value, MissingTransactions)
    world(monkeypatch, a="0-1-9", b="0-1-8", **{"::1": "1-1-4"})
    with pytest.raises(MissingTransactions) as refused:
        chosen(SOURCE, AT)
    assert refused.value.details["has"] == "0-1-9"


def test_what_can_never_stand_in_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world(monkeypatch, a=away(), b="0-1-10,1-1-5")
    mysql = SourcePosition("mysql", MysqlGtidSet.parse(f"{SID}:1-4"), AT.binlog, 0)
    with pytest.raises(Terminal, match=r"another family.*Correct `fallbacks`"):
        chosen(SOURCE, mysql)
    world(monkeypatch, a=Terminal("the server refuses the account"))
    with pytest.raises(Terminal, match="account"):
        chosen(SOURCE, AT)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("bin.000003:600", "bin.000003:500"),
        ("bin.000004:4", "bin.000003:500"),
        ("bin.000003:400", "bin.000003:4"),
        ("bin.000002:900", "bin.000002:4"),
        ("other.000009:900", "other.000009:4"),
    ],
)
def test_a_place_in_files_of_another_server_is_given_up(end: str, expected: str) -> None:
    at = BinlogPosition.parse(end)
    found = there(lambda _sql: [(at.file, at.pos)], MARIADB, AT)
    assert str(found.binlog) == expected
    assert found.gtids == AT.gtids


def test_a_known_transaction_adds_nothing_to_a_set() -> None:
    known = MysqlGtidSet.parse(f"{SID}:1-4")
    assert known.add(f"{SID}:3") is known
    assert str(known.add(f"{SID}:5")) == f"{SID}:1-5"


OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MYSQL = Server("mysql", (9, 7, 0), "9.7.0", gtids=True)


def answers(**more: Any) -> AskServer:
    told = {
        "SELECT @@global.server_uuid": [(str(SID).upper(),)],
        "SELECT @@global.server_id": [(1,)],
        "SHOW REPLICA STATUS": [],
        "SHOW GLOBAL STATUS LIKE 'Slaves\\_running'": [("Slaves_running", "0")],
        **more,
    }

    def ask(sql: str, *_: Any) -> list[tuple[Any, ...]]:
        found = told[sql]
        if isinstance(found, LyrebirdError):
            raise found
        return list(found)

    return ask


def test_a_server_that_lost_transactions_of_its_own_and_follows_nobody_is_not_waited_for() -> None:
    captured = MysqlGtidSet.parse(f"{SID}:1-400,{OTHER}:1-9")
    has = {"SELECT @@global.gtid_executed": [(f"{SID}:1-3,{OTHER}:1-9",)]}
    with pytest.raises(Reset, match=r"its binlog was reset.*--anew"):
        MYSQL.require(answers(**has), captured, "db:1")
    followed = {"SHOW REPLICA STATUS": [("Waiting for source",)]}
    refused = {"SHOW REPLICA STATUS": Terminal("the account lacks a privilege")}
    for more in (followed, refused):
        with pytest.raises(MissingTransactions):
            MYSQL.require(answers(**has, **more), captured, "db:1")
    # Those of another server come when that one is followed again.
    with pytest.raises(MissingTransactions):
        MYSQL.require(answers(**{"SELECT @@global.gtid_executed": [(f"{SID}:1-400,{OTHER}:1-8",)]}), captured, "db:1")
    MYSQL.require(answers(**{"SELECT @@global.gtid_executed": [(f"{SID}:1-401,{OTHER}:1-9",)]}), captured, "db:1")


def test_a_mariadb_that_begins_anew_to_number_its_own_is_not_waited_for() -> None:
    captured = parse_gtid_set("0-1-500,1-2-5", "mariadb")
    has = {"SELECT @@global.gtid_binlog_pos": [("0-1-3,1-2-5",)]}
    with pytest.raises(Reset):
        MARIADB.require(answers(**has), captured, "db:1")
    with pytest.raises(MissingTransactions):
        MARIADB.require(
            answers(**has, **{"SHOW GLOBAL STATUS LIKE 'Slaves\\_running'": [("Slaves_running", "1")]}),
            captured,
            "db:1",
        )
    with pytest.raises(MissingTransactions):
        MARIADB.require(answers(**{"SELECT @@global.gtid_binlog_pos": [("0-1-500,1-2-4",)]}), captured, "db:1")


def test_a_server_that_was_reset_gives_way_to_a_fallback_that_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Reset("the server has lost transactions")
    world(monkeypatch, a=lost, b="0-1-10,1-1-5")
    assert chosen(SOURCE, AT).host == "b"
    world(monkeypatch, a=lost, b=away(), **{"::1": lost})
    with pytest.raises(Transient):
        chosen(SOURCE, AT)
    world(monkeypatch, a=lost, b=lost, **{"::1": lost})
    with pytest.raises(Reset):
        chosen(SOURCE, AT)
