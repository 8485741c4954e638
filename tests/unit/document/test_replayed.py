"""The checker of documents' versions: it passes what is right, and names each kind of fault that is planted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.documents.order_harness import OrderHarness, Process
from tests.support.documents.replay_oracle import TRANSIENT, History, Kind, Replayed, Step, Transaction, Written


def join(tables: Replayed, key: Any) -> Any:
    """An order shows its newest final row, the lines of it, its partner's name."""
    rows = tables.find("orders", "order_id", key)
    final = [row for row in rows if row["state"] != "pending"]
    if not final:
        return TRANSIENT if rows else None
    row = final[-1]
    partner = tables.one("partners", row["partner_id"])
    lines = [line["quantity"] for line in tables.find("lines", "order_row", row["id"])]
    return {"row": row["id"], "partner": partner and partner["name"], "lines": lines}


def order(id_: int, order_id: int, state: str = "completed") -> dict[str, Any]:
    return {"id": id_, "order_id": order_id, "state": state, "partner_id": 1}


ADA, BOB = {"id": 1, "name": "Ada"}, {"id": 1, "name": "Bob"}
LINE = {"id": 1, "order_row": 1, "quantity": 2}
STORY = [
    Transaction((Step(1, "partners", None, ADA),)),
    Transaction((Step(3, "orders", None, order(1, 7)), Step(4, "lines", None, LINE))),
    Transaction((Step(6, "partners", ADA, BOB),)),
    Transaction((Step(8, "orders", None, order(2, 8, "pending")),)),
    Transaction((Step(10, "orders", None, order(3, 7)), Step(11, "lines", None, LINE | {"id": 2, "order_row": 3}))),
]
FIRST = {"row": 1, "partner": "Ada", "lines": [2]}
RENAMED = {"row": 1, "partner": "Bob", "lines": [2]}
LAST = {"row": 3, "partner": "Bob", "lines": [2]}
RIGHT = [Written(7, 3, FIRST), Written(7, 6, RENAMED), Written(7, 10, LAST)]


def history() -> History:
    return History(STORY, join, ("orders", "order_id"), resolved=[2, 5, 7, 9, 12])


def test_documents_of_a_position_at_or_after_their_signals_pass() -> None:
    assert history().faults(RIGHT) == []
    later = [Written(7, 3, RENAMED), Written(7, 6, LAST), Written(7, 12, LAST)]
    assert history().faults(later) == []


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ([Written(7, 3, {"row": 1, "partner": "Ada", "lines": []})], "half a transaction"),
        ([Written(7, 10, {"row": 3, "partner": "Bob", "lines": []})], "half a transaction"),
        ([Written(7, 6, FIRST)], "older than its signal"),
        ([Written(7, 7, FIRST)], "older than its signal"),
        ([Written(7, 12, RENAMED)], "older than its signal"),
        ([Written(7, 10, {"row": 3, "partner": "Ada", "lines": [2]})], "never existed"),
        ([Written(8, 8, {"row": 2, "partner": "Bob", "lines": []})], "never existed"),
        ([Written(8, 8, TRANSIENT + "!")], "never existed"),
        ([Written(7, 3, None)], "older than its signal"),
        ([Written(7, 99, LAST)], "version of nothing"),
        ([Written(7, 3, FIRST), Written(7, 3, FIRST)], "twice"),
        ([Written(7, 6, RENAMED), Written(7, 3, RENAMED)], "goes back"),
    ],
)
def test_a_planted_fault_is_named(written: list[Written], kind: Kind) -> None:
    assert [fault.kind for fault in history().faults(written, quiet=False)] == [kind]


def test_a_key_whose_newest_document_is_not_its_newest_state_is_stale_once_all_is_quiet() -> None:
    assert [fault.kind for fault in history().faults(RIGHT[:2])] == ["stale"]
    assert [fault.kind for fault in history().faults([])] == ["stale"]
    assert history().faults(RIGHT[:2], quiet=False) == []


def test_a_deleted_order_is_a_tombstone_and_nothing_else() -> None:
    story = [*STORY, Transaction((Step(13, "orders", order(1, 7), None), Step(14, "orders", order(3, 7), None)))]
    told = History(story, join, ("orders", "order_id"))
    assert told.faults([*RIGHT, Written(7, 14, None)]) == []
    assert [fault.kind for fault in told.faults([*RIGHT, Written(7, 14, LAST)])] == ["older than its signal", "stale"]


@settings(max_examples=25)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.data())
def test_whatever_an_assembler_in_memory_writes_passes_and_a_changed_body_does_not(
    orders: list[int], data: st.DataObject
) -> None:
    world = OrderHarness()
    world.furnish()
    process = Process(world)
    process.settle(1)
    steps = [Step(n, "partners", None, row) for n, row in enumerate(world.tables.tables["partners"], 1)]
    story = [Transaction((step,)) for step in steps]
    for number, order_id in enumerate(orders):
        first = world.capture.version + 1
        row = world.order(order_id)
        line = world.tables.tables["lines"][-1]
        story.append(Transaction((Step(first, "lines", None, line), Step(first + 1, "orders", None, row))))
        if number % 3 == 0:
            process.batches()
    process.batches()
    shown = [
        Written(order_id, version, {"row": body["row"], "partner": body["partner"]["name"], "lines": [2]})
        for order_id, body in world.documents().items()
        if body is not None
        for version in world.versions(order_id)[-1:]
    ]
    told = History(story, join, ("orders", "order_id"))
    assert told.faults(shown) == []
    wrong = data.draw(st.sampled_from(shown))
    changed = Written(wrong.key, wrong.version, {**wrong.body, "lines": [3]})
    assert [fault.kind for fault in told.faults([changed], quiet=False)] == ["never existed"]
