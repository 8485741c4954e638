"""A MySQL without GTIDs logs a transaction before its engine shows it: with semi-sync until a replica has it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from pydantic import SecretStr

from include.document.database import DatabaseAddress
from include.document.reading.mysql import MysqlTables
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from tests.support.servers.fixture import Give, server

__all__ = ["server"]

HELD_BACK_MS = 3_000
OPTIONS = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
PLUGIN = "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'"


@pytest.mark.parametrize("grant", ["BACKUP_ADMIN", ""])
def test_a_snapshot_waits_for_a_commit_that_stands_in_the_binlog_only(server: Give, unique: str, grant: str) -> None:
    at = server("mysql-9.7", *OPTIONS)
    with at.connect() as connection, connection.cursor() as cursor:

        def ask(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        if not ask("SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync_source_enabled'"):
            ask(PLUGIN)
        ask(f"CREATE DATABASE {unique}")
        ask(f"CREATE TABLE {unique}.orders (id int PRIMARY KEY, n int NOT NULL) ENGINE=InnoDB")
        ask(f"INSERT INTO {unique}.orders VALUES (1, 0)")
        ask(f"CREATE USER {unique}@'%' IDENTIFIED BY 'Secret-1'")
        ask(f"GRANT SELECT ON {unique}.* TO {unique}@'%'")
        if grant:
            ask(f"GRANT {grant} ON *.* TO {unique}@'%'")
            ask(f"GRANT SELECT ON performance_schema.log_status TO {unique}@'%'")
        ask(f"SET GLOBAL rpl_semi_sync_source_timeout = {HELD_BACK_MS}")
        ask("SET GLOBAL rpl_semi_sync_source_enabled = ON")
        account = DatabaseAddress(host=at.host, port=at.port, user=unique, password=SecretStr("Secret-1"))
        tables = MysqlTables(account, unique)
        try:
            ((file, before, *_),) = ask("SHOW BINARY LOG STATUS")
            writer = threading.Thread(target=_update, args=(at.connect, f"UPDATE {unique}.orders SET n = 1"))
            writer.start()
            end = before
            while end == before:
                time.sleep(0.01)
                ((_, end, *_),) = ask("SHOW BINARY LOG STATUS")
            committed_us = int(time.time() * 1e6)
            # It is in the binlog, and nobody sees it.
            assert ask(f"SELECT n FROM {unique}.orders") == [(0,)]
            nothing = parse_gtid_set("", "mysql")
            position = SourcePosition("mysql", nothing, BinlogPosition(file, int(end)), committed_us)
            with tables.snapshot(position) as now:
                assert now.rows("orders", ["n"], ["id"], [(1,)]) == [{"n": 1}]
            writer.join()
        finally:
            tables.close()
            ask("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
            ask(f"DROP DATABASE {unique}")
            ask(f"DROP USER {unique}@'%'")


def _update(connect: Any, sql: str) -> None:
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        connection.commit()
