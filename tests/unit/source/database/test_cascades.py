"""Whether a key cascades into a table, from what an account sees that may only read."""

from __future__ import annotations

from typing import Any

import pytest

from include.errors import Terminal
from include.record.gtid import Flavour
from include.source.database.cascades import cascades_into, untraced_cascades
from include.source.database.server import Server

BEFORE = "CREATE TABLE `c` (\n  `id` int(11) NOT NULL COMMENT 'FOREIGN KEY ON DELETE CASCADE',\n  KEY `p` (`p`),\n"
AFTER = "\n) ENGINE=InnoDB COMMENT='  FOREIGN KEY x ON DELETE CASCADE'"


def asked(line: str) -> bool:
    statements: list[str] = []

    def ask(sql: str) -> list[tuple[Any, ...]]:
        statements.append(sql)
        return [("c", BEFORE + line + AFTER)]

    found = cascades_into(ask, "shop", "a`b")
    assert statements == ["SHOW CREATE TABLE `shop`.`a``b`"]
    return found


@pytest.mark.parametrize("rule", ["ON DELETE CASCADE", "ON DELETE SET NULL", "ON UPDATE CASCADE", "ON UPDATE SET NULL"])
def test_a_key_that_changes_rows_is_seen(rule: str) -> None:
    assert asked(f"  CONSTRAINT `k` FOREIGN KEY (`p`) REFERENCES `p` (`id`) {rule}")


def test_a_key_with_two_rules_is_seen() -> None:
    assert asked("  CONSTRAINT `k` FOREIGN KEY (`p`) REFERENCES `p` (`id`) ON DELETE NO ACTION ON UPDATE CASCADE")


@pytest.mark.parametrize("rule", ["", " ON DELETE NO ACTION", " ON UPDATE RESTRICT"])
def test_other_keys_and_comments_are_none(rule: str) -> None:
    assert not asked(f"  CONSTRAINT `k` FOREIGN KEY (`p`) REFERENCES `p` (`id`){rule}")


def test_a_table_that_is_gone_has_no_keys_and_another_refusal_stands() -> None:
    def refuse(code: int) -> Any:
        def ask(_sql: str) -> list[tuple[Any, ...]]:
            raise Terminal("the server refuses a statement", code=code)

        return ask

    assert not cascades_into(refuse(1146), "shop", "gone")
    with pytest.raises(Terminal):
        cascades_into(refuse(1064), "shop", "t")


@pytest.mark.parametrize(
    ("flavour", "version", "parent", "untraced"),
    [
        ("mysql", (8, 4, 0), "`p`", True),
        ("mysql", (9, 6, 0), "`p`", False),
        ("mariadb", (10, 1, 0), "`p`", True),
        ("mariadb", (11, 4, 0), "`p`", False),
        ("mariadb", (11, 4, 0), "`c`", True),
        ("mariadb", (11, 4, 0), "`other`.`c`", False),
    ],
)
def test_a_key_leaves_a_trace_by_server_and_parent(
    flavour: Flavour, version: tuple[int, int, int], parent: str, untraced: bool
) -> None:
    line = f"  CONSTRAINT `k` FOREIGN KEY (`p`) REFERENCES {parent} (`id`) ON DELETE CASCADE"
    server = Server(flavour, version, "", gtids=True)
    assert untraced_cascades(lambda _sql: [("c", BEFORE + line + AFTER)], server, "shop", "c") is untraced
