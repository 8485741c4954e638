"""Integers, floats, decimals, bits, years."""

from __future__ import annotations

from tests.support.golden.case import Case, both

__all__ = ["CASES"]

_GROUPS = (*range(1, 11), 18, 19, 27, 28, 37)


def _all_groups() -> tuple[str, ...]:
    """Decimals whose integer and fraction parts have every length of a partial group of digits."""
    columns = [(f"i{n}", n, 0) for n in _GROUPS] + [(f"f{n}", n, n) for n in _GROUPS if n <= 30]
    columns += [(f"b{n}", 2 * n, n) for n in _GROUPS if n <= 28]

    def value(precision: int, scale: int, digit: str) -> str:
        whole = digit * (precision - scale) or "0"
        return whole + ("." + digit * scale if scale else "")

    rows = ["9", "1", "0"]
    inserts = [", ".join(value(p, s, digit) for _, p, s in columns) for digit in rows]
    inserts.append(", ".join("-" + value(p, s, "9") for _, p, s in columns))
    inserts.append(", ".join("-" + ("0." + "0" * (s - 1) + "1" if s else "1") for _, p, s in columns))
    return (
        "CREATE TABLE t (id int PRIMARY KEY, "
        + ", ".join(f"{name} decimal({p},{s})" for name, p, s in columns)
        + ") ENGINE=InnoDB",
        *(f"INSERT INTO t VALUES ({number}, {cells})" for number, cells in enumerate(inserts, 1)),
    )


CASES = [
    Case(
        "integers",
        both(),
        (
            """CREATE TABLE t (id bigint PRIMARY KEY, a tinyint, b tinyint unsigned, c smallint, d smallint unsigned,
            e mediumint, f mediumint unsigned, g int, h int unsigned, i bigint, j bigint unsigned, k bool)""",
            """INSERT INTO t VALUES
            (1,-128,255,-32768,65535,-8388608,16777215,-2147483648,4294967295,-9223372036854775808,18446744073709551615,1),
            (2,127,128,32767,32768,8388607,8388608,2147483647,2147483648,9223372036854775807,9223372036854775808,0),
            (3,-1,1,-1,1,-1,1,-1,1,-1,1,-1), (4,0,0,0,0,0,0,0,0,0,0,0)""",
            "INSERT INTO t (id) VALUES (9223372036854775807)",
            "UPDATE t SET a = -a, j = j - 1, k = NULL WHERE id IN (2, 3)",
            "DELETE FROM t WHERE id >= 4",
        ),
    ),
    Case(
        "zerofill",
        both(),
        (
            """CREATE TABLE t (id int(5) zerofill PRIMARY KEY, a tinyint(3) zerofill, b bigint(20) zerofill,
            c decimal(10,2) zerofill, d double(8,3) zerofill, e float zerofill, f year)""",
            "INSERT INTO t VALUES (42, 7, 42, 1.5, 2.5, 3.5, 2026), (99999, 255, 18446744073709551615, 0, 0, 0, NULL)",
        ),
    ),
    Case(
        "floats",
        both(),
        (
            """CREATE TABLE t (id int PRIMARY KEY, f float, fu float unsigned, fd float(7,3), d double,
            du double unsigned, dd double(20,5))""",
            """INSERT INTO t VALUES (1, -1.5, 1.5, 1.125, -1.7976931348623157e308, 1.7976931348623157e308,
            123456789012.12345),
            (2, 16777216, 16777217, -9999.999, 2.2250738585072014e-308, 0.1, -0.00001),
            (3, 3.4028234e38, 1.17549435e-38, 0, 5e-324, 1e23, 0), (4, -0e0, 0, 0, -0e0, 0, 0),
            (5, 0.1, 0.3, 0.1, 0.30000000000000004, 9007199254740993, 1e10), (6, NULL, NULL, NULL, NULL, NULL, NULL)""",
            "UPDATE t SET f = f / 3, d = d / 3 WHERE id IN (1, 5)",
        ),
    ),
    Case(
        "decimals",
        both(),
        (
            """CREATE TABLE t (id int PRIMARY KEY, a decimal(1,0), b decimal(5,5), c decimal(18,9), d decimal(65,30),
            e decimal(10,2) unsigned, f decimal(12,2), g decimal(65,0), h decimal(30,30), i decimal)""",
            f"""INSERT INTO t VALUES (1, 9, 0.99999, 999999999.999999999, {"9" * 35}.{"9" * 30}, 99999999.99,
            9999999999.99,
            {"9" * 65}, 0.{"9" * 30}, 9999999999)""",
            f"""INSERT INTO t VALUES (2, -9, -0.99999, -999999999.999999999, -{"9" * 35}.{"9" * 30}, 0.01,
            -9999999999.99,
            -{"9" * 65}, -0.{"9" * 30}, -9999999999)""",
            """INSERT INTO t VALUES (3, 0, 0, 0, 0, 0, 0, 0, 0, 0), (4, 1, 0.00001, 0.000000001, 1e-30, 1.5, -0.01, 1,
            1e-30, -1)""",
            "INSERT INTO t (id) VALUES (5)",
            """INSERT INTO t (id, f) VALUES (6, 1.28), (7, -1.28), (8, 1.27), (9, -1.29), (10, 327.68), (11, -327.68),
            (12, -327.69)""",
        ),
    ),
    Case("decimal-groups", both(), _all_groups()),
    Case(
        "bits",
        both(),
        (
            """CREATE TABLE t (id int PRIMARY KEY, a bit, b bit(7), c bit(8), d bit(9), e bit(10), f bit(24), g bit(63),
            h bit(64))""",
            """INSERT INTO t VALUES (1, 1, 127, 255, 511, 1023, 16777215, 9223372036854775807, 18446744073709551615),
            (2, 0, 0, 0, 0, 0, 0, 0, 0), (3, 1, 64, 128, 256, 512, 65536, 1, 9223372036854775808),
            (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""",
            "UPDATE t SET a = 0, e = 513, h = 1 WHERE id = 1",
        ),
    ),
    Case(
        "years",
        both(),
        (
            "SET sql_mode = ''",
            "CREATE TABLE t (id int PRIMARY KEY, y year, n year NOT NULL DEFAULT '2000')",
            "INSERT INTO t VALUES (1, 0, 0), (2, 1901, 1901), (3, 2155, 2155), (4, NULL, 2000), (5, 1970, 2026)",
        ),
    ),
]
