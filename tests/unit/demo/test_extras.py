from __future__ import annotations

from collections import Counter

import pytest
import yaml

from demo.extras import EXTRAS, ORDER_SEARCH, parts, services
from demo.joins import told_of_rows
from include.errors import SettingsError
from include.local.services import SERVICES, select
from include.search.dark_rows.report import DarkRowOutcome, DarkRowsReport
from include.settings.environment import PROJECT_ROOT


def test_the_main_job_is_always_part_of_the_demo() -> None:
    assert parts("") == [ORDER_SEARCH]


def test_an_unknown_part_is_refused_with_the_list_of_those_that_exist() -> None:
    with pytest.raises(SettingsError) as refused:
        parts("lakes")
    assert refused.value.details["got"] == "lakes"
    assert all(name in str(refused.value) for name in EXTRAS)
    assert "allowed" in str(refused.value)


def test_a_part_joins_once_however_often_it_is_named() -> None:
    assert parts("lake, lake") == [ORDER_SEARCH, EXTRAS["lake"]]


def test_a_service_that_is_optional_is_started_for_its_part_alone() -> None:
    for wanted in ("", "lake"):
        assert services(parts(wanted)) == [row.name for row in select()]
    assert set(services(parts("lake,joins"))) == {row.name for row in SERVICES}


def test_a_part_starts_and_makes_only_what_the_deployment_declares() -> None:
    folder = PROJECT_ROOT / "include" / "deployment"
    names = {path.stem: yaml.safe_load(path.read_text()) for path in folder.glob("*.yaml")}
    streams = {f"stream_{name}" for name in names["applications"]["applications"]}
    for part in (ORDER_SEARCH, *EXTRAS.values()):
        assert set(part.streams) <= streams
        assert set(part.indexes) <= names["indexes"]["indexes"].keys()
        assert set(part.sources) <= names["sources"]["sources"].keys()
        shown = {f"stream_{name}" for name in part.applications if not name.startswith("capture-")}
        assert shown == set(part.streams)
        assert {name for name in part.applications if name.startswith("capture-")} == {
            f"capture-{source}" for source in part.sources
        }


def test_joined_rows_are_indexed_by_the_part_that_joins_alone() -> None:
    assert "stream_index_joined" in EXTRAS["joins"].streams
    others = [part for name, part in EXTRAS.items() if name != "joins"]
    assert not any("joined" in stream for part in (ORDER_SEARCH, *others) for stream in part.streams)
    assert not any("order_lines" in part.indexes for part in (ORDER_SEARCH, *others))


@pytest.mark.parametrize(
    ("outcomes", "items", "good"),
    [({"equal": 2}, 5, True), ({"equal": 1, "differs": 1}, 5, False), ({"undecided": 1}, 2, False), ({}, 0, False)],
)
def test_the_summary_is_good_only_where_lines_were_compared_and_none_differs(
    outcomes: dict[DarkRowOutcome, int], items: int, good: bool
) -> None:
    told = told_of_rows(DarkRowsReport("order_lines", Counter(outcomes), items, items), "order_row_id", "line_no")
    assert told.good is good
    assert told.values["dark_rows"]["documents"] == sum(outcomes.values())
    assert told.values["dark_rows"]["items"] == items
    assert f"{sum(outcomes.values())} documents with {items} items" in told.lines[0]
