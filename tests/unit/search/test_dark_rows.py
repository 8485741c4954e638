"""Documents beside the rows that a join made: the comparison, and how lag is told from real differences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pytest

from include.clock import ManualClock
from include.record.position import SourcePosition
from include.search.dark_rows.comparison import ReadDocument, RowDifference, differences, items_of
from include.search.dark_rows.definition import DarkRowsDefinition
from include.search.dark_rows.launch import compare_rows
from include.search.dark_rows.report import DarkRowsReport
from tests.unit.search.test_fresh import position

RULES = DarkRowsDefinition(
    documents="orders",
    rows="order_lines",
    of="row_id",
    items="lines",
    item="line_no",
    only={"state": ["completed", "cancelled"]},
    fields={"order_id": "order_id", "lines.name": "name", "lines.price": "price", "address.city": "city"},
)
LINES = (("Pizza", "7.70"), ("Cola", "2.00"))


def document(number: int = 1, lines: Sequence[tuple[str, str]] = LINES, **changes: Any) -> dict[str, Any]:
    items = [{"line_no": n, "name": name, "price": price} for n, (name, price) in enumerate(lines, 1)]
    body = {"row_id": 10 * number, "order_id": number, "state": "completed", "address": {"city": "Town"}}
    return {**body, "lines": items, **changes}


def rows_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    of_order = {"row_id": body["row_id"], "order_id": body["order_id"], "city": body["address"]["city"]}
    return [{**of_order, **line} for line in body["lines"]]


def found(body: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[RowDifference]:
    return differences(ReadDocument(body, tuple(rows)), RULES)


def test_a_document_and_the_rows_of_its_items_are_the_same() -> None:
    body = document()
    assert found(body, list(reversed(rows_of(body)))) == []
    assert items_of(ReadDocument(body, ()), RULES) == 2


def test_an_item_without_a_row_and_a_row_without_an_item_are_named() -> None:
    body = document()
    first, second = rows_of(body)
    assert found(body, [first, {**second, "line_no": 3}]) == [
        RowDifference("missing", "10", "2"),
        RowDifference("extra", "10", "3"),
    ]


@pytest.mark.parametrize(
    ("field", "value", "named", "wanted"),
    [
        ("name", "Pasta", "lines.name", "Pizza"),
        ("price", "7.71", "lines.price", "7.70"),
        ("price", None, "lines.price", "7.70"),
        ("city", "Village", "address.city", "Town"),
        ("order_id", 2, "order_id", 1),
    ],
)
def test_another_value_is_named_by_order_row_item_and_field(field: str, value: Any, named: str, wanted: Any) -> None:
    body = document()
    first, second = rows_of(body)
    assert found(body, [{**first, field: value}, second]) == [RowDifference("field", "10", "1", named, wanted, value)]


def test_an_item_has_a_row_for_each_partner_and_each_of_them_is_compared() -> None:
    body = document()
    first, second = rows_of(body)
    assert found(body, [first, first, second]) == []
    wrong = {**first, "name": "Pasta"}
    assert found(body, [first, wrong, wrong, second]) == [
        RowDifference("field", "10", "1", "lines.name", "Pizza", "Pasta")
    ]


def test_a_document_that_takes_no_part_has_no_rows() -> None:
    body = document(state="pending")
    assert found(body, []) == []
    assert items_of(ReadDocument(body, ()), RULES) == 0
    assert [each.kind for each in found(body, rows_of(body))] == ["extra", "extra"]


def test_items_are_named_in_their_order() -> None:
    body = document(lines=[("x", "1")] * 10)
    assert [each.item for each in found(body, [])] == [str(n) for n in range(1, 11)]


def test_a_value_that_is_an_object_is_compared_too() -> None:
    rules = RULES.model_copy(update={"fields": {"address": "address"}})
    body = document(lines=LINES[:1])
    (row,) = rows_of(body)
    assert differences(ReadDocument(body, ({**row, "address": {"city": "Town"}},)), rules) == []
    assert len(differences(ReadDocument(body, ({**row, "address": {"city": "x"}},)), rules)) == 1


class Harness:
    """Two indexes over one history of changes, each of which has applied a part of it."""

    def __init__(self, documents: int = 3) -> None:
        self.clock = ManualClock()
        self.history: list[dict[str, Any]] = [document(n) for n in range(1, documents + 1)]
        self.applied = {"documents": documents, "rows": documents}
        self.tells = True
        self.dropped: set[int] = set()
        self.reads = 0
        self.on_look: Callable[[], None] = lambda: None

    def bodies(self, side: str) -> dict[str, dict[str, Any]]:
        return {str(body["order_id"]): body for body in self.history[: self.applied[side]]}

    def pages(self) -> Iterator[Mapping[str, Mapping[str, Any]]]:
        for doc_id, body in self.bodies("documents").items():
            yield {doc_id: body}

    def documents(self, doc_ids: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        self.reads += 1
        return {doc_id: body for doc_id, body in self.bodies("documents").items() if doc_id in doc_ids}

    def rows(self, of: Collection[Any]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        bodies = [body for body in self.bodies("rows").values() if body["order_id"] not in self.dropped]
        return {str(body["row_id"]): rows_of(body) for body in bodies if body["row_id"] in of}

    def position(self) -> SourcePosition | None:
        return position(len(self.history)) if self.tells else None

    def visible(self) -> tuple[SourcePosition | None, SourcePosition | None]:
        self.on_look()
        return position(self.applied["documents"]), position(self.applied["rows"])

    def compared(self) -> DarkRowsReport:
        return compare_rows("order_lines", self, RULES, self.clock, 5.0)


def test_all_documents_are_compared_and_counted_with_their_items_and_rows() -> None:
    report = Harness().compared()
    assert (report.documents, report.items, report.rows, report.outcomes["equal"]) == (3, 6, 6, 3)
    assert report.good


def test_rows_that_come_later_are_lag() -> None:
    world = Harness()
    world.applied["rows"] = 1

    def catch_up() -> None:
        world.applied["rows"] = min(3, world.applied["rows"] + 1)

    world.on_look = catch_up
    report = world.compared()
    assert (report.outcomes["equal"], report.outcomes["lag"], report.good) == (1, 2, True)
    assert (report.documents, report.items) == (3, 6)


def test_documents_that_come_later_are_lag_too() -> None:
    world = Harness(documents=2)
    world.history.append(document(1, [("Pasta", "1.00")]))
    world.applied = {"documents": 2, "rows": 3}
    world.on_look = lambda: world.applied.update(documents=3)
    report = world.compared()
    assert (report.outcomes["equal"], report.outcomes["lag"], report.good) == (1, 1, True)


def test_what_differs_at_the_databases_position_differs() -> None:
    world = Harness()
    world.dropped = {2}
    report = world.compared()
    assert (report.outcomes["differs"], report.outcomes["equal"], report.good) == (1, 2, False)
    assert report.found == {"missing": 2}
    assert report.lines("order row", "line")[2:] == [
        "missing: order row 20, line 1",
        "missing: order row 20, line 2",
    ]


def test_a_document_that_changed_meanwhile_is_judged_by_a_later_position() -> None:
    world = Harness(documents=2)
    world.dropped = {2}

    def change() -> None:
        if len(world.history) == 2:
            world.history.append(document(2, [("Pasta", "1.00")]))
            world.applied = {"documents": 3, "rows": 2}
        else:
            world.dropped, world.applied["rows"] = set(), 3

    world.on_look = change
    report = world.compared()
    assert (report.outcomes["lag"], report.outcomes["differs"]) == (1, 0)


def test_one_that_changes_is_read_again_until_it_stays() -> None:
    world = Harness(documents=1)
    world.dropped = {1}
    looked: list[int] = []

    def change() -> None:
        looked.append(1)
        if len(looked) <= 2:
            world.history.append(document(1, [(f"Pasta {len(looked)}", "1.00")]))
            world.applied = {"documents": len(world.history), "rows": len(world.history)}

    world.on_look = change
    report = world.compared()
    assert report.outcomes["differs"] == 1
    assert world.reads == 3
    assert report.items == 1


def test_nothing_is_said_of_what_an_index_does_not_reach_in_time() -> None:
    world = Harness()
    world.applied["rows"] = 2
    report = world.compared()
    assert (report.outcomes["undecided"], report.outcomes["equal"]) == (1, 2)
    assert world.clock.monotonic_s() >= 5
    assert (report.good, report.differs) == (False, False)
    assert report.lines("order row", "line")[-1].startswith("next: see by `lyrebird index status`")


def test_nothing_is_said_where_the_database_does_not_tell_its_position() -> None:
    world = Harness()
    world.tells, world.dropped = False, {1}
    report = world.compared()
    assert (report.outcomes["undecided"], report.good, report.differs) == (1, False, False)


def test_a_document_that_has_gone_meanwhile_is_compared_with_nothing() -> None:
    world = Harness()
    world.dropped = {3}
    world.documents = lambda doc_ids: {}  # type: ignore[method-assign]
    report = world.compared()
    assert (report.documents, report.good) == (2, True)


def test_more_than_a_thousand_that_differ_are_settled_on_the_way() -> None:
    world = Harness(documents=1200)
    world.dropped = set(range(1, 1201))
    report = world.compared()
    assert (report.outcomes["differs"], report.found["missing"]) == (1200, 2400)
    assert world.reads == 2
    assert len(report.examples) == 1000
    assert report.lines("order row", "line")[-1] == "… and 2,380 more (--json shows 1,000)"


def test_an_empty_comparison_is_not_good() -> None:
    report = Harness(documents=0).compared()
    assert (report.documents, report.good) == (0, False)
    pending = Harness(documents=1)
    pending.history, pending.dropped = [document(1, state="pending")], {1}
    report = pending.compared()
    assert (report.documents, report.items, report.good) == (1, 0, False)


def test_the_report_is_told_as_json_and_in_words() -> None:
    world = Harness(documents=1)
    world.history = [document(1)]
    world.rows = lambda of: {"10": [{**row, "name": "Pasta"} for row in rows_of(document(1))]}  # type: ignore[method-assign]
    report = world.compared()
    said = report.to_json()
    assert (said["documents"], said["items"], said["rows"], said["good"]) == (1, 2, 2, False)
    assert said["outcomes"] == {"equal": 0, "lag": 0, "differs": 1, "undecided": 0}
    assert said["found"] == {"field lines.name": 2}
    assert said["differences"][0] == {
        "kind": "field",
        "of": "10",
        "item": "1",
        "field": "lines.name",
        "document": "Pizza",
        "row": "Pasta",
    }
    assert report.lines("order row", "line") == [
        "dark rows order_lines: 1 documents with 2 items, 2 rows",
        "  0 equal, 0 lag, 1 differs, 0 undecided",
        "field: order row 10, line 1: lines.name is 'Pizza', in the row 'Pasta'",
        "field: order row 10, line 2: lines.name is 'Cola', in the row 'Pasta'",
    ]
