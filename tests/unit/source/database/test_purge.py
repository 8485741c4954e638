"""How long the server keeps what capture needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.record.position import BinlogPosition
from include.source.database.binlog_files import read_retention
from include.source.database.preflight import short_horizon
from include.source.database.purge import ListedBinlogFile, PurgeHorizon, Retention, horizon, lag_bytes
from include.source.database.server import Server

HOUR_US = 3_600_000_000
NOW_US = 1_000 * HOUR_US
FILES = (
    ListedBinlogFile("bin.000007", 1000),
    ListedBinlogFile("bin.000008", 1000),
    ListedBinlogFile("bin.000009", 300),
)
BEGAN = {"bin.000007": NOW_US - 46 * HOUR_US, "bin.000008": NOW_US - 20 * HOUR_US, "bin.000009": NOW_US - HOUR_US}
DAYS_2 = Retention(48 * 3600)


def at(file: int, pos: int = 4) -> BinlogPosition:
    return BinlogPosition(f"bin.{file:06}", pos)


def untold(_file: str) -> int | None:
    return None


def test_bytes_behind_are_those_after_the_position() -> None:
    assert lag_bytes(FILES, at(9, 300)) == 0
    assert lag_bytes(FILES, at(9, 100)) == 200
    assert lag_bytes(FILES, at(7, 900)) == 100 + 1000 + 300
    assert lag_bytes(FILES, at(6)) is None
    # The list was read before the position moved on.
    assert lag_bytes(FILES, at(9, 400)) == 0


def test_a_file_is_purged_when_its_last_write_is_too_old() -> None:
    # The last write of 7 was when 8 began, 20 hours ago.
    assert horizon(FILES, DAYS_2, at(7), BEGAN.get, NOW_US).hours == pytest.approx(28)
    assert horizon(FILES, DAYS_2, at(8), BEGAN.get, NOW_US).hours == pytest.approx(47)


def test_the_file_that_is_being_written_has_the_whole_time_before_it() -> None:
    found = horizon(FILES, DAYS_2, at(9), untold, NOW_US)
    assert found == PurgeHorizon(48.0, "its limit of time; the file is still being written")
    assert not found.short


def test_a_file_that_may_be_purged_at_any_time_has_no_hours_left() -> None:
    assert horizon(FILES, Retention(3600), at(7), BEGAN.get, NOW_US).hours == 0
    assert horizon(FILES, Retention(3600), at(7), BEGAN.get, NOW_US).short


def test_a_limit_of_bytes_is_reached_at_the_rate_of_writes() -> None:
    # 2,300 bytes in 46 hours are 50 an hour; 8 and 9 hold 1,300, so 700 are left of 2,000.
    found = horizon(FILES, Retention(0, 2000), at(8), BEGAN.get, NOW_US)
    assert found.hours == pytest.approx(14)
    assert "limit of bytes" in found.basis
    assert horizon(FILES, Retention(0, 1200), at(8), BEGAN.get, NOW_US).hours == 0


def test_of_two_limits_the_nearer_one_counts() -> None:
    assert horizon(FILES, Retention(48 * 3600, 2000), at(8), BEGAN.get, NOW_US).hours == pytest.approx(14)
    assert horizon(FILES, Retention(24 * 3600, 200_000), at(8), BEGAN.get, NOW_US).hours == pytest.approx(23)


@pytest.mark.parametrize(
    ("retention", "position", "began", "says"),
    [
        (Retention(0), at(7), BEGAN.get, "never"),
        (Retention(None), at(7), BEGAN.get, "unknown: the server does not tell its limit"),
        (DAYS_2, at(7), untold, "unknown: the server does not tell the age"),
        (Retention(0, 2000), at(8), untold, "unknown: the server does not tell the age"),
        (DAYS_2, BinlogPosition("other.000007", 4), BEGAN.get, "unknown: the server has no file of that name"),
        (DAYS_2, at(10), BEGAN.get, "unknown: the server has no file of that name"),
    ],
)
def test_what_is_not_known_is_said_to_be_so(
    retention: Retention, position: BinlogPosition, began: Callable[[str], int | None], says: str
) -> None:
    found = horizon(FILES, retention, position, began, NOW_US)
    assert (found.hours, found.short) == (None, False)
    assert found.basis.startswith(says)


def test_a_purged_position_has_no_hours_left() -> None:
    assert horizon(FILES, DAYS_2, at(6), BEGAN.get, NOW_US) == PurgeHorizon(0.0, "the server has purged the file")


@given(
    sizes=st.lists(st.integers(0, 10_000), min_size=1, max_size=6),
    data=st.data(),
    age_s=st.one_of(st.none(), st.integers(0, 10**7)),
    total=st.integers(0, 100_000),
)
def test_hours_are_never_negative_and_shrink_as_time_goes(
    sizes: list[int], data: st.DataObject, age_s: int | None, total: int
) -> None:
    files = tuple(ListedBinlogFile(f"bin.{i:06}", size) for i, size in enumerate(sizes, 1))
    position = at(data.draw(st.integers(1, len(files))))
    retention = Retention(age_s)
    first = horizon(files, retention, position, lambda _: NOW_US, NOW_US).hours
    later = horizon(files, retention, position, lambda _: NOW_US, NOW_US + HOUR_US).hours
    assert (first is None) == (later is None)
    assert first is None or later is None or 0 <= later <= first
    both = horizon(files, Retention(age_s, total), position, lambda _: NOW_US - HOUR_US, NOW_US).hours
    assert both is None or both >= 0


def _said(**values: str) -> Callable[..., list[tuple[Any, ...]]]:
    def ask(sql: str, name: str = "rds") -> list[tuple[Any, ...]]:
        if name == "rds":
            assert "mysql.rds_configuration" in sql
            if "rds" not in values:
                raise Terminal("the account lacks a privilege")
            return [(values["rds"] or None,)] if values["rds"] != "none" else []
        value = values.get(name.replace("\\_", "_"))
        return [] if value is None else [(name, value)]

    return ask


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"expire_logs_days": "10"}, Retention(864_000.0)),
        ({"expire_logs_days": "0.5", "binlog_expire_logs_seconds": "43200"}, Retention(43_200.0)),
        ({"expire_logs_days": "0", "binlog_expire_logs_seconds": "0"}, Retention(0.0)),
        ({"expire_logs_days": "0", "binlog_expire_logs_seconds": "2592000"}, Retention(2_592_000.0)),
        ({"binlog_expire_logs_seconds": "0"}, Retention(0.0)),
        ({"binlog_expire_logs_seconds": "60", "binlog_expire_logs_auto_purge": "OFF"}, Retention(0.0)),
        ({"expire_logs_days": "0", "max_binlog_total_size": "1000"}, Retention(0.0, 1000)),
        ({}, Retention(None)),
        ({"expire_logs_days": "soon"}, Retention(None)),
    ],
)
def test_each_servers_limits_are_read(said: dict[str, str], expected: Retention) -> None:
    server = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB", gtids=True)
    assert read_retention(_said(**said), server) == expected


RDS = {"basedir": "/rdsdbbin/mysql-8.0.35.R4/", "binlog_expire_logs_seconds": "2592000"}


def test_on_rds_its_own_table_rules_whatever_the_variables_say() -> None:
    server = Server("mysql", (8, 0, 35), "8.0.35", gtids=True)
    retention = read_retention(_said(**RDS, rds="24"), server)
    assert retention.age_s == 86_400
    found = horizon(FILES, retention, at(8), BEGAN.get, NOW_US)
    assert found.hours == pytest.approx(23)
    assert "binlog retention hours" in found.basis


@pytest.mark.parametrize("value", ["", "none"])
def test_on_rds_without_a_number_of_hours_files_go_at_once(value: str) -> None:
    server = Server("mysql", (8, 0, 35), "8.0.35", gtids=True)
    found = horizon(FILES, read_retention(_said(**RDS, rds=value), server), at(9), BEGAN.get, NOW_US)
    assert found.short
    assert found.hours == 0
    assert "rds_set_configuration" in found.basis
    assert short_horizon(found)


def test_on_rds_an_account_that_may_not_read_the_rule_is_warned() -> None:
    server = Server("mysql", (8, 0, 35), "8.0.35", gtids=True)
    found = horizon(FILES, read_retention(_said(**RDS), server), at(9), BEGAN.get, NOW_US)
    assert found.hours is None
    (finding,) = short_horizon(found)
    assert "mysql.rds_configuration" in finding.problem
    assert finding.level == "warn"


def test_files_that_go_long_before_the_limit_are_believed_where_the_server_is_older() -> None:
    month = Retention(30 * 24 * 3600, up_s=90 * 24 * 3600)
    found = horizon(FILES, month, at(9), BEGAN.get, NOW_US)
    assert found.hours == pytest.approx(46)
    assert "somebody purges" in found.basis
    assert horizon(FILES, month, at(8), BEGAN.get, NOW_US).hours == pytest.approx(45)
    # The oldest file is nearly as old as the limit, or the server no older than the file.
    for retention in (Retention(48 * 3600, up_s=90 * 24 * 3600), Retention(30 * 24 * 3600, up_s=47 * 3600)):
        found = horizon(FILES, retention, at(9), BEGAN.get, NOW_US)
        assert found.hours == (retention.age_s or 0) / 3600
    # Nothing was purged yet.
    files = tuple(ListedBinlogFile(f"bin.{n:06}", 1000) for n in (1, 2, 3))
    assert horizon(files, month, at(3), lambda _: NOW_US - HOUR_US, NOW_US).hours == 720
    # Nor does a server purge by itself that has no limit, and somebody does.
    assert horizon(FILES, Retention(0.0, up_s=90 * 24 * 3600), at(9), BEGAN.get, NOW_US).hours == pytest.approx(46)
