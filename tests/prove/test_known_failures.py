"""Statements that stopped other capture tools, run on real servers: as they log them, and the rows around them."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from pathlib import Path

import pymysql
import pytest
from pydantic import SecretStr

from include.source.binlog.files import read_events
from include.source.binlog.reader import EventReader
from include.source.binlog.step import RowsEvent, SourceTransaction
from include.source.binlog.text.ddl import TableEffect, effects
from include.source.database.connection import connect, query
from include.source.definition import SourceDefinition
from tests.support.binlog.builder import builder
from tests.support.servers.fixture import Give, server
from tests.support.servers.running import Server

__all__ = ["server"]

BOTH = (
    "ALTER TABLE t ADD c set('ALL','CREDIT_CARD','PIX') DEFAULT NULL",
    "ALTER TABLE t CHANGE c sum int DEFAULT NULL",
    "ALTER TABLE t MODIFY sum VARCHAR(52) UNICODE",
    "ALTER TABLE t ADD `rename to x` int COMMENT 'drop partition p'",
    "ALTER TABLE t DROP sum CASCADE",
    "ALTER TABLE t ADD (a BIGINT NULL, tags VARCHAR (40) NULL)",
    "alter table t add index (a ASC), comment = '/* it''s', drop column tags, ALGORITHM=COPY, LOCK=SHARED",
    "ALTER TABLE t ALGORITHM=COPY, STATS_SAMPLE_PAGES=DEFAULT",
    "ALTER TABLE t AUTO_INCREMENT = 3841",
    "ALTER TABLE t DROP INDEX a, DEFAULT CHARACTER SET utf8mb4",
    "CREATE TABLE \n\t `like` like t",
    "create table /*! if not exists */ u (e TIMESTAMP default CURRENT_TIMESTAMP(), n int default -1, CHECK (n < 5))",
    "CREATE TABLE v SELECT id FROM t LIMIT 2",
    "CREATE TABLE 1foobar (i int, d date DEFAULT (curdate()))",
    "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (5))",
    "ALTER TABLE p ADD PARTITION (PARTITION b VALUES LESS THAN (9))",
    "CREATE TABLE q (id int PRIMARY KEY)",
    "ALTER TABLE p EXCHANGE PARTITION a WITH TABLE q",
    "ALTER TABLE p TRUNCATE PARTITION b",
    "RENAME TABLE u TO w, v TO u",
    "-- nightly\nTRUNCATE TABLE/* all */`w`",
    "CREATE OR REPLACE VIEW x AS (SELECT 1) UNION DISTINCT (SELECT 2) ORDER BY 1 LIMIT 3",
    "CREATE TRIGGER IF NOT EXISTS g BEFORE INSERT ON u FOR EACH ROW DELETE FROM w",
    "CREATE PROCEDURE z() BEGIN TRUNCATE t; DROP TABLE t; END",
    "/*!50003 DROP PROCEDURE IF EXISTS `z` */",
    "CREATE USER stranger IDENTIFIED BY 'drop table t'",
    "ALTER DATABASE shop /*!40100 DEFAULT CHARACTER SET utf8mb4 */",
    "ANALYZE TABLE t",
    "# gone\nDROP TABLE IF EXISTS w, nowhere",
)
MARIADB = (
    (
        "ALTER TABLE t ADD PERIOD FOR SYSTEM_TIME(ts, te), ADD ts timestamp(6) GENERATED ALWAYS AS ROW START, "
        "ADD te timestamp(6) GENERATED ALWAYS AS ROW END, ADD SYSTEM VERSIONING"
    ),
    "ALTER TABLE .t ADD x int",
    "ALTER TABLE t DROP t.x",
    "ALTER TABLE t DROP SYSTEM VERSIONING, DROP PERIOD FOR SYSTEM_TIME, DROP ts, DROP te",
    "ALTER TABLE t DROP COLUMN IF EXISTS snoozed_until, DROP INDEX IF EXISTS vin",
    "RENAME TABLE IF EXISTS q WAIT 5 TO r",
    "CREATE OR REPLACE TABLE r SELECT 1 AS one",
    "CREATE SEQUENCE s START WITH 1 INCREMENT BY 1 MINVALUE 0 MAXVALUE 9999 CYCLE",
    "ALTER TABLE p CONVERT PARTITION a TO TABLE o",
)
MYSQL = (
    "ALTER TABLE t ADD i int INVISIBLE, ALGORITHM=INSTANT",
    "ALTER TABLE t ALTER COLUMN i SET VISIBLE",
    "ALTER TABLE t ADD m bigint DEFAULT _utf8mb4'0' NOT SECONDARY",
    "ANALYZE TABLE t UPDATE HISTOGRAM ON id WITH 254 BUCKETS",
    "ALTER USER stranger IDENTIFIED BY 'x' RETAIN CURRENT PASSWORD",
)


@pytest.mark.parametrize(("name", "more"), [("mariadb-11.4", MARIADB), ("mysql-9.7", MYSQL), ("mariadb-10.2", ())])
def test_rows_around_every_statement_are_read_as_servers_log_them(
    server: Give, name: str, more: tuple[str, ...]
) -> None:
    """dbz, maxwell, canal: a statement that their parsers do not know ends the stream, or the table."""
    database = server(name)
    statements = [*BOTH, *more]
    with database.connect() as connection, connection.cursor() as cursor:
        if name == "mariadb-11.4":
            cursor.execute("SET system_versioning_alter_history = KEEP")
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("USE shop")
        cursor.execute("CREATE TABLE t (id int PRIMARY KEY)")
        cursor.execute("FLUSH BINARY LOGS")
        refused = []
        for number, statement in enumerate(statements):
            cursor.execute(f"INSERT INTO t (id) VALUES ({number})")
            try:
                cursor.execute(statement)
            except pymysql.err.MySQLError as refusal:
                refused.append((statement, str(refusal)))
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        files = [row[0] for row in cursor.fetchall()]
    assert name == "mariadb-10.2" or refused == []
    found, made = told(database.data, files[-2])
    assert found == list(range(len(statements)))
    for effect in (TableEffect("rename", "shop", "u", ("shop", "w")), TableEffect("reread", "shop", "q")):
        assert effect in made
    assert [each for each in made if each.kind == "truncate"] == [TableEffect("truncate", "shop", "w")]
    assert TableEffect("drop", "shop", "t") not in made


def told(folder: Path, file: str) -> tuple[list[int], list[TableEffect]]:
    """Ids of the rows of `t`, and the effects of all statements."""
    reader, made = EventReader(file), builder()
    ids: list[int] = []
    effects_: list[TableEffect] = []
    for data in read_events(folder / file):
        found = made.on_event(reader.parse(data))
        for step in found.steps if isinstance(found, SourceTransaction) else ():
            if not isinstance(step, RowsEvent):
                effects_ += effects(step.text, step.database)
            elif step.table.table == "t":
                width = (len(step.table.types) + 7) // 8
                ids.append(struct.unpack_from("<i", step.body, 1 + 2 * width)[0])
    return ids, effects_


@pytest.mark.parametrize("name", ["mariadb-10.1", "mariadb-11.4", "mysql-5.6", "mysql-9.7"])
def test_no_setting_of_the_server_cuts_pads_or_ends_what_is_selected(server: Give, name: str) -> None:
    """DBZ-9337, dbz#2105: a snapshot that lacks rows, or is begun for ever, by what a server sets for all."""
    database = server(name)
    changed = {"sql_select_limit": "2", "sql_mode": "'ANSI'" if name == "mysql-9.7" else "'PAD_CHAR_TO_FULL_LENGTH'"}
    if name != "mysql-5.6":
        changed |= {"max_execution_time": "1"} if name == "mysql-9.7" else {"max_statement_time": "0.001"}
    with ExitStack() as stack:
        cursor = stack.enter_context(stack.enter_context(database.connect()).cursor())
        cursor.execute("CREATE DATABASE settings")
        cursor.execute("CREATE TABLE settings.t (c char(4))")
        cursor.execute("INSERT INTO settings.t VALUES ('a'), ('b'), ('c')")
        for variable, value in changed.items():
            # Other tests have the same server.
            stack.callback(cursor.execute, f"SET GLOBAL {variable} = DEFAULT")
            cursor.execute(f"SET GLOBAL {variable} = {value}")
        _selects_all(database)


def _selects_all(database: Server) -> None:
    source = SourceDefinition(
        host=database.host,
        port=database.port,
        user="root",
        password=SecretStr(database.root_password),
        databases=["settings"],
    )
    with connect(source) as ours:
        assert query(ours, source, "SELECT c FROM settings.t ORDER BY c") == [("a",), ("b",), ("c",)]
        settings = dict(query(ours, source, "SHOW SESSION VARIABLES LIKE 'max%ment_time'"))
        settings |= dict(query(ours, source, "SHOW SESSION VARIABLES LIKE 'max_execution_time'"))
    assert {float(value) for value in settings.values()} <= {0.0}
