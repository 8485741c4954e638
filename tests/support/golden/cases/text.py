"""CHAR, VARCHAR, TEXT, ENUM, SET: lengths of lengths, blanks, labels."""

from __future__ import annotations

from tests.support.golden.case import Case, Step, both
from tests.support.servers.catalogue import Known

__all__ = ["CASES"]

_MEMBERS = (1, 8, 9, 16, 17, 24, 25, 32, 33, 64)


def _sets(_: Known) -> tuple[Step, ...]:
    labels = [f"'m{n}'" for n in range(64)]
    columns = ", ".join(
        f"s{n} set({', '.join(labels[:n])}) CHARACTER SET {'latin1' if n % 2 else 'utf8mb4'}" for n in _MEMBERS
    )
    rows = [
        ", ".join("''" for _n in _MEMBERS),
        ", ".join(str(2**n - 1) for n in _MEMBERS),
        ", ".join(f"'m{n - 1}'" for n in _MEMBERS),
        ", ".join("'m0'" for _n in _MEMBERS),
        ", ".join("NULL" for _n in _MEMBERS),
    ]
    return (
        f"""CREATE TABLE t (id int PRIMARY KEY, {columns}, u set('ü','é','€') CHARACTER SET utf8mb4,
        l set('ü','é','€') CHARACTER SET latin1)""",
        *(f"INSERT INTO t VALUES ({i}, {row}, 'é,ü', {i % 8})" for i, row in enumerate(rows, 1)),
        "UPDATE t SET s64 = 'm1,m63', l = NULL WHERE id < 3",
    )


def _enums(_: Known) -> tuple[Step, ...]:
    many = ", ".join(f"'label {n}'" for n in range(300))
    return (
        # An empty label is not the invalid value: that has index 0.
        "SET sql_mode = ''",
        f"""CREATE TABLE t (id int PRIMARY KEY, a enum('a','b''c','é') CHARACTER SET latin1,
        u enum('日本','x,y','€') CHARACTER SET utf8mb4, w enum('é','𝄞') CHARACTER SET utf16,
        c enum('é','x') CHARACTER SET ucs2, m enum({many}), e enum('', 'full') NOT NULL, k enum('ю') CHARACTER
        SET koi8r)""",
        """INSERT INTO t VALUES (1, 'é', '€', '𝄞', 'é', 'label 299', 'full', 'ю'), (2, 'b''c', 'x,y', 'é', 'x',
        'label 255', '', 'ю'),
        (3, NULL, NULL, NULL, NULL, NULL, 'full', NULL), (4, 'a', '日本', 'é', 'x', 'label 0', 'full', 'ю')""",
        "INSERT INTO t VALUES (5, 'none', 'none', 'none', 'none', 'none', 'none', 'none')",
        "UPDATE t SET a = 'a', m = 'label 256' WHERE id = 5",
    )


CASES = [
    Case(
        "chars",
        both(),
        (
            """CREATE TABLE t (id int PRIMARY KEY, a char(10) CHARACTER SET utf8mb4, b char(63) CHARACTER SET utf8mb4,
            c char(64) CHARACTER SET utf8mb4, d char(100) CHARACTER SET utf8mb4, e char(255) CHARACTER SET utf8mb4,
            f char(255) CHARACTER SET latin1, g char(0), h char(1) CHARACTER SET ascii, i char(85) CHARACTER SET utf8,
            j char(86) CHARACTER SET utf8, z tinyint)""",
            """INSERT INTO t VALUES (1, 'zehn Zeich', REPEAT('ü', 63), REPEAT('日', 64), REPEAT('ü', 100), REPEAT('𝄞',
            255),
            REPEAT('é', 255), '', 'x', REPEAT('日', 85), REPEAT('日', 86), 1)""",
            """INSERT INTO t VALUES (2, '', '', '', '', '', '', '', '', '', '', 2), (3, 'a  ', ' b ', ' ', '\\\\', '\"',
            '\\'', NULL, '0', '\\0', '\\n', 3)""",
            "INSERT INTO t (id, z) VALUES (4, 4)",
            "UPDATE t SET d = 'short', e = 'short' WHERE id = 1",
        ),
    ),
    Case(
        "varchars",
        both(),
        (
            """CREATE TABLE t (id int PRIMARY KEY, a varchar(20), b varchar(63), c varchar(64),
            d varchar(255) CHARACTER SET latin1,
            e varchar(256) CHARACTER SET latin1, f varchar(0), g varchar(3000) CHARACTER SET utf8mb4, z tinyint)""",
            """INSERT INTO t VALUES (1, 'zwanzig', REPEAT('ü', 63), REPEAT('日', 64), REPEAT('é', 255),
            REPEAT('é', 256), '', REPEAT('𝄞', 300), 1)""",
            """INSERT INTO t VALUES (2, '', '', '', '', '', '', '', 2), (3, 'trailing  ', '0', '1', 'x', 'y', NULL,
            REPEAT('a', 256), 3)""",
            "INSERT INTO t (id, z) VALUES (4, 4)",
            "DELETE FROM t WHERE id = 1",
        ),
    ),
    Case(
        "texts",
        both(),
        (
            """CREATE TABLE t (id int PRIMARY KEY, a tinytext, b text, c mediumtext, d longtext, e text CHARACTER
            SET latin1,
            f tinytext CHARACTER SET utf8mb4, z tinyint)""",
            """INSERT INTO t VALUES (1, REPEAT('t', 255), REPEAT('ü', 300), REPEAT('日', 256), REPEAT('𝄞', 70), 'œÿ',
            'ü', 1)""",
            "INSERT INTO t VALUES (2, '', '', '', '', '', '', 2), (3, ' ', '\\0', 'NULL', 'null', '\\r\\n', '\\t', 3)",
            "INSERT INTO t (id, z) VALUES (4, 4)",
            "UPDATE t SET b = CONCAT(b, '!'), d = NULL WHERE id < 3",
        ),
    ),
    Case("enums", both(), _enums),
    Case("sets", both(), _sets),
]
