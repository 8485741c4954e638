"""JSON: MySQL's binary form in all its kinds and its partial updates; MariaDB's text."""

from __future__ import annotations

from tests.support.golden.case import Case, mariadb, mysql

__all__ = ["CASES"]

_TABLE = "CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, j json, v varchar(10) DEFAULT 'end')"


def _insert(*values: str) -> str:
    return "INSERT INTO t (j) VALUES " + ", ".join(f"({value})" for value in values)


_NUMBERS = (
    0,
    1,
    -1,
    32767,
    -32768,
    32768,
    -32769,
    65535,
    65536,
    2**31 - 1,
    -(2**31),
    2**31,
    2**32 - 1,
    2**32,
    -(2**31) - 1,
)
_LARGE = (2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1)
_DOUBLES = (
    "0.1",
    "-0.0",
    "1.0",
    "1e100",
    "5e-324",
    "1.7976931348623157e308",
    "1e15",
    "1e17",
    "123456789.125",
    "2.5e-7",
)

CASES = [
    Case(
        "json-scalars",
        mysql(8),
        (
            _TABLE,
            _insert("'null'", "'true'", "'false'", "NULL"),
            _insert(*(f"'{number}'" for number in (*_NUMBERS, *_LARGE))),
            _insert(*(f"'{number}'" for number in _DOUBLES)),
            _insert(
                "JSON_QUOTE('')",
                "'\"x\"'",
                "JSON_QUOTE('aü日€𝄞')",
                "JSON_QUOTE('quote \" back \\\\ / \\b\\n\\r\\t\\0')",
            ),
            _insert(
                "CONCAT('\"', REPEAT('s', 127), '\"')",
                "CONCAT('\"', REPEAT('s', 128), '\"')",
                "CONCAT('\"', REPEAT('ü', 8200), '\"')",
            ),
            _insert("'\"\\\\u0001\\\\u001f\\\\u007f\\\\u2028\\\\/\"'"),
        ),
    ),
    Case(
        "json-containers",
        mysql(8),
        (
            _TABLE,
            _insert(
                "'{}'", "'[]'", "'[[]]'", "'{\"a\": {}}'", '\'{"": 1, "a": null, "bb": true, "aa": [1, 2.5, "x"]}\''
            ),
            _insert(
                "'[0, -32768, 65535, 65536, -2147483648, 4294967295, 18446744073709551615, 1.5, null, true, \"\"]'"
            ),
            _insert('\'{"ü": "日", "key with blanks": {"deep": {"deeper": [[[1]]]}}, "10": 1, "9": 2}\''),
            _insert('\'{"a": 1, "b": 2, "a": 3}\''),
            "UPDATE t SET j = JSON_SET(j, '$.a', 'neu', '$.zz', JSON_ARRAY(1, NULL)) WHERE JSON_TYPE(j) = 'OBJECT'",
            "UPDATE t SET j = NULL WHERE id = 1",
            "DELETE FROM t WHERE id > 5",
        ),
    ),
    Case(
        "json-opaque",
        mysql(8),
        (
            _TABLE,
            _insert(
                "CAST(CAST('2026-11-21' AS date) AS json)",
                "CAST(CAST('2026-11-21 01:02:03.000004' AS datetime(6)) AS json)",
                "CAST(TIMESTAMP'2038-01-19 03:14:07' AS json)",
                "CAST(CAST('-12:34:56.123456' AS time(6)) AS json)",
                "CAST(CAST('838:59:59' AS time) AS json)",
                "CAST(CAST('-00:00:00.000001' AS time(6)) AS json)",
                "CAST(CAST(1.50 AS decimal(10,2)) AS json)",
                "CAST(CAST(-12345678901234567890.123456789 AS decimal(40,9)) AS json)",
                "CAST(CAST(0 AS decimal(1,0)) AS json)",
            ),
            "SET sql_mode = ''",
            _insert(
                "CAST(x'00FF10' AS json)",
                "CAST(CAST('abc' AS binary(5)) AS json)",
                "CAST(b'101' AS json)",
                "CAST(ST_GeomFromText('POINT(1 2)') AS json)",
            ),
            """CREATE TABLE typed (y year, b bit(10), bl blob, e enum('x'), s set('x','y'), f float, vb varbinary(5),
            big blob)""",
            "INSERT INTO typed VALUES (2026, 513, 'blob', 'x', 'x,y', 0.1, x'0001', REPEAT('b', 200))",
            """INSERT INTO t (j) SELECT JSON_OBJECT('y', y, 'b', b, 'bl', bl, 'e', e, 's', s, 'f', f, 'vb', vb, 'big',
            big) FROM typed""",
            """INSERT INTO t (j) SELECT JSON_ARRAY(y, b, bl, e, s, f, vb, 1.5, CAST('2026-11-21' AS date), CAST(1.5
            AS decimal(5,3))) FROM typed""",
        ),
    ),
    Case(
        "json-large",
        mysql(8),
        (
            _TABLE,
            # Beyond 64 KiB offsets have four bytes and integers of 32 bits lie inline.
            _insert(
                """JSON_OBJECT('a', JSON_ARRAY(REPEAT('y', 65536), 65536, -1, NULL, JSON_OBJECT()), 'b', 70000,
                'c', -70000, 'd', 4294967295, 'e', JSON_ARRAY(1, TRUE, 2.5), 'f', NULL, 'g', 5)"""
            ),
        ),
    ),
    Case(
        "json-partial",
        mysql(8),
        (
            "SET binlog_row_value_options = PARTIAL_JSON",
            "CREATE TABLE t (id int PRIMARY KEY, a json, n int, b json, s varchar(20), c json NOT NULL)",
            """INSERT INTO t VALUES (1, '{"x": "long text to be replaced", "y": [1, 2, 3], "z": {"k": 1}}', 1,
            '[1, 2, 3, 4, 5]', 's', '{"c": 1, "d": "dddddd"}'),
            (2, '{"x": "second", "y": []}', 2, NULL, NULL, '{}'), (3, NULL, 3, '{"only": true}', 'x', '[]')""",
            "UPDATE t SET a = JSON_SET(a, '$.x', 'neu', '$.y[1]', 20) WHERE id = 1",
            "UPDATE t SET a = JSON_REMOVE(a, '$.z'), n = 10 WHERE id = 1",
            """UPDATE t SET a = JSON_SET(a, '$.added', JSON_OBJECT('deep', 'ü')), b = JSON_REPLACE(b, '$[4]', 'five'),
            s = NULL WHERE id = 1""",
            "UPDATE t SET b = JSON_SET(b, '$[5]', 6, '$[6]', 7) WHERE id = 1",
            "UPDATE t SET b = JSON_REMOVE(b, '$[0]', '$[0]') WHERE id = 1",
            "UPDATE t SET c = JSON_SET(c, '$.d', 'e') WHERE id = 1",
            "UPDATE t SET a = '{\"whole\": 1}', c = JSON_SET(c, '$.c', 2) WHERE id = 1",
            "UPDATE t SET b = JSON_SET(b, '$.only', FALSE), n = n + 1 WHERE id = 3",
            "UPDATE t SET n = n + 1",
            "UPDATE t SET a = NULL WHERE id = 2",
            "DELETE FROM t WHERE id = 1",
        ),
    ),
    Case(
        "json-partial-minimal",
        mysql(8),
        (
            "SET binlog_row_value_options = PARTIAL_JSON, binlog_row_image = MINIMAL",
            "CREATE TABLE t (id int PRIMARY KEY, a json, n int, b json, s varchar(20), c json)",
            """INSERT INTO t VALUES (1, '{\"x\": \"long text to be replaced\", \"y\": [1, 2, 3]}', 1, '[1, 2, 3, 4, 5]',
            's', '{\"c\": 1}')""",
            "UPDATE t SET b = JSON_SET(b, '$[1]', 20) WHERE id = 1",
            "UPDATE t SET a = JSON_SET(a, '$.x', 'neu'), c = JSON_SET(c, '$.c', 7) WHERE id = 1",
            "UPDATE t SET n = 5 WHERE id = 1",
            "SET binlog_row_image = NOBLOB",
            "UPDATE t SET b = JSON_SET(b, '$[0]', 0), s = 'neu' WHERE id = 1",
        ),
    ),
    Case(
        "json-text",
        mariadb(10, 11),
        (
            _TABLE,
            _insert(
                "'{}'",
                "'null'",
                "'[1, 2.50, \"ü\"]'",
                "NULL",
                '\'{ "kept" :  "as written", "a":1, "a":2 }\'',
                "'\"\\\\u00fc\"'",
            ),
            "UPDATE t SET j = JSON_SET(j, '$.new', 1) WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
        ),
    ),
]
