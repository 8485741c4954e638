"""Texts that bound transactions, as servers and people write them."""

from __future__ import annotations

import pytest

from include.errors import Terminal
from include.source.binlog.boundary import TransactionBoundary, boundary
from include.source.binlog.gtid_event import Xid


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BEGIN", TransactionBoundary("begin")),
        ("begin work;", TransactionBoundary("begin")),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT", TransactionBoundary("begin")),
        ("COMMIT", TransactionBoundary("commit")),
        ("/* by hand */ commit and no chain no release", TransactionBoundary("commit")),
        ("ROLLBACK", TransactionBoundary("rollback")),
        ("SAVEPOINT `A`", TransactionBoundary("savepoint", "a")),
        ("savepoint`x y`", TransactionBoundary("savepoint", "x y")),
        ("ROLLBACK TO `a``b`", TransactionBoundary("rollback_to", "a`b")),
        ("rollback /* no: to y */ work\n to -- really\n savepoint X ;", TransactionBoundary("rollback_to", "x")),
        ('ROLLBACK TO "q""r"', TransactionBoundary("rollback_to", 'q"r')),
        ("RELEASE SAVEPOINT a", TransactionBoundary("release", "a")),
        ("XA START X'3031',X'',1", TransactionBoundary("xa_start", xid=Xid(1, b"01", b""))),
        ("XA END X'3031',X'aa',-2", TransactionBoundary("xa_end", xid=Xid(2**32 - 2, b"01", b"\xaa"))),
        ("xa commit 'abc', 0x27", TransactionBoundary("xa_commit", xid=Xid(1, b"abc", b"'"))),
        ("XA COMMIT X'3031' ONE PHASE", TransactionBoundary("xa_commit", xid=Xid(1, b"01", b""))),
        ("XA ROLLBACK X'3031',X'',1", TransactionBoundary("xa_rollback", xid=Xid(1, b"01", b""))),
        ("XA PREPARE X'3031',X'',1", TransactionBoundary("xa_prepare", xid=Xid(1, b"01", b""))),
        ("START SLAVE", None),
        ("BEGINNING", None),
        ("INSERT INTO t VALUES ('COMMIT')", None),
        ("/* COMMIT */ TRUNCATE t", None),
        ("", None),
    ],
)
def test_a_statement_bounds_this(text: str, expected: TransactionBoundary | None) -> None:
    assert boundary(text) == expected


@pytest.mark.parametrize("text", ["XA RECOVER", "ROLLBACK TO", "COMMIT NOW", "SAVEPOINT a b", "XA START X'0',X'',1"])
def test_a_form_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Terminal, match=r"form that is not understood.*begins_with=") as caught:
        boundary(text)
    assert text not in str(caught.value)


def test_many_comments_are_not_tried_in_every_way() -> None:
    assert boundary("/**/" * 50_000 + "TRUNCATE t") is None
    assert boundary("/* x */ " * 50_000 + "COMMIT") == TransactionBoundary("commit")
