"""No index is made by a late write: the setting in each of its forms, and who asks."""

from __future__ import annotations

import logging

import pytest

from include.errors import Terminal
from include.index.generations.create import first_index
from include.index.mapping.declared import creation
from include.index.name import IndexName
from include.index.server.auto_create import creates, require_no_auto_create
from include.index.server.memory_admin import MemoryAdmin
from tests.support.documents.topic import MAPPING, one_topic


@pytest.mark.parametrize(
    ("setting", "made"),
    [
        ("true", True),
        ("false", False),
        ("FALSE", False),
        ("+orders*,-*", True),
        ("-orders-v*,+*", False),
        ("orders-v1", True),
        ("-*,+orders*", False),
        ("+logs-*, -metrics-*", False),
        (".watches*,.triggered_watches", False),
        ("+*", True),
    ],
)
def test_the_first_pattern_that_fits_decides_and_without_one_nothing_is_made(setting: str, made: bool) -> None:
    assert creates(setting, "orders-v1") is made


def test_an_index_is_not_made_where_a_late_write_would_make_it_again() -> None:
    server = MemoryAdmin()
    server.auto = "true"
    definition = one_topic("t")
    body = creation("orders", definition, MAPPING)
    with pytest.raises(Terminal, match=r"to '-orders-v\*,\+\*'"):
        first_index(server, server, IndexName("orders", 1), body)
    assert server.describe("orders-v1") is None
    server.auto = "-orders-v*,+*"
    assert first_index(server, server, IndexName("orders", 1), body)[1]


def test_a_server_that_does_not_tell_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    server = MemoryAdmin()
    server.auto = None
    with caplog.at_level(logging.WARNING):
        require_no_auto_create(server, "orders")
    assert "orders-v<n> anew" in caplog.text
