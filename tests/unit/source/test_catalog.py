"""What capture asks the server about its tables: one table at a time, and again when it may be another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.errors import Terminal
from include.policy.policy import Policy
from include.record.schema import Column
from include.source.binlog.step import RowsEvent
from include.source.catalog.catalog import TableCatalog
from include.source.catalog.description import ColumnMismatch, TableDescriber
from include.source.database.server import Server
from include.source.database.table_info import TableInfo
from include.source.rows.layout import Layout
from tests.support.binlog.decoded_recording import HASHED, info_of, server_of, transactions
from tests.support.binlog.recorded_mariadb import MAP, SCHEMA
from tests.support.golden.recording import load, names

SERVER = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True)
POLICY = Policy.declared("accept", {}, ["shop"], "", {})
OTHER = replace(MAP, table="u")


def info(name: str, *more: Column) -> TableInfo:
    made = TableInfo("shop", name)
    made.columns, made.key = [*SCHEMA.columns, *more], SCHEMA.key
    return made


class Told:
    """Remembers what is asked of a server with the tables t and u."""

    def __init__(self) -> None:
        self.tables = {("shop", name): info(name) for name in ("t", "u")}
        self.asked: list[str] = []
        self.catalog = TableCatalog(self.all, SERVER, POLICY, lambda _, table: table == "u", self.one)

    def all(self) -> dict[tuple[str, str], TableInfo]:
        self.asked.append("all")
        return self.tables

    def one(self, database: str, table: str) -> TableInfo | None:
        self.asked.append(table)
        return self.tables.get((database, table))


def test_a_table_is_described_at_its_first_rows_and_no_other_with_it() -> None:
    told = Told()
    assert told.catalog.layout(MAP) is told.catalog.layout(MAP)
    assert told.catalog.table(("shop", "t")) is told.tables["shop", "t"]
    assert told.asked == ["t"]
    assert told.catalog.table(("shop", "none")) is told.catalog.table(("shop", "none")) is None
    assert told.asked == ["t", "none"]


def test_what_is_known_of_all_is_not_asked_of_one() -> None:
    told = Told()
    assert set(told.catalog.tables()) == {("shop", "t"), ("shop", "u")}
    told.catalog.layout(MAP)
    assert told.catalog.table(("shop", "none")) is None
    assert told.asked == ["all"]


def test_a_statement_makes_forgotten_what_it_names_alone() -> None:
    told = Told()
    first, other = told.catalog.layout(MAP), told.catalog.layout(OTHER)
    assert (told.catalog.cascades_into(("shop", "t")), told.catalog.cascades_into(("shop", "u"))) == (False, True)
    told.catalog.forget([("shop", "t")])
    assert told.catalog.layout(OTHER) is other
    assert told.catalog.layout(MAP) is not first
    assert told.asked == ["t", "u", "t"]
    told.catalog.forget()
    assert told.catalog.layout(OTHER) is not other
    assert told.asked == ["t", "u", "t", "u"]


def test_where_many_tables_are_needed_all_are_asked_for_at_once() -> None:
    told = Told()
    names = [f"t{number}" for number in range(1000)]
    told.tables = {("shop", name): info(name) for name in names}
    for name in names:
        assert told.catalog.table(("shop", name)) is told.tables["shop", name]
    assert len(told.asked) <= 201
    assert told.asked.count("all") == 1
    # What one statement names is asked for alone all the same, however often.
    told.asked.clear()
    for _ in range(300):
        told.catalog.forget([("shop", "t7")])
        told.catalog.table(("shop", "t7"))
    assert told.asked == ["t7"] * 300
    del told.tables["shop", "t7"]
    told.catalog.forget([("shop", "t7")])
    assert ("shop", "t7") not in told.catalog.tables()
    assert told.catalog.table(("shop", "t7")) is None


def test_a_table_in_memory_is_known_whether_it_is_captured_or_not() -> None:
    told = Told()
    told.catalog.tables()
    told.tables["shop", "m"] = info("m")
    assert not told.catalog.in_memory("shop", "m")
    told.tables["shop", "m"].engine = "MEMORY"
    assert told.catalog.in_memory("shop", "m")
    assert not told.catalog.in_memory("shop", "t")


def test_a_map_that_fits_no_more_makes_its_table_asked_for_once_more() -> None:
    told = Told()
    told.catalog.layout(MAP)
    told.tables["shop", "t"] = info("t", Column("w", "int"))
    wider = replace(MAP, types=MAP.types + b"\x03", metas=(*MAP.metas, 0), nullable=(*MAP.nullable, True), names=())
    assert len(told.catalog.layout(wider).fields) == 4
    assert told.asked == ["t", "t"]
    strange = replace(wider, types=b"\x03\x03\x0f\x01")
    with pytest.raises(Terminal, match="the table was altered since its rows were written"):
        told.catalog.layout(strange)
    assert told.asked == ["t", "t", "t"]


def test_a_description_of_today_says_why_it_does_not_fit_a_map() -> None:
    describer, today = TableDescriber(SERVER, POLICY), info("t")
    found = describer.today(MAP, today)
    assert isinstance(found, Layout)
    assert found.shape == describer.shape(today)
    assert describer.today(MAP, None) == ColumnMismatch("", "the table is gone")
    assert describer.today(replace(MAP, key=(0, 1)), today) == ColumnMismatch("", "its primary key was id, part")
    assert describer.today(MAP, info("t", Column("w", "int"))) == ColumnMismatch(
        "", "the map has 3 columns, the table 4"
    )


def test_rows_of_another_primary_key_are_read_by_their_own_map() -> None:
    told = Told()
    assert told.catalog.layout(replace(MAP, key=(0, 1))).shape.schema.key == ("id", "part")
    assert told.catalog.layout(MAP).shape.schema.key == ("id",)


@pytest.mark.parametrize(("server", "case"), [name for name in names() if name[1] in HASHED])
def test_columns_that_mariadb_hides_behind_a_unique_text_are_read_and_do_not_leave(server: str, case: str) -> None:
    recording = load(server, case)
    maps = dict.fromkeys(
        step.table for each in transactions(recording) for step in each.steps if isinstance(step, RowsEvent)
    )
    described = recording.descriptions(7)
    tables = {table: info_of(table, description) for table, description in described.items()}
    policy = Policy.declared("accept", {}, ["golden"], "", {})
    catalog = TableCatalog(lambda: tables, server_of(server), policy)
    found = {(len(each.types), each.table): catalog.layout(each) for each in list(maps)[:2]}
    assert {place: len(each.shape.columns) for place, each in found.items()} == {(6, "t"): 6, (5, "old"): 5}
    for (_, table), each in found.items():
        visible = [column.name for column in tables["golden", table].columns]
        assert [column.name for column in each.shape.schema.columns] == visible
    # After an index was dropped the map alone tells what older rows are.
    tables["golden", "t"].hashed = 1
    catalog.forget()
    if case == "hash-keys":
        assert [c.name for c in catalog.layout(next(iter(maps))).shape.schema.columns] == ["id", "v", "b", "n"]
    else:
        with pytest.raises(Terminal, match="was altered"):
            catalog.layout(next(iter(maps)))
