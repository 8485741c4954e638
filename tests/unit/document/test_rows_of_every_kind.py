"""Whatever happens to rows, in whatever order and however batches fall: documents are what the database has."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from include.log.control import ControlRecord
from tests.support.documents.order_harness import DEFINITION, OrderHarness, Process, live

NUMBERS = st.integers(1, 4)
STEPS = st.one_of(
    st.tuples(st.just("order"), NUMBERS, st.sampled_from(["pending", "completed", "cancelled"])),
    st.tuples(st.just("state"), st.integers(0, 9), st.sampled_from(["pending", "completed", "cancelled"])),
    st.tuples(st.just("move"), st.integers(0, 9), NUMBERS),
    st.tuples(st.just("partner"), st.integers(0, 9), st.integers(1, 2)),
    st.tuples(st.just("delete"), st.integers(0, 9), st.none()),
    st.tuples(st.just("insert again"), st.none(), st.none()),
    st.tuples(st.just("rename"), st.integers(1, 2), st.text(max_size=3)),
    st.tuples(st.just("truncate"), st.none(), st.none()),
    st.tuples(st.just("batches"), st.none(), st.none()),
    st.tuples(st.just("restart"), st.none(), st.none()),
)


class Story:
    """Carries steps out."""

    def __init__(self, batch_keys: int) -> None:
        self.world = OrderHarness(DEFINITION.model_copy(update={"batch_keys": batch_keys}))
        self.world.furnish()
        self.gone: list[dict[str, Any]] = []
        self.start()

    def start(self) -> None:
        self.process = Process(self.world)
        self.process.settle(1)

    def row(self, number: int) -> dict[str, Any] | None:
        rows = self.world.tables.tables["orders"]
        return rows[number % len(rows)] if rows else None

    def step(self, what: str, one: Any, two: Any) -> None:
        world = self.world
        row = self.row(one) if isinstance(one, int) else None
        match what:
            case "order":
                world.order(one, two, partner_id=1 + one % 2)
            case "rename":
                world.update("partners", one, name=two)
            case "truncate":
                world.tables.tables["orders"].clear()
                world.capture.commit(control=ControlRecord("truncate", "shop", "orders", world.capture.version + 1))
            case "insert again" if self.gone:
                back = self.gone.pop()
                world.tables.tables["orders"].append(back)
                world.capture.commit(("c", "orders", None, back))
            case "batches":
                self.process.batches()
            case "restart":
                self.start()
            case "delete" if row is not None:
                self.gone.append(row)
                world.delete("orders", row["id"])
            case "state" | "move" | "partner" if row is not None:
                column = {"state": "state", "move": "order_id", "partner": "partner_id"}[what]
                world.update("orders", row["id"], **{column: two})


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=25), st.sampled_from([1, 2, 1000]))
def test_documents_are_what_the_database_has_whatever_happened_to_rows(
    steps: list[tuple[str, Any, Any]], batch_keys: int
) -> None:
    story = Story(batch_keys)
    for step in steps:
        story.step(*step)
    # A row that was made transient in place keeps its document until it is final again, which it is in the end.
    for row in list(story.world.tables.tables["orders"]):
        if row["state"] == "pending":
            story.world.update("orders", row["id"], state="completed")
    story.process.batches()
    while story.process.runner._rebuilds.open:
        story.world.capture.heartbeat()
        assert story.process.batches()
    assert live(story.world.documents()) == story.world.expected()
