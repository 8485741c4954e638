"""How much of a row is logged (binlog_row_image), how much of a table (binlog_row_metadata), and by which keys."""

from __future__ import annotations

from tests.support.golden.case import Case, Step, both, mariadb
from tests.support.servers.catalogue import Known

__all__ = ["CASES"]

_COLUMNS = """a tinyint unsigned, b int, c varchar(20), d varchar(300) CHARACTER SET latin1, e decimal(10,2),
    f datetime(3), g enum('x','é') CHARACTER SET latin1, h set('p','q'), i blob, j text, k bit(10), l binary(4)"""
_ROW = "200, -5, 'ü', 'é', 1.50, '2026-11-21 01:02:03.004', 'é', 'p,q', x'00FF', 'text', 513, 'ab'"


def _tables() -> tuple[Step, ...]:
    return (
        f"CREATE TABLE keyed (id int PRIMARY KEY, {_COLUMNS})",
        f"CREATE TABLE uniq (id int NOT NULL UNIQUE, {_COLUMNS})",
        f"CREATE TABLE bare (id int, {_COLUMNS})",
        f"CREATE TABLE pair (x varchar(5), {_COLUMNS}, y int, PRIMARY KEY (y, x))",
    )


_WRITES: tuple[Step, ...] = (
    f"INSERT INTO keyed VALUES (1, {_ROW}), (2, {_ROW})",
    f"INSERT INTO uniq VALUES (1, {_ROW})",
    f"INSERT INTO bare VALUES (1, {_ROW}), (1, {_ROW})",
    f"INSERT INTO pair VALUES ('k', {_ROW}, 9)",
    "INSERT INTO keyed (id, b) VALUES (3, 7)",
    "UPDATE keyed SET b = 6 WHERE id = 1",
    "UPDATE keyed SET c = NULL, j = 'longer text' WHERE id = 1",
    "UPDATE keyed SET id = 20 WHERE id = 2",
    "UPDATE keyed SET i = 'blob', b = b",
    "UPDATE uniq SET e = 2.5, k = 1",
    "UPDATE bare SET f = NULL",
    "UPDATE pair SET g = 'x', x = 'l'",
    "REPLACE INTO keyed (id, a) VALUES (1, 5)",
    "DELETE FROM keyed WHERE id = 20",
    "DELETE FROM uniq",
    "DELETE FROM bare LIMIT 1",
    "DELETE FROM pair",
)


def _image(mode: str) -> tuple[Step, ...]:
    return (f"SET binlog_row_image = {mode}", *_tables(), *_WRITES)


def _mixed(row: Known) -> tuple[Step, ...]:
    steps: list[Step] = ["CREATE TABLE t (id int PRIMARY KEY, a int, b blob, c varchar(10))"]
    modes = ["FULL", "MINIMAL", "NOBLOB"] + (["FULL_NODUP"] if row.flavour == "mariadb" and row.at_least(11, 4) else [])
    for number, mode in enumerate(modes):
        steps += [
            f"SET binlog_row_image = {mode}",
            f"INSERT INTO t VALUES ({number}, {number}, 'blob', '{mode}')",
            "UPDATE t SET a = a + 10",
            f"UPDATE t SET b = CONCAT(b, '{number}') WHERE id = {number}",
        ]
    return (*steps, "DELETE FROM t")


_HASHED: tuple[Step, ...] = (
    """CREATE TABLE t (id int PRIMARY KEY, v text, b blob, n bigint unsigned, UNIQUE (v), UNIQUE (b, n))""",
    """INSERT INTO t VALUES (1, 'one', x'00FF', 7), (2, NULL, NULL, NULL),
    (3, 'three', REPEAT('b', 300), 18446744073709551615)""",
    "UPDATE t SET v = 'two', n = 9 WHERE id = 2",
    "DELETE FROM t WHERE id = 1",
    "CREATE TABLE old (id int PRIMARY KEY, v longtext, UNIQUE (v)) WITH SYSTEM VERSIONING",
    "INSERT INTO old VALUES (1, 'one'), (2, 'two')",
    "UPDATE old SET v = 'changed' WHERE id = 1",
    "DELETE FROM old WHERE id = 2",
    "ALTER TABLE t DROP INDEX v",
    "INSERT INTO t VALUES (4, 'three', x'01', 1)",
)


