"""A server that carries out writes of captured tables and does not log them is found out."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from include.errors import Terminal
from include.source.database.server import AskServer, Server
from include.source.database.unlogged_writes import gaps
from include.source.definition import SourceDefinition

SOURCE = SourceDefinition(host="h", port=1, user="u", password=SecretStr("p"), databases=["shop", "stock"])
MARIADB = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True)
MYSQL = Server("mysql", (9, 7, 0), "9.7.0", gtids=True)
OLD_MYSQL = Server("mysql", (5, 6, 21), "5.6.21-log", gtids=False)
QUESTIONS = {MARIADB: "SHOW ALL SLAVES STATUS", MYSQL: "SHOW REPLICA STATUS", OLD_MYSQL: "SHOW SLAVE STATUS"}


def asked(
    do: str = "", ignore: str = "", slave_pos: str = "", replication: dict[str, int | None] | None = None, **values: str
) -> AskServer:
    """`replication`: rows of the answer to a question about replicas; None: refused."""

    def ask(sql: str, *names: str) -> list[tuple[Any, ...]]:
        if names:
            name = names[0].replace("\\_", "_")
            return [(name, values[name])] if name in values else []
        if sql in ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"):
            return [("bin.000001", 4, do, ignore)]
        if "gtid_slave_pos" in sql:
            return [(slave_pos,)]
        rows = (replication or {})[sql]
        if rows is None:
            raise Terminal("the account lacks a privilege", fix="GRANT it.")
        return [("",)] * rows

    return ask


def found(ask: AskServer, server: Server = MARIADB) -> list[tuple[str, str]]:
    return [(each.level, each.place) for each in gaps(ask, server, SOURCE)]


def test_a_server_that_logs_all_has_no_gaps() -> None:
    assert found(asked(log_slave_updates="ON")) == []
    assert found(asked(log_replica_updates="ON"), MYSQL) == []


@pytest.mark.parametrize("server", QUESTIONS)
def test_a_captured_database_that_is_not_logged_is_refused_by_name(server: Server) -> None:
    assert found(asked(do="shop,other"), server) == [("refuse", "database stock")]
    assert found(asked(ignore="stock,shop"), server) == [("refuse", "database shop"), ("refuse", "database stock")]
    assert found(asked(do="shop", ignore="shop"), server) == [("refuse", "database stock")]


def test_a_filter_that_lets_all_captured_databases_pass_is_warned_of() -> None:
    (other,) = gaps(asked(ignore="other"), MARIADB, SOURCE)
    assert (other.level, other.place) == ("warn", "binlog_ignore_db")
    assert "TRUNCATE" in other.problem
    assert found(asked(do="shop,stock")) == [("warn", "binlog_do_db")]


def test_a_server_that_does_not_say_where_its_binlog_ends_says_nothing_of_filters() -> None:
    def refused(_sql: str, *names: str) -> list[tuple[Any, ...]]:
        if names:
            return []
        raise Terminal("the account lacks a privilege", fix="GRANT it.")

    assert found(refused) == []
    assert found(lambda *_: []) == []


@pytest.mark.parametrize("server", QUESTIONS)
def test_a_replica_that_does_not_log_what_comes_from_its_primary_is_refused(server: Server) -> None:
    question = QUESTIONS[server]
    assert found(asked(replication={question: 1}, log_slave_updates="OFF"), server) == [("refuse", "log_slave_updates")]
    assert found(asked(replication={question: 0}, log_slave_updates="OFF", slave_pos="0-1-9"), server) == []


def test_newer_servers_call_it_another_name() -> None:
    assert found(asked(replication={QUESTIONS[MYSQL]: 1}, log_replica_updates="OFF"), MYSQL) == [
        ("refuse", "log_replica_updates")
    ]


def test_an_account_that_may_not_ask_is_told_by_the_gtids_of_a_primary() -> None:
    closed: dict[str, int | None] = {QUESTIONS[MARIADB]: None}
    (told,) = gaps(asked(replication=closed, log_slave_updates="OFF", slave_pos="0-1-9"), MARIADB, SOURCE)
    assert told.level == "refuse"
    assert "GRANT SLAVE MONITOR" in told.fix


def test_an_account_that_cannot_find_out_is_warned_of() -> None:
    assert found(asked(replication={QUESTIONS[MARIADB]: None}, log_slave_updates="OFF")) == [
        ("warn", "log_slave_updates")
    ]
    assert found(asked(replication={QUESTIONS[MYSQL]: None}, log_slave_updates="OFF"), MYSQL) == [
        ("warn", "log_slave_updates")
    ]


def test_a_node_of_a_cluster_that_does_not_log_the_others_writes_is_refused() -> None:
    nobody: dict[str, int | None] = {QUESTIONS[MARIADB]: 0}
    (node,) = gaps(asked(replication=nobody, log_slave_updates="OFF", wsrep_on="ON"), MARIADB, SOURCE)
    assert (node.level, node.place) == ("refuse", "log_slave_updates")
    assert "cluster" in node.problem
