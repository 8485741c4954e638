"""Binlogs of servers that do not run here, out of MariaDB's own test data: MySQL 8.0, MariaDB 10.0 and 10.3, older."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from include.clock import SystemClock
from include.errors import Terminal
from include.source.binlog.events import parse_query
from include.source.binlog.files import BinlogFileError, read_events
from include.source.binlog.reader import EventReader, EventType
from include.source.cat.cat import Cat
from include.source.cat.schema_rows import described
from tests.support.servers import known
from tests.support.servers.fetch import fetch
from tests.support.servers.fixture import require_here
from tests.support.servers.program import program

NAME = "mariadb-10.11"
CREATED = re.compile(r"`?(\w+)`? (?:(int)(?:eger)?|(char\(12\)))")
# What a sequence is to its server: a table of one row.
SEQUENCE = "next_not_cached_value minimum_value maximum_value start_value increment cache_size cycle_option cycle_count"
# File → what must be said of it: none has its rows in events of today.
TEXT = {
    "binlog_savepoint": "logged as text",
    "binlog_transaction": "logged as text",
    "bug16266": "logged as text",
    "mariadb-5.5-binlog": "logged as text",
    "mdev29078-mysql-bin": "logged as text",
    "bug33029-slave-relay-bin": "logged as text|of a type that is not read",
    "bug40482-bin": "of a type that is not read",
    "bug47142_master-bin": "of a server before MySQL 5.0",
    "trunc_binlog": "of a server before MySQL 5.0",
    "master-bin": "of a server before MySQL 5.0",
    "rpl/mysql-5.7.11-stm-temporal-round-binlog": "logged as text|of a type that is not read",
    "rpl/mysql-8.0.13-stm-temporal-round-binlog": "logged as text|of a type that is not read",
}


@pytest.fixture
def folder() -> Path:
    require_here(NAME)
    fetch(known(NAME), SystemClock())
    return program(known(NAME)).base / "share" / "mysql" / "mysql-test" / "std_data"


def read(path: Path, schema: Iterable[dict[str, Any]] = ()) -> tuple[list[dict[str, Any]], list[Terminal], int]:
    """Its changes, what was refused, and how many of its bytes were events."""
    refused: list[Terminal] = []
    cat = Cat(refused.append, Path(gettempdir()), described(schema))
    cat.on_file(path.name)
    size = 4
    lines: list[dict[str, Any]] = []
    for data in read_events(path):
        size += len(data)
        lines += cat.on_event(data)
    assert cat.on_end() is None
    return lines, refused, size


def counted(lines: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    return Counter((line["table"], line["op"]) for line in lines)


def column(table: str, place: int, name: str, kind: str) -> dict[str, Any]:
    charset = "latin1" if "char" in kind else None
    return {
        "table_schema": "test",
        "table_name": table,
        "ordinal_position": place,
        "column_name": name,
        "column_type": kind,
        "character_set_name": charset,
    }


def created(path: Path) -> list[dict[str, Any]]:
    """What information_schema said of the tables that the file creates."""
    reader, rows = EventReader(path.name), []
    for data in read_events(path):
        event = reader.parse(data)
        text = parse_query(event).text if event.type is EventType.QUERY else ""
        if text.startswith("CREATE TABLE"):
            head, _, body = text.partition("(")
            table = head.split("`")[1]
            columns = CREATED.findall(body.partition("/*Indices*/")[0])
            rows += [column(table, place, name, a or b) for place, (name, a, b) in enumerate(columns, 1)]
    return rows


def test_a_binlog_of_mysql_8_0_is_read_to_its_last_byte(folder: Path) -> None:
    path = folder / "mdev35643_mysql_80_binlog.000001"
    lines, refused, size = read(path)
    assert size == path.stat().st_size
    assert counted(lines) == {("t1", "c"): 105, ("t2", "u"): 1}
    assert [line["after"]["@1"] for line in lines[:4]] == [1, 2, 3, 4]
    assert lines[4]["after"]["@3"].startswith("--0--")
    # One of its statements was logged as text; no event holds its row.
    (text,) = refused
    assert "logged as text" in str(text)
    assert "INSERT INTO t2" in str(text)


def test_every_change_of_a_binlog_of_mariadb_10_0_continues_the_ones_before(folder: Path) -> None:
    path = folder / "mdev6020-mysql-bin.000001"
    lines, refused, size = read(path, created(path))
    assert (refused, size) == ([], path.stat().st_size)
    tables: dict[tuple[str, int], dict[str, Any]] = {}
    for line in lines:
        before, after = line["before"], line["after"]
        if before is not None:
            assert tables.pop((line["table"], before["pk"])) == before
        if after is not None:
            assert tables.setdefault((line["table"], after["pk"]), after) is after
    assert Counter(line["op"] for line in lines) == {"c": 2681, "u": 3986, "d": 1339}


def test_rows_of_a_sequence_of_mariadb_10_3_are_read(folder: Path) -> None:
    path = folder / "rpl" / "master-bin-seq_10.3.36.000001"
    kinds = {"cache_size": "bigint(21) unsigned", "cycle_option": "tinyint(1) unsigned"}
    schema = [column("s1", n, name, kinds.get(name, "bigint(21)")) for n, name in enumerate(SEQUENCE.split(), 1)]
    lines, refused, size = read(path, schema)
    assert (refused, size) == ([], path.stat().st_size)
    assert [line["after"]["next_not_cached_value"] for line in lines] == [1001, 2]


@pytest.mark.parametrize("name", TEXT)
def test_what_is_not_in_row_format_is_refused_by_name(name: str, folder: Path) -> None:
    path = folder / f"{name}.000001"
    lines, refused, size = read(path)
    assert lines == []
    assert size == path.stat().st_size
    assert re.search(TEXT[name], str(refused[0]))
    assert all(path.name in str(each) or "master-bin" in str(each) for each in refused)


def test_events_that_fail_their_checksum_are_refused(folder: Path) -> None:
    lines, refused, _ = read(folder / "mdev-39404-binlog.000001")
    assert lines == []
    assert [each.message for each in refused] == ["binlog event fails its checksum"]


def test_a_file_that_ends_inside_of_an_event_is_refused_there(folder: Path) -> None:
    with pytest.raises(BinlogFileError, match="ends inside of an event") as refused:
        read(folder / "bug11747416_32228_binlog.000001")
    assert refused.value.details["byte"] == 316
