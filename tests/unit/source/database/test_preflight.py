"""Settings of a server that capture cannot trust are named with the statement that mends them."""

from __future__ import annotations

from typing import Any

import pytest

from include.errors import Terminal
from include.record.schema import Column
from include.source.database.account import account
from include.source.database.preflight import _cascades, _policy, _variables, refuse
from include.source.database.server import Server
from include.source.database.table_info import TableInfo
from include.source.definition import SourceDefinition

SOURCE = SourceDefinition.model_validate(
    {"host": "127.0.0.1", "port": 3306, "user": "capture", "password": "secret", "databases": ["shop"]}
)


MARIADB = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True)
OLD = Server("mysql", (5, 6, 21), "5.6.21-log", gtids=False)
GOOD = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "gtid_strict_mode": "ON",
}


def _asked(**wrong: str | None) -> Any:
    values = GOOD | wrong

    def ask(_sql: str, name: str) -> list[tuple[Any, ...]]:
        value = values.get(name.replace("\\_", "_"))
        return [] if value is None else [(name, value)]

    return ask


def test_a_server_that_is_set_up_well_has_no_findings() -> None:
    assert list(_variables(_asked(), MARIADB)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("binlog_format", "MIXED"),
        ("binlog_format", "STATEMENT"),
        ("binlog_row_image", "MINIMAL"),
        ("log_bin", "OFF"),
    ],
)
def test_a_setting_that_loses_rows_is_refused_with_what_to_do(name: str, value: str) -> None:
    found = list(_variables(_asked(**{name: value}), MARIADB))
    assert [finding.place for finding in found] == [name]
    with pytest.raises(Terminal) as refused:
        refuse(SOURCE, found)
    assert name in str(refused.value)
    assert refused.value.fix == found[0].fix
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("binlog_row_metadata", "MINIMAL"), ("binlog_row_metadata", "NO_LOG"), ("gtid_strict_mode", "OFF")],
)
def test_a_setting_that_capture_can_live_with_is_a_warning(name: str, value: str) -> None:
    found = list(_variables(_asked(**{name: value}), MARIADB))
    assert [(finding.place, finding.level) for finding in found] == [(name, "warn")]
    refuse(SOURCE, found)


def test_a_binlog_that_is_encrypted_on_disk_is_captured_as_the_server_sends_it_decrypted() -> None:
    assert list(_variables(_asked(encrypt_binlog="ON"), MARIADB)) == []


def test_the_fix_for_metadata_that_is_not_full_tells_what_it_costs() -> None:
    (found,) = _variables(_asked(binlog_row_metadata="MINIMAL"), MARIADB)
    assert "a name and a byte for each column" in found.fix


def test_an_old_server_without_these_variables_is_warned_of_and_captured() -> None:
    old = _asked(binlog_row_metadata=None, gtid_strict_mode=None)
    found = list(_variables(old, OLD))
    assert [(finding.place, finding.level) for finding in found] == [
        ("binlog_row_metadata", "warn"),
        ("gtid_mode", "warn"),
    ]
    refuse(SOURCE, found)


def test_a_full_image_that_repeats_nothing_will_do() -> None:
    assert list(_variables(_asked(binlog_row_image="FULL_NODUP"), MARIADB)) == []


def test_cascades_are_refused_where_the_log_keeps_no_trace_of_them() -> None:
    rows = [("shop", "lines", "fk", "orders"), ("shop", "tree", "up", "tree"), ("other", "x", "y", "z")]

    def levels(server: Server) -> list[tuple[str, str]]:
        return [(finding.place, finding.level) for finding in _cascades(lambda *_: rows, SOURCE, server)]

    assert levels(MARIADB) == [("shop.lines", "warn"), ("shop.tree", "refuse")]
    assert levels(OLD) == [("shop.lines", "refuse"), ("shop.tree", "refuse")]
    assert levels(Server("mysql", (9, 7, 0), "9.7.0", gtids=True)) == []


def test_a_grant_that_is_missing_is_named() -> None:
    found = account(lambda _sql: [("GRANT SELECT, BINLOG MONITOR ON *.* TO `capture`",)], MARIADB, SOURCE)
    assert [finding.problem for finding in found if finding.level == "refuse"] == ["lacks REPLICATION SLAVE"]


@pytest.mark.parametrize(
    ("server", "lacks"),
    [
        (MARIADB, ["REFERENCES,", "TRIGGER,"]),
        (OLD, ["REFERENCES,", "TRIGGER,", "PROCESS:"]),
        (Server("mysql", (8, 0, 40), "8.0.40", gtids=True), ["REFERENCES,", "TRIGGER,", "XA_RECOVER_ADMIN:"]),
        (Server("mysql", (9, 7, 0), "9.7.0", gtids=True), ["TRIGGER,", "XA_RECOVER_ADMIN:"]),
    ],
)
def test_what_an_account_is_not_shown_is_a_warning(server: Server, lacks: list[str]) -> None:
    grants = "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT, BINLOG MONITOR ON *.* TO `capture`"
    found = account(lambda _sql: [(grants,)], server, SOURCE)
    assert [(each.level, each.problem.split()[1]) for each in found] == [("warn", each) for each in lacks]
    granted = grants.replace("SELECT", "SELECT, REFERENCES, TRIGGER, XA_RECOVER_ADMIN, PROCESS")
    assert account(lambda _sql: [(granted,)], server, SOURCE) == []


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


def test_an_entry_of_a_table_that_is_not_there_is_warned_of() -> None:
    source = SourceDefinition.model_validate(SOURCE.model_dump() | {"filter": {"user": {"ignored_columns": ["email"]}}})
    (found,) = _policy({("shop", "users"): TableInfo("shop", "users")}, source)
    assert (found.place, found.level) == ("filter.user", "warn")
