"""An account that may not read what it captures is told so before its first snapshot."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from include.source.database.account import account
from include.source.database.server import Server
from include.source.definition import SourceDefinition

MARIADB = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True)
NEEDED = "GRANT REFERENCES, TRIGGER, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `u`@`h` IDENTIFIED BY PASSWORD '*0'"


def found(*grants: str, databases: tuple[str, ...] = ("my_shop",), server: Server = MARIADB) -> list[tuple[str, str]]:
    """(level, problem) where the account has these grants beside what the binlog needs."""
    source = SourceDefinition(host="h", port=1, user="u", password=SecretStr("p"), databases=list(databases))
    rows = [(f"{grant} TO `u`@`h`" if grant.startswith("GRANT") else grant,) for grant in grants]
    return [(each.level, each.problem) for each in account(lambda _sql: [(NEEDED,), *rows], server, source)]


LACKS = [("refuse", "lacks SELECT on database my_shop")]


@pytest.mark.parametrize(
    "grant",
    [
        "GRANT SELECT ON *.*",
        "GRANT ALL PRIVILEGES ON *.*",
        "GRANT INSERT, SELECT, UPDATE ON `my_shop`.*",
        r"GRANT SELECT ON `my\_shop`.*",
        "GRANT ALL PRIVILEGES ON `my_shop`.*",
        "GRANT SELECT ON `my%`.*",
        "GRANT SELECT ON my_shop.*",
    ],
)
def test_select_on_a_captured_database_will_do_however_it_was_granted(grant: str) -> None:
    assert found(grant) == []


@pytest.mark.parametrize(
    "grant",
    [
        "GRANT USAGE ON *.*",
        "GRANT INSERT, UPDATE ON `my_shop`.*",
        "GRANT SELECT ON `my_shops`.*",
        "GRANT SELECT ON `my`.*",
        r"GRANT SELECT ON `my\%`.*",
        "GRANT SHOW VIEW ON `my_shop`.*",
        "GRANT EXECUTE ON PROCEDURE `my_shop`.`SELECT`",
        "GRANT `r`",
        "GRANT PROXY ON ''@'10.0.0.1'",
    ],
)
def test_an_account_without_select_on_a_captured_database_is_refused(grant: str) -> None:
    assert found(grant) == LACKS


def test_an_underscore_that_is_escaped_stands_for_itself() -> None:
    assert found("GRANT SELECT ON `my_shop`.*", databases=("myXshop",)) == []
    assert len(found(r"GRANT SELECT ON `my\_shop`.*", databases=("myXshop",))) == 1


def test_names_with_quotes_and_dots_are_read_as_they_are_written() -> None:
    assert found("GRANT SELECT ON `a.b``c`.*", databases=("a.b`c",)) == []


@pytest.mark.parametrize("grant", ["GRANT SELECT ON `my_shop`.`t`", "GRANT SELECT (`id`, `n`) ON `my_shop`.`t`"])
def test_an_account_that_may_read_some_tables_is_warned_of(grant: str) -> None:
    ((level, problem),) = found(grant)
    assert level == "warn"
    assert "only in part" in problem


def test_what_was_revoked_of_a_database_is_not_there() -> None:
    mysql = Server("mysql", (9, 7, 0), "9.7.0", gtids=True)
    grants = ("GRANT SELECT, REPLICATION CLIENT, XA_RECOVER_ADMIN ON *.*", "REVOKE SELECT ON `my_shop`.* FROM `u`@`h`")
    assert found(*grants, server=mysql) == LACKS


def test_each_database_that_may_not_be_read_is_named() -> None:
    assert found("GRANT SELECT ON `b`.*", databases=("a", "b", "c")) == [
        ("refuse", "lacks SELECT on database a"),
        ("refuse", "lacks SELECT on database c"),
    ]


def test_a_server_that_keeps_small_letters_has_them_in_grants() -> None:
    small = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True, lower_names=True)
    assert found("GRANT SELECT ON `shop`.*", databases=("Shop",), server=small) == []
    assert len(found("GRANT SELECT ON `shop`.*", databases=("Shop",))) == 1


@pytest.mark.parametrize(("version", "wanted"), [((5, 6, 21), "PROCESS"), ((8, 0, 36), "BACKUP_ADMIN")])
def test_without_gtids_an_account_that_cannot_see_what_commits_is_warned(
    version: tuple[int, int, int], wanted: str
) -> None:
    old = Server("mysql", version, "old", gtids=False)
    needed = ("GRANT SELECT ON *.*", "GRANT REPLICATION CLIENT, XA_RECOVER_ADMIN ON *.*")
    ((level, problem),) = found(*needed, server=old)
    assert level == "warn"
    assert problem.startswith(f"lacks {wanted}: ")
    for privilege in ("PROCESS", "BACKUP_ADMIN"):
        assert found(*needed, f"GRANT {privilege} ON *.*", server=old) == []
    assert found(*needed, server=Server("mysql", version, "newer", gtids=True)) == []
