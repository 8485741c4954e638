"""Dates and times: every precision, zero and impossible ones, and the formats of old."""

from __future__ import annotations

from tests.support.golden.case import Case, Step, both, mariadb
from tests.support.servers.catalogue import Known

__all__ = ["CASES"]

_ANY_DATE = "SET sql_mode = 'ALLOW_INVALID_DATES'"
_FRACTION = "123456"


def _cut(value: str, fsp: int) -> str:
    """`value` with `fsp` digits of a fraction that ends in other digits than zeros."""
    return f"'{value}.{_FRACTION[:fsp]}'" if fsp else f"'{value}'"


def _columns(kind: str) -> str:
    null = " NULL" if kind == "timestamp" else ""
    return ", ".join(f"{kind[0]}{fsp} {kind}({fsp}){null}" for fsp in range(7))


def _rows(values: tuple[str, ...]) -> str:
    rows = [f"({n}, {', '.join(_cut(value, fsp) for fsp in range(7))})" for n, value in enumerate(values, 1)]
    rows.append(f"({len(values) + 1}{', NULL' * 7})")
    return "INSERT INTO t VALUES " + ", ".join(rows)


_DATETIMES = ("1000-01-01 00:00:00", "9999-12-31 23:59:59", "1970-01-01 00:00:00", "2024-02-29 12:34:56")
_TIMESTAMPS = ("1970-01-01 00:00:01", "2038-01-19 03:14:07", "2026-03-29 01:30:00", "2026-10-25 00:30:00")
_TIMES = ("838:59:58", "-838:59:58", "00:00:00", "-00:00:00", "-12:34:56", "12:34:56", "-00:00:01", "24:00:00")


def _case(kind: str, values: tuple[str, ...], *more: str) -> tuple[Step, ...]:
    return (_ANY_DATE, f"CREATE TABLE t (id int PRIMARY KEY, {_columns(kind)})", _rows(values), *more)


def _old(row: Known) -> tuple[Step, ...]:
    """The three kinds in each precision of the format that MariaDB 5.3 had; precision 0 is that of MySQL 5.5."""
    steps: list[Step] = [_ANY_DATE]
    for table, kind, values in (
        ("datetimes", "datetime", _DATETIMES),
        ("timestamps", "timestamp", _TIMESTAMPS),
        ("times", "time", _TIMES),
    ):
        steps.append(f"CREATE TABLE {table} (id int PRIMARY KEY, {_columns(kind)}, mark varchar(10) DEFAULT 'end')")
        insert = _rows(values).replace(
            "INTO t ", f"INTO {table} ({', '.join(['id', *(f'{kind[0]}{n}' for n in range(7))])}) "
        )
        steps.append(insert)
    zero = "0000-00-00 00:00:00"
    steps += [
        f"INSERT INTO datetimes VALUES (9, {', '.join([repr(zero)] * 7)}, 'zero')",
        f"INSERT INTO timestamps VALUES (9, {', '.join([repr(zero)] * 7)}, 'zero')",
        "INSERT INTO datetimes VALUES (10" + ", '2026-02-31 23:59:59.999999'" * 7 + ", 'bad')",
        "UPDATE times SET t3 = '01:02:03.004', mark = 'new' WHERE id < 4",
        "DELETE FROM datetimes WHERE id = 2",
        # New columns of a table with old ones are of the new format.
        "SET GLOBAL mysql56_temporal_format = ON",
        "ALTER TABLE times ADD COLUMN fresh datetime(3) DEFAULT '2026-11-21 01:02:03.004'",
        "INSERT INTO times (id, t0, t6) VALUES (20, '-00:00:01', '-00:00:00.000001')",
    ]
    return tuple(steps)


