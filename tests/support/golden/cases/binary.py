"""Bytes: BINARY, BLOB, UUID, INET, GEOMETRY, VECTOR, and MariaDB's compressed columns."""

from __future__ import annotations

from tests.support.golden.case import Case, both, mariadb, mysql

__all__ = ["CASES"]

_SHAPES = (
    "POINT(1 2)",
    "LINESTRING(0 0, 1 1, 2 0.5)",
    "POLYGON((0 0, 10 0, 10 10, 0 10, 0 0), (2 2, 4 2, 4 4, 2 4, 2 2))",
    "MULTIPOINT(1 1, -2.5 1e10)",
    "MULTILINESTRING((0 0, 1 1), (2 2, 3 3))",
    "MULTIPOLYGON(((0 0, 1 0, 1 1, 0 1, 0 0)))",
    "GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(0 0, 1 1))",
)

CASES = [
    Case(
        "binaries",
        both(),
        (
            """CREATE TABLE t (id int PRIMARY KEY, a binary(4), b binary(16), c binary(255), d varbinary(20),
            e varbinary(300),
            f binary(1), g binary(0), h varchar(20) CHARACTER SET binary, i char(8) CHARACTER SET binary, z tinyint)""",
            """INSERT INTO t VALUES (1, 'ab', x'00112233445566778899AABBCCDDEE00', REPEAT('x', 255), x'00FF00',
            REPEAT(x'FF', 300),
            x'00', '', x'FE00', 'ab', 1)""",
            """INSERT INTO t VALUES (2, x'00000000', x'00', x'', '', '', x'FF', NULL, '', '', 2), (3, 'abcd', '', x'00',
            x'00', x'00', ' ', '', ' ', ' ', 3)""",
            "INSERT INTO t (id, z) VALUES (4, 4)",
            "UPDATE t SET a = x'61620000', b = x'FF' WHERE id < 3",
            "DELETE FROM t WHERE id = 2",
        ),
    ),
    Case(
        "binary-keys",
        both(),
        (
            "CREATE TABLE t (id binary(16) PRIMARY KEY, v int)",
            """INSERT INTO t VALUES (x'00112233445566778899AABBCCDDEE00', 1), (x'00', 2),
            (x'FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF', 3)""",
            "UPDATE t SET v = 20 WHERE id = x'00000000000000000000000000000000'",
            "UPDATE t SET id = x'01' WHERE v = 3",
            "DELETE FROM t WHERE v = 1",
        ),
    ),
    Case(
        "blobs",
        both(),
        (
            "CREATE TABLE t (id int PRIMARY KEY, a tinyblob, b blob, c mediumblob, d longblob, z tinyint)",
            """INSERT INTO t VALUES (1, REPEAT(x'FF', 255), REPEAT(x'00', 300), REPEAT(x'01', 256), REPEAT(x'02', 70),
            1)""",
            "INSERT INTO t VALUES (2, '', '', '', '', 2), (3, x'00', x'00', x'00', x'00', 3)",
            "INSERT INTO t (id, z) VALUES (4, 4)",
            "UPDATE t SET b = CONCAT(b, x'FE'), d = NULL WHERE id < 3",
        ),
    ),
    Case(
        "uuid-inet",
        mariadb(10, 11),
        (
            "CREATE TABLE t (id uuid PRIMARY KEY, u uuid, i4 inet4, i6 inet6, z tinyint)",
            """INSERT INTO t VALUES ('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff',
            '0.0.0.0', '::', 1),
            ('123e4567-e89b-12d3-a456-426614174000', '123e4567-e89b-42d3-a456-426614174000', '10.0.0.0', '2001:db8::',
            2),
            ('123e4567-e89b-12d3-a456-420000000000', '018f3c5e-7b1a-7cc0-8f00-000000000000', '255.255.255.255',
            '::ffff:1.2.3.0', 3),
            ('00112233-4455-6677-8899-aabbccddeeff', NULL, NULL, NULL, 4), ('fe000000-0000-0000-0000-000000000001',
            '00000000-0000-1000-8000-000000000000', '1.2.3.4', 'fe80::1', 5)""",
            "UPDATE t SET u = id, i4 = '1.2.0.0' WHERE z < 3",
            "DELETE FROM t WHERE z = 3",
        ),
    ),
    Case(
        "geometries",
        both(),
        (
            """CREATE TABLE t (id int PRIMARY KEY, g geometry, p point, l linestring, y polygon, mp multipoint,
            ml multilinestring,
            my multipolygon, c geometrycollection, v varchar(10))""",
            "INSERT INTO t VALUES (1, ST_GeomFromText('POINT(-1.5 2.25)'), "
            + ", ".join(f"ST_GeomFromText('{shape}')" for shape in _SHAPES)
            + ", 'end')",
            "INSERT INTO t (id, g, v) VALUES (2, ST_GeomFromText('POINT(1 2)', 4326), 'srid'), (3, NULL, 'null')",
            "UPDATE t SET g = ST_GeomFromText('LINESTRING(0 0, 1 1)'), v = 'ü' WHERE id = 1",
        ),
    ),
    Case(
        "vectors",
        mysql(9),
        (
            "CREATE TABLE t (id int PRIMARY KEY, v vector(3), w vector NOT NULL, x int)",
            """INSERT INTO t VALUES (1, TO_VECTOR('[1,-2.5,3e10]'), TO_VECTOR('[0.1]'), 1), (2, NULL,
            TO_VECTOR('[1,2,3,4,5]'), 2)""",
            "UPDATE t SET v = TO_VECTOR('[0,0,1.17549435e-38]') WHERE id = 2",
        ),
    ),
    Case(
        "vectors",
        mariadb(11, 8),
        (
            "CREATE TABLE t (id int PRIMARY KEY, v vector(3), w vector(1) NOT NULL, x int)",
            """INSERT INTO t VALUES (1, VEC_FromText('[1,-2.5,3e10]'), VEC_FromText('[0.1]'), 1), (2, NULL,
            VEC_FromText('[5]'), 2)""",
            "UPDATE t SET v = VEC_FromText('[0,0,1.17549435e-38]') WHERE id = 2",
            "CREATE TABLE indexed (id int PRIMARY KEY, v vector(4) NOT NULL, VECTOR INDEX (v))",
            "INSERT INTO indexed VALUES (1, VEC_FromText('[1,2,3,4]')), (2, VEC_FromText('[4,3,2,1]'))",
        ),
    ),
    Case(
        "compressed-columns",
        mariadb(10, 11),
        (
            """CREATE TABLE t (id int PRIMARY KEY, a varchar(500) COMPRESSED, b text COMPRESSED, c blob COMPRESSED,
            d varbinary(300) COMPRESSED,
            e tinytext COMPRESSED, f mediumblob COMPRESSED, g longtext COMPRESSED CHARACTER SET utf16,
            z tinyint) CHARACTER SET utf8mb4""",
            """INSERT INTO t VALUES (1, REPEAT('ü', 300), REPEAT('text ', 200), REPEAT(x'00', 400), REPEAT(x'FF', 300),
            REPEAT('t', 250),
            REPEAT(x'01', 500), REPEAT('日', 300), 1)""",
            """INSERT INTO t VALUES (2, '', '', '', '', '', '', '', 2), (3, 'short', 'short', x'00FF', x'00', 'x', 'y',
            'ü', 3)""",
            "INSERT INTO t (id, z) VALUES (4, 4)",
            "UPDATE t SET a = REPEAT('neu ', 100), c = 'short' WHERE id = 1",
            "SET column_compression_zlib_wrap = ON",
            "INSERT INTO t (id, b, c, z) VALUES (5, REPEAT('wrapped ', 100), REPEAT('wrapped ', 100), 5)",
            "DELETE FROM t WHERE id = 5",
        ),
    ),
]