def _metadata(mode: str) -> Case:
    return Case(
        f"metadata-{mode.lower().replace('_', '-')}",
        mariadb(10, 11) if mode == "NO_LOG" else both((10, 11), (8,)),
        (*_tables(), *_WRITES),
        setup=(f"SET GLOBAL binlog_row_metadata = {mode}",),
        restore=("SET GLOBAL binlog_row_metadata = FULL",),
    )


CASES = [
    Case("image-full", both(), _image("FULL")),
    Case("image-minimal", both(), _image("MINIMAL")),
    Case("image-noblob", both(), _image("NOBLOB")),
    Case("image-full-nodup", mariadb(11, 4), _image("FULL_NODUP")),
    Case("image-mixed", both(), _mixed),
    Case(
        "image-minimal-generated",
        both((10, 2), (8,)),
        (
            "SET binlog_row_image = MINIMAL",
            """CREATE TABLE t (id int PRIMARY KEY, a int, v int AS (a * 2) VIRTUAL, s int AS (a + 1) STORED,
            b varchar(10))""",
            "INSERT INTO t (id, a, b) VALUES (1, 1, 'x'), (2, 2, NULL)",
            "UPDATE t SET a = 5 WHERE id = 1",
            "UPDATE t SET b = 'neu'",
            "DELETE FROM t WHERE id = 2",
        ),
    ),
    Case("hash-keys", mariadb(10, 4), _HASHED),
    Case(
        "hash-keys-unnamed",
        mariadb(10, 5),
        _HASHED,
        setup=("SET GLOBAL binlog_row_metadata = NO_LOG",),
        restore=("SET GLOBAL binlog_row_metadata = FULL",),
    ),
    _metadata("NO_LOG"),
    _metadata("MINIMAL"),
    Case(
        "keys",
        both(),
        (
            "CREATE TABLE composite (a int, b varchar(10), c int, d int, PRIMARY KEY (c, a, b))",
            "CREATE TABLE prefixed (a varchar(100), b text, c int, PRIMARY KEY (a(10), b(5)))",
            """CREATE TABLE uniques (a int, b int NOT NULL, c int NOT NULL, d int, UNIQUE KEY nullable (a),
            UNIQUE KEY whole (c, b))""",
            "CREATE TABLE none (a int, b int, KEY (a))",
            "CREATE TABLE texts (a varchar(20) CHARACTER SET latin1 PRIMARY KEY, b int)",
            "INSERT INTO composite VALUES (1, 'b', 3, 4), (2, 'b', 3, 4)",
            "INSERT INTO prefixed VALUES ('a', 'b', 1), (REPEAT('x', 60), REPEAT('y', 60), 2)",
            "INSERT INTO uniques VALUES (NULL, 1, 1, 1), (NULL, 2, 1, 2), (3, 3, 3, 3)",
            "INSERT INTO none VALUES (1, 1), (1, 1), (NULL, NULL)",
            "INSERT INTO texts VALUES ('Straße', 1), ('é', 2)",
            "UPDATE composite SET b = 'c', d = 5 WHERE a = 1",
            "UPDATE prefixed SET a = 'neu' WHERE c = 2",
            "UPDATE uniques SET c = c + 10",
            "UPDATE none SET b = 2",
            "UPDATE texts SET a = 'É' WHERE b = 2",
            "DELETE FROM none LIMIT 2",
            "DELETE FROM composite",
        ),
    ),
    Case(
        "partitions",
        both((), (8,)),
        (
            "CREATE TABLE t (id int PRIMARY KEY, v varchar(10)) PARTITION BY HASH (id) PARTITIONS 3",
            """CREATE TABLE r (id int, d int, PRIMARY KEY (id, d)) PARTITION BY RANGE (d) (PARTITION p0
            VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)""",
            "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)",
            "INSERT INTO r VALUES (1, 5), (2, 15)",
            "UPDATE t SET v = 'neu' WHERE id > 2",
            "UPDATE r SET d = d + 6 WHERE id = 1",
            "DELETE FROM t WHERE id = 4",
            "ALTER TABLE r TRUNCATE PARTITION p1",
        ),
    ),
]