CASES = [
    Case(
        "dates",
        both(),
        (
            _ANY_DATE,
            "CREATE TABLE t (id int PRIMARY KEY, d date, n date NOT NULL)",
            """INSERT INTO t VALUES (1, '1000-01-01', '9999-12-31'), (2, '0000-00-00', '0000-00-00'),
            (3, '2026-02-31', '2026-11-31'), (4, '2026-00-00', '2026-05-00'), (5, NULL, '1970-01-01'),
            (6, '0001-01-01', '1969-12-31'), (7, '2024-02-29', '0000-01-01'), (8, '1582-10-10', '1900-03-01')""",
            "UPDATE t SET d = '2026-11-21' WHERE id IN (2, 5)",
        ),
    ),
    Case(
        "datetimes",
        both(),
        _case("datetime", _DATETIMES, "UPDATE t SET d6 = '2026-11-21 00:00:00.000001' WHERE id = 1"),
    ),
    Case(
        "timestamps", both(), _case("timestamp", _TIMESTAMPS, "UPDATE t SET t6 = '2001-09-09 01:46:40.5' WHERE id = 1")
    ),
    Case("times", both(), _case("time", _TIMES)),
    Case(
        "times-edge",
        both(),
        (
            """CREATE TABLE t (id int PRIMARY KEY, a time, b time(1), c time(2), d time(3), e time(4), f time(5),
            g time(6))""",
            """INSERT INTO t VALUES (1, '838:59:59', '838:59:59', '838:59:59', '838:59:59', '838:59:59', '838:59:59',
            '838:59:59'),
            (2, '-838:59:59', '-838:59:59', '-838:59:59', '-838:59:59', '-838:59:59', '-838:59:59', '-838:59:59'),
            (3, '-00:00:01', '-00:00:00.1', '-00:00:00.01', '-00:00:00.001', '-00:00:00.0001', '-00:00:00.00001',
            '-00:00:00.000001'),
            (4, '-00:00:59', '-00:00:59.9', '-00:00:59.99', '-00:00:59.999', '-00:00:59.9999', '-00:00:59.99999',
            '-00:00:59.999999'),
            (5, '-01:00:00', '-01:00:00.5', '-01:00:00.50', '-01:00:00.256', '-01:00:00.0256', '-01:00:00.65535',
            '-01:00:00.065536'),
            (6, '00:59:59', '00:00:00.9', '00:00:00.99', '00:00:00.999', '00:00:00.9999', '00:00:00.99999',
            '00:00:00.999999')""",
            "UPDATE t SET g = '-12:34:56.123456' WHERE id = 6",
        ),
    ),
    Case(
        "invalid-datetimes",
        both(),
        (
            _ANY_DATE,
            """CREATE TABLE t (id int PRIMARY KEY, a datetime, b datetime(3), c datetime(6), d timestamp NULL,
            e timestamp(3) NULL, f timestamp(6) NULL)""",
            f"INSERT INTO t VALUES (1{', 0' * 6})",
            """INSERT INTO t (id, a, b, c) VALUES (2, '2026-02-31 23:59:59', '2026-02-31 23:59:59.999',
            '2026-02-31 23:59:59.999999')""",
            """INSERT INTO t (id, a, b, c) VALUES (3, '2026-00-00 01:02:03', '0000-00-00 01:02:03.004',
            '2026-01-00 00:00:00.000001')""",
            """INSERT INTO t (id, a, b, c) VALUES (4, '0000-01-01', '0001-01-01 00:00:00.001',
            '0000-12-31 23:59:59.999999')""",
            "UPDATE t SET a = NULL, d = '2026-11-21', e = 0, f = 0 WHERE id = 2",
        ),
    ),
    Case(
        "timestamps-2106",
        mariadb(11, 8),
        (
            "CREATE TABLE t (id int PRIMARY KEY, a timestamp NULL, b timestamp(6) NULL)",
            """INSERT INTO t VALUES (1, '2106-02-07 06:28:15', '2106-02-07 06:28:15.999999'), (2, '2038-01-19 03:14:08',
            '2038-01-19 03:14:08.000001')""",
        ),
    ),
    Case(
        "old-temporals",
        mariadb(),
        _old,
        setup=("SET GLOBAL mysql56_temporal_format = OFF",),
        restore=("SET GLOBAL mysql56_temporal_format = ON",),
    ),
]
