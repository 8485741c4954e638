"""Settings of a server that capture cannot trust are named with the statement that mends them."""

from __future__ import annotations

from typing import Any

import pytest

from include.errors import Terminal
from include.source.definition import SourceDefinition
from include.source.preflight import _WANTED, _grants, _variables, refuse

SOURCE = SourceDefinition.model_validate(
    {"host": "127.0.0.1", "port": 3306, "user": "capture", "password": "secret", "databases": ["shop"]}
)


def _server(**wrong: str) -> Any:
    values = {name: wanted for name, (wanted, _) in _WANTED.items()} | wrong
    return lambda _sql: [tuple(values.values())]


def test_a_server_that_is_set_up_well_has_no_findings() -> None:
    assert _variables(_server()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("binlog_format", "MIXED"),
        ("binlog_format", "STATEMENT"),
        ("binlog_row_metadata", "MINIMAL"),
        ("binlog_row_metadata", "NO_LOG"),
        ("binlog_row_image", "MINIMAL"),
        ("log_bin", "0"),
        ("gtid_strict_mode", "0"),
    ],
)
def test_a_setting_that_loses_rows_is_refused_with_what_to_do(name: str, value: str) -> None:
    found = _variables(_server(**{name: value}))
    assert [(finding.place, value in finding.problem) for finding in found] == [(name, True)]
    with pytest.raises(Terminal) as refused:
        refuse(SOURCE, found)
    assert name in str(refused.value)
    assert refused.value.fix == _WANTED[name][1]
    assert "\n" not in str(refused.value)


def test_a_grant_that_is_missing_is_named() -> None:
    found = _grants(lambda _sql: [("GRANT SELECT, BINLOG MONITOR ON *.* TO `capture`",)])
    assert [finding.problem for finding in found] == ["lacks REPLICATION SLAVE"]
