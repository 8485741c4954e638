"""What `check` finds out with an account that has no more than it needs: databases that are not logged, replicas."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from pydantic import SecretStr

from include.source.database.preflight import ServerFinding, first_look
from include.source.definition import SourceDefinition
from tests.support.servers import Server
from tests.support.servers.fixture import Give, server

__all__ = ["server"]

PASSWORD = secrets.token_urlsafe(12)
ACCOUNT = "checker@'127.0.0.1'"
BINLOG = {"mariadb-11.4": "REPLICATION SLAVE, BINLOG MONITOR"}
MYSQL = "REPLICATION SLAVE, REPLICATION CLIENT"
REPLICA = {"log_slave_updates", "log_replica_updates"}
SERVERS = ("mariadb-11.4", "mysql-5.6", "mysql-9.7")


@pytest.fixture(params=SERVERS)
def given(request: pytest.FixtureRequest, server: Give) -> Server:
    """A server that leaves one database out of its binlog; the account may read another, and part of a third."""
    given: Server = server(request.param, "--binlog-ignore-db=left_out", "--skip-log-slave-updates")
    if not run(given, "SHOW DATABASES LIKE 'left_out'"):
        prepare(given)
    return given


def prepare(given: Server) -> None:
    for database in ("left_out", "my_shop", "myXshop", "part"):
        run(given, f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t (id int PRIMARY KEY)")
    run(
        given,
        f"CREATE USER {ACCOUNT} IDENTIFIED BY '{PASSWORD}'",
        f"GRANT {BINLOG.get(given.name, MYSQL)} ON *.* TO {ACCOUNT}",
        f"GRANT SELECT ON `my\\_shop`.* TO {ACCOUNT}",
        f"GRANT SELECT ON left_out.* TO {ACCOUNT}",
        f"GRANT SELECT ON part.t TO {ACCOUNT}",
        f"GRANT INSERT ON myXshop.* TO {ACCOUNT}",
    )


def run(given: Server, *statements: str) -> list[tuple[Any, ...]]:
    with given.connect() as connection, connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)
        return list(cursor.fetchall())


def found(given: Server, *databases: str) -> list[ServerFinding]:
    """What refuses capture, and warnings of the first look that rest on what the account may see."""
    source = SourceDefinition(
        host=given.host, port=given.port, user="checker", password=SecretStr(PASSWORD), databases=list(databases)
    )
    quiet = ("account", "binlog_row_metadata", "gtid_mode")
    return [each for each in first_look(source) if each.level == "refuse" or each.place not in quiet]


def test_what_is_not_logged_and_what_may_not_be_read_is_found_out(given: Server) -> None:
    said = {(each.level, each.place, each.problem.partition(":")[0]) for each in found(given, "left_out", "part")}
    assert ("refuse", "database left_out", "is not logged, by binlog_ignore_db") in said
    assert ("warn", "database part", "may be read by the account only in part") in said
    logged = found(given, "my_shop")
    assert {each.place for each in logged if each.level == "refuse"} <= REPLICA
    assert "binlog_ignore_db" in {each.place for each in logged}
    assert "lacks SELECT on database myXshop" in {each.problem for each in found(given, "myXshop")}


def test_a_replica_that_logs_no_updates_of_its_primary_is_found_out(given: Server) -> None:
    before = [each.level for each in found(given, "my_shop") if each.place in REPLICA]
    # MariaDB lets the account see its primaries by SLAVE MONITOR alone.
    assert before == (["warn"] if given.flavour == "mariadb" else [])
    if given.flavour == "mariadb":
        run(given, f"GRANT SLAVE MONITOR ON *.* TO {ACCOUNT}")
        assert not {each.place for each in found(given, "my_shop")} & REPLICA
    word, to = ("SOURCE", "REPLICATION SOURCE") if given.version.startswith("9") else ("MASTER", "MASTER")
    run(given, f"CHANGE {to} TO {word}_HOST='127.0.0.1', {word}_PORT=1, {word}_USER='nobody'")
    assert [each.level for each in found(given, "my_shop") if each.place in REPLICA] == ["refuse"]
