"""Rows that come with their fact row: a correction or an erasure of one alone reaches the documents that show it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from include.document.definition import DocumentDefinition, definitions
from include.errors import SettingsError
from include.log import topics
from include.log.control import ControlRecord
from include.log.resolved import ResolvedRecord
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from tests.support.documents.order_harness import DEFINITION, TOPIC, OrderHarness, Process, live

FIRST = {"table": "orders", "where": {"order_id": "order_id"}, "order_by": ["id"], "value": "partner_id"}
HEARD = DocumentDefinition.model_validate(
    {
        **DEFINITION.model_dump(),
        "lookups": {**DEFINITION.model_dump()["lookups"], "first_partner": FIRST},
        "corrected": ["lines", "orders"],
    }
)


@pytest.fixture
def world() -> OrderHarness:
    made = OrderHarness(HEARD)
    made.furnish()
    return made


@pytest.fixture
def running(world: OrderHarness) -> Process:
    process = Process(world)
    process.settle(4)
    return process


def test_a_line_that_is_corrected_or_erased_after_its_order_reaches_the_document(
    world: OrderHarness, running: Process
) -> None:
    for order_id in (1, 2):
        world.order(order_id)
    running.batches()
    world.update("lines", 1, quantity=5)
    running.batches()
    first = world.documents()[1]
    assert first is not None
    assert first["lines"][0]["quantity"] == 5
    world.delete("lines", 1)
    running.batches()
    first = world.documents()[1]
    assert first is not None
    assert first["lines"] == []
    assert [len(world.versions(order_id)) for order_id in (1, 2)] == [3, 1]


def test_a_row_that_comes_with_its_order_is_no_signal_of_its_own(world: OrderHarness, running: Process) -> None:
    world.order(1)
    world.order(2, "pending")
    running.batches()
    assert [signals.rows for signals in running.signals if signals.rows] == []
    assert len(world.versions(1)) == 1
    counts = running.signals[-1].counts
    assert counts["read"] == sum(counts[each] for each in ("applied", "superseded", "filtered", "set_aside"))


def test_an_earlier_row_of_the_entity_that_is_corrected_while_transient_reaches_the_document(
    world: OrderHarness, running: Process
) -> None:
    earlier = world.order(1, "pending")
    world.order(1)
    running.batches()
    world.update("orders", earlier["id"], partner_id=2)
    running.batches()
    shown = world.documents()[1]
    assert shown is not None
    assert shown["first_partner"] == 2
    assert len(world.versions(1)) == 2


def test_a_transient_row_that_changes_in_nothing_that_documents_show_is_none(
    world: OrderHarness, running: Process
) -> None:
    row = world.order(1, "pending")
    running.batches()
    world.update("orders", row["id"], policy_id=1)
    running.batches()
    assert running.signals[-1].rows == {}
    assert live(world.documents()) == {}


def test_a_truncated_table_of_them_renews_all_documents_and_a_gap_in_it_is_told(
    world: OrderHarness, running: Process
) -> None:
    world.order(1)
    running.batches()
    world.tables.tables["lines"].clear()
    world.capture.uncovered = ("shop.lines", "shop.policies")
    world.capture.commit(control=ControlRecord("truncate", "shop", "lines", world.capture.version + 1))
    running.batches()
    shown = world.documents()[1]
    assert shown is not None
    assert shown["lines"] == []
    newest = [r.value for r in world.records(topics.resolved(TOPIC)) if r.value][-1]
    assert ResolvedRecord.parse(newest).uncovered == ("shop.lines",)


def test_tables_that_are_read_and_not_heard_are_told() -> None:
    assert DEFINITION.unheard() == ["lines", "policies"]
    assert HEARD.unheard() == ["policies"]


def test_the_shipped_document_hears_every_table_that_it_shows() -> None:
    shipped = yaml.safe_load((PROJECT_ROOT / "include/deployment/documents.yaml").read_text("utf-8"))
    assert DocumentDefinition.model_validate(shipped["documents"]["assembled_order"]).unheard() == []


@pytest.mark.parametrize(("corrected", "says"), [(["payments"], "no look-up"), (["partners"], "under `signals`")])
def test_a_table_that_is_not_read_or_signals_already_is_refused(
    tmp_path: Path, corrected: list[str], says: str
) -> None:
    entry = {**DEFINITION.model_dump(), "corrected": corrected}
    values = {
        "documents": {TOPIC: entry},
        "applications": {"assemble_orders": {"entry": "spark_apps/assemble_documents.py", "topics": [TOPIC]}},
        "sources": {"shop": {"host": "h", "user": "u", "password": "p", "databases": ["shop"]}},
    }
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(SettingsError, match=says) as error:
        definitions(Deployment.load(tmp_path))
    assert f"documents.{TOPIC}.corrected.0" in str(error.value)
