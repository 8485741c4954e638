"""Settings of a server that capture cannot trust are named with the statement that mends them."""

from __future__ import annotations

from typing import Any

import pytest

from include.errors import Terminal
from include.record.schema import Column
from include.source.definition import SourceDefinition
from include.source.preflight import _WANTED, _grants, _policy, _variables, refuse
from include.source.tables import TableInfo

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


def test_a_policy_that_does_not_fit_the_tables_is_a_finding_with_its_place() -> None:
    source = SourceDefinition.model_validate(
        SOURCE.model_dump() | {"filter": {"orders": {"ignored_columns": ["id", "notes"]}}}
    )
    info = TableInfo("shop", "orders", "InnoDB", versioned=False)
    info.columns, info.key = [Column("id", "int"), Column("note", "text")], ("id",)
    found = [each for each in _policy({("shop", "orders"): info}, source) if "orders" in each.place]
    assert [each.place for each in found] == ["filter.orders.ignored_columns"] * 2
    assert "got='notes', allowed=['id', 'note']" in found[0].problem
    assert "a key column cannot be ignored" in found[1].problem


def test_a_policy_of_whole_tables_has_no_findings() -> None:
    assert _policy({("shop", "orders"): TableInfo("shop", "orders", "InnoDB", versioned=False)}, SOURCE) == []
