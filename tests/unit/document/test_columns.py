"""Columns that change under a running assembler, and columns that no document can be made of."""

from __future__ import annotations

import pytest

from include.errors import SettingsError, Terminal
from include.log import topics
from include.log.control import ControlRecord
from include.record.schema import Column
from tests.support.documents.order_harness import APPLICATION, COLUMNS, TOPIC, OrderHarness, Process, live


@pytest.fixture
def world() -> OrderHarness:
    made = OrderHarness()
    made.furnish()
    return made


@pytest.fixture
def running(world: OrderHarness) -> Process:
    process = Process(world)
    process.settle(2)
    return process


def alter(world: OrderHarness, table: str, column: str, to: str | None) -> None:
    """Another type; None: the column is dropped. The running snapshots see it as the server does: at once."""
    columns = [each for each in COLUMNS[table] if each.name != column]
    more = [] if to is None else [Column(column, to)]
    world.tables._columns = {**COLUMNS, table: (*columns, *more)}


def test_a_value_that_fits_only_the_column_as_it_is_now_makes_its_document(
    world: OrderHarness, running: Process
) -> None:
    world.order(1)
    alter(world, "lines", "quantity", "bigint")
    world.tables.tables["lines"][-1]["quantity"] = 2**32
    world.order(2)
    running.batches()
    assert live(world.documents()) == world.expected()
    assert world.records(topics.dead(TOPIC, APPLICATION)) == []


def test_a_declared_column_that_goes_stops_the_stage_before_anything_is_written(
    world: OrderHarness, running: Process
) -> None:
    world.order(1)
    alter(world, "partners", "name", None)
    world.capture.commit(control=ControlRecord("schema", "shop", "partners", 0))
    with pytest.raises(Terminal) as refused:
        running.batches()
    assert (refused.value.details["table"], refused.value.details["column"]) == ("partners", "name")
    assert world.documents() == {}


def test_a_changed_schema_of_another_database_is_nothing_to_look_at(world: OrderHarness, running: Process) -> None:
    alter(world, "partners", "name", None)
    world.capture.commit(control=ControlRecord("schema", "elsewhere", "partners", 0))
    running.batches()
    assert not running.signals[-1].altered


@pytest.mark.parametrize(
    ("table", "column", "kind", "reason"),
    [
        ("orders", "state", "tinyint", "states are texts"),
        ("partners", "id", "varchar", r"never equal.*column='id', type='varchar', above='orders.partner_id'"),
        ("partners", "region_id", "binary", r"never equal.*above='partners.region_id', above_type='binary'"),
        ("orders", "id", "datetime", r"never equal.*column='order_row', type='bigint'"),
    ],
)
def test_columns_that_could_never_make_a_document_are_refused_at_the_start(
    world: OrderHarness, table: str, column: str, kind: str, reason: str
) -> None:
    alter(world, table, column, kind)
    with pytest.raises(SettingsError, match=reason):
        Process(world).start()
