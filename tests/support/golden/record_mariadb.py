"""Records `mariadb-types.binlog` and `mariadb-types.json` from a running MariaDB; see README.md here."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pymysql
from pydantic import SecretStr

from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.record.schema import TableSchema
from include.source.binlog.reader import EventReader, EventType, Packets
from include.source.database.connection import connect, dump, query
from include.source.database.table_info import load_tables
from include.source.definition import SourceDefinition
from include.source.rows.shape import TableShape
from include.source.rows.text import select_list
from tests.support.paths import GOLDEN

DATABASE = "lyregold"
TYPES = """CREATE TABLE types (
  id bigint NOT NULL PRIMARY KEY,
  t1 tinyint, t1u tinyint unsigned, t2 smallint, t2u smallint unsigned, t3 mediumint, t3u mediumint unsigned,
  t4 int, t4u int unsigned, t8 bigint, t8u bigint unsigned,
  f float, d double, y year,
  n1 decimal(1,0), n2 decimal(12,2), n3 decimal(5,5), n4 decimal(65,30), n5 decimal(18,9) unsigned, n6 decimal(10,4),
  day date,
  dt0 datetime, dt1 datetime(1), dt3 datetime(3), dt6 datetime(6),
  ts0 timestamp NULL, ts2 timestamp(2) NULL, ts6 timestamp(6) NULL,
  ti0 time, ti1 time(1), ti3 time(3), ti6 time(6),
  c char(10), cb char(10) CHARACTER SET ascii, cl char(100) CHARACTER SET utf8mb4,
  v varchar(20), vl varchar(300), vw varchar(20) CHARACTER SET latin1, v16 varchar(20) CHARACTER SET utf16,
  tt tinytext, tx text, tm mediumtext, tl longtext, tw text CHARACTER SET latin1,
  b binary(4), b2 binary(255), vb varchar(20) CHARACTER SET binary, vb2 varbinary(300),
  lt tinyblob, lb blob, lm mediumblob, ll longblob,
  e enum('a','b''c','é') CHARACTER SET latin1, s set('x','y','z') CHARACTER SET utf8mb4,
  j json
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"""
COLUMNS = 54
ROWS: list[tuple[Any, ...]] = [
    (1, *[None] * COLUMNS),
    (2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "1970-01-01",
     "1970-01-01 00:00:00", "1970-01-01 00:00:00.1", "1970-01-01 00:00:00.123", "1970-01-01 00:00:00.000001",
     "1970-01-01 00:00:01", "1970-01-01 00:00:01.25", "1970-01-01 00:00:01.000001",
     "00:00:00", "00:00:00.1", "00:00:00.001", "00:00:00.000001",
     "", "", "", "", "", "", "", "", "", "", "", "", b"", b"", b"", b"", b"", b"", b"", b"", "a", "", "{}"),
    (3, -128, 255, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, -(2**63), 2**64 - 1,
     -1.5, -1.7976931348623157e308, 2155, -9, "-9999999999.99", "-0.99999",
     "-" + "9" * 35 + "." + "9" * 30, "999999999.999999999", "-0.0001", "9999-12-31",
     "9999-12-31 23:59:59", "1000-01-01 00:00:00.9", "2024-02-29 12:34:56.789", "9999-12-31 23:59:59.999999",
     "2038-01-19 03:14:07", "2026-03-29 01:30:00.99", "2026-10-25 00:30:00.123456",
     "-838:59:59", "-00:00:00.1", "-12:34:56.789", "-12:34:56.123456",
     "zehn Zeich", "ascii", "ü" * 100, "naïve", "x" * 300, "é€\x81", "z𝄞", "t", "x" * 300, "m" * 300, "l" * 300, "œ",
     b"ab\0", b"\0" * 3, b"\0\xff", b"\xff" * 300, b"\0", b"\x01" * 300, b"\x02", b"\x03", "b'c", "x,z",
     '{"a": [1, "ü"]}'),
    (4, 127, 128, 32767, 32768, 8388607, 8388608, 2147483647, 2147483648, 2**63 - 1, 2**63,
     16777216.0, 0.1, 1901, 9, "9999999999.99", "0.00001",
     "9" * 35 + "." + "9" * 30, "0.000000001", "123456.7890", "1000-01-01",
     "2000-02-29 00:00:01", "2026-11-21 23:59:59.5", "2026-11-21 00:00:00.001", "2026-11-21 08:00:00.5",
     "2001-09-09 01:46:40", "2026-11-21 08:00:00.01", "2038-01-19 03:14:07.999999",
     "838:59:59", "24:00:00.9", "-00:00:00.001", "-00:00:00.000001",
     "trailing  ", "x", "日本語", "ok", "日" * 100, "ÿ", "日本", "ü", "ü", "ü", "ü", "ÿ",
     b"abcd", b"\xff" * 255, b"abc", b"", b"\xff", b"\xfe", b"\xfd", b"\xfc", "é", "x,y,z", "[1, 2.5, null]"),
]  # fmt: skip


def main(folder: Path) -> None:
    root = pymysql.connect(
        host=os.environ["LYREBIRD_MYSQL_HOST"],
        port=int(os.environ["LYREBIRD_MYSQL_PORT"]),
        user="root",
        password=os.environ["LYREBIRD_MYSQL_ROOT_PASSWORD"],
        autocommit=True,
        init_command="SET time_zone = '+00:00'",
    )
    source = SourceDefinition(
        host=root.host,
        port=root.port,
        user="root",
        password=SecretStr(os.environ["LYREBIRD_MYSQL_ROOT_PASSWORD"]),
        databases=[DATABASE],
    )
    with root, root.cursor() as cursor:
        cursor.execute("SELECT @@gtid_binlog_pos, VERSION()")
        start, version = cursor.fetchall()[0]
        statements = _write(cursor)
        connection = connect(source)
        tables = load_tables(lambda sql, *values: query(connection, source, sql, *values), [DATABASE], source.captures)
        collations = dict(query(connection, source, "SELECT id, character_set_name FROM information_schema.collations"))
        info = tables[DATABASE, "types"]
        shape = TableShape(tuple(info.columns), TableSchema(DATABASE, "types", tuple(info.columns), info.key))
        connection.decoders = {}
        connection.use_unicode = False
        rows = query(connection, source, f"SELECT {select_list(shape)} FROM {DATABASE}.types ORDER BY id")
        connection.close()
    events = _events(source, start)
    (folder / "mariadb-types.binlog").write_bytes(b"".join(events))
    with pymysql.connect(
        host=root.host, port=root.port, user="root", password=os.environ["LYREBIRD_MYSQL_ROOT_PASSWORD"]
    ) as last:
        last.cursor().execute(f"DROP DATABASE {DATABASE}")
    used = {cell for info in tables.values() for cell in (c.charset for c in info.columns)}
    value = {
        "server": version,
        "statements": statements,
        "collations": {str(k): v for k, v in collations.items() if v in used},
        "tables": {
            ".".join(name): {
                "columns": [
                    [c.name, c.type, c.unsigned, c.precision, c.scale, c.charset, list(c.labels)] for c in info.columns
                ],
                "key": list(info.key),
            }
            for name, info in tables.items()
        },
        "select": [[None if cell is None else cell.hex() for cell in row] for row in rows],
    }
    (folder / "mariadb-types.json").write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(events)} events, {len(rows)} rows")


def _write(cursor: Any) -> list[str]:
    said: list[str] = []

    def run(sql: str, *values: Any) -> None:
        cursor.execute(sql, values or None)
        said.append(sql if len(sql) < 300 else sql[:60] + "…")

    run(f"DROP DATABASE IF EXISTS {DATABASE}")
    run(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    run(f"USE {DATABASE}")
    run(TYPES)
    for row in ROWS:
        run("INSERT INTO types VALUES (" + ", ".join(["%s"] * (COLUMNS + 1)) + ")", *row)
    run("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
    run("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    for sql in (
        "BEGIN",
        "UPDATE t SET v = 'uno' WHERE id = 1",
        "SAVEPOINT here",
        "DELETE FROM t WHERE id = 2",
        "ROLLBACK TO here",
        "UPDATE t SET id = 30 WHERE id = 3",
        "DELETE FROM t WHERE id = 2",
        "COMMIT",
        "CREATE TABLE made AS SELECT id, v FROM t",
        "TRUNCATE TABLE t",
        "RENAME TABLE t TO moved",
        "DROP TABLE moved, made",
    ):
        run(sql)
    return said


def _events(source: SourceDefinition, start: str) -> list[bytes]:
    """The rotate and format events, then the groups of our own database, as they came."""
    at = SourcePosition("mariadb", MariadbGtidSet.parse(start), BinlogPosition("", 4), 0)
    connection = dump(source, 1999, at)
    packets, reader = Packets(connection, source), EventReader()
    out: list[bytes] = []
    group: list[bytes] = []
    while True:
        data = packets.next(5.0)
        if data is None:
            continue
        event = reader.parse(data)
        if event.type is EventType.HEARTBEAT:
            connection.close()
            return out + (group if DATABASE.encode() in b"".join(group) else [])
        if event.type in (EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
            out.append(data)
        elif event.type is EventType.GTID:
            out += group if DATABASE.encode() in b"".join(group) else []
            group = [data]
        elif group:
            group.append(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN)
