"""XA transactions: committed, rolled back, in one phase, with others in between."""

from __future__ import annotations

from tests.support.golden.case import Case, In, both

__all__ = ["CASES"]

_TABLE = "CREATE TABLE t (id int PRIMARY KEY, v varchar(20)) ENGINE=InnoDB"


def _prepared(xid: str, *statements: str) -> tuple[str, ...]:
    return (f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}")


CASES = [
    Case(
        "xa-commit",
        both(),
        (
            _TABLE,
            *_prepared("'first'", "INSERT INTO t VALUES (1, 'one')", "UPDATE t SET v = 'uno'"),
            "XA COMMIT 'first'",
            # The longest id that there is, with bytes that are no text, and a format of its own.
            *_prepared(f"x'{'00FF' * 32}', x'{'27' * 64}', 2147483646", "INSERT INTO t VALUES (2, 'two')"),
            f"XA COMMIT x'{'00FF' * 32}', x'{'27' * 64}', 2147483646",
        ),
    ),
    Case(
        "xa-rollback",
        both(),
        (
            _TABLE,
            *_prepared("'a', 'branch', 7", "INSERT INTO t VALUES (1, 'gone')"),
            "XA ROLLBACK 'a', 'branch', 7",
            "XA START 'b'",
            "INSERT INTO t VALUES (2, 'never prepared')",
            "XA END 'b'",
            "XA ROLLBACK 'b'",
            "INSERT INTO t VALUES (3, 'kept')",
        ),
    ),
    Case(
        "xa-one-phase",
        both(),
        (
            _TABLE,
            "XA START 'one'",
            "INSERT INTO t VALUES (1, 'one')",
            "XA END 'one'",
            "XA COMMIT 'one' ONE PHASE",
            "XA START 'empty'",
            "XA END 'empty'",
            "XA COMMIT 'empty' ONE PHASE",
        ),
    ),
    Case(
        "xa-interleaved",
        both(),
        (
            _TABLE,
            *_prepared("'first'", "INSERT INTO t VALUES (1, 'one')"),
            *(
                In("b", sql)
                for sql in _prepared("'second'", "INSERT INTO t VALUES (2, 'two')", "INSERT INTO t VALUES (20, 'gone')")
            ),
            In("c", "INSERT INTO t VALUES (3, 'between')"),
            *(In("d", sql) for sql in _prepared("'third'", "INSERT INTO t VALUES (4, 'gone')")),
            In("b", "XA ROLLBACK 'second'"),
            In("c", "UPDATE t SET v = 'between!' WHERE id = 3"),
            "XA COMMIT 'first'",
            In("d", "XA ROLLBACK 'third'"),
        ),
    ),
    Case(
        "xa-savepoint",
        both((10, 11)),
        (
            _TABLE,
            "XA START 's'",
            "INSERT INTO t VALUES (1, 'kept')",
            "SAVEPOINT here",
            "INSERT INTO t VALUES (2, 'gone')",
            "ROLLBACK TO here",
            "XA END 's'",
            "XA PREPARE 's'",
            "XA COMMIT 's'",
        ),
    ),
    Case(
        "xa-empty",
        both(),
        (
            _TABLE,
            "INSERT INTO t VALUES (1, 'one')",
            *_prepared("'reads'", "SELECT COUNT(*) FROM t"),
            "XA COMMIT 'reads'",
            "INSERT INTO t VALUES (2, 'two')",
        ),
    ),
]
