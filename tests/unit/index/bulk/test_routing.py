"""Documents routed by a field: one living copy at most, whatever order states come in and wherever a process ends."""

from __future__ import annotations

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from include.clock import ManualClock
from include.errors import Terminal
from include.index.bulk.routing import Copies, routing_of
from include.index.bulk.sender import Delivery
from include.index.definition import IndexTopic
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.index.outcome import TaskOutcome
from include.index.server.memory import MemoryIndex
from include.index.server.port import BulkAnswer, IndexedDocument
from include.index.states import States
from include.index.task import IndexTask, Raw
from include.log.memory import MemoryRegistry
from include.record.codec import frame
from include.record.version import to_header

NAME = "orders-v1"
FEED = Feed(TopicOrigin("c", "t", "docs", 1), IndexTopic(entity="order", key="text", routing="user_id"))


class Harness:
    """A topic of orders that move from user to user."""

    def __init__(self) -> None:
        self.index, self.registry = MemoryIndex(), MemoryRegistry()
        self.index.create(NAME, {})
        self.schema = self.registry.register("v", {"type": "object"}, language="JSON")

    def record(self, key: str, version: int, user: int | None) -> Raw:
        """A state of order `key`; without a user it is deleted."""
        value = None if user is None else frame(self.schema, json.dumps({"user_id": user, "v": version}).encode())
        return ("docs", 0, version, key.encode(), value, [to_header(version)], 0)

    def run(self, *records: Raw, copies: bool = True, window_bytes: int = 1) -> TaskOutcome:
        task = IndexTask(
            states={"docs": States(FEED, self.registry)},
            delivery=Delivery(
                lambda data: self.index.bulk(NAME, data), ManualClock(), index=NAME, bulk_bytes=1000, patience_s=5
            ),
            window_bytes=window_bytes,
            copies=Copies(self.index, NAME, ManualClock(), 5) if copies else None,
        )
        return task.run(records)

    def living(self) -> dict[str, list[IndexedDocument]]:
        out: dict[str, list[IndexedDocument]] = {}
        for found in self.index._documents[NAME].values():
            if not found.deleted:
                out.setdefault(found.doc_id, []).append(found)
        return out


def test_a_document_that_changes_its_routing_has_one_living_copy() -> None:
    world = Harness()
    world.run(world.record("a", 1, 7))
    world.run(world.record("a", 2, 8))
    (copy,) = world.living()["a"]
    assert (copy.routing, copy.version) == ("8", 2)
    world.run(world.record("a", 3, 7))
    (copy,) = world.living()["a"]
    assert (copy.routing, copy.version) == ("7", 3)


def test_a_delete_reaches_its_document_under_whatever_routing_and_an_older_state_stays_dead() -> None:
    world = Harness()
    world.run(world.record("a", 1, 7))
    world.run(world.record("a", 3, None))
    assert world.living() == {}
    world.run(world.record("a", 2, 9))
    assert world.living() == {}


def test_what_a_process_left_between_writing_and_looking_for_copies_is_found_when_it_does_its_share_again() -> None:
    world = Harness()
    world.run(world.record("a", 1, 7))
    assert isinstance(world.run(world.record("a", 2, 8), copies=False).fault, Terminal)
    assert len(world.living()["a"]) == 2
    out = world.run(world.record("a", 2, 8))
    assert out.total("stale") == 1
    assert [copy.version for copy in world.living()["a"]] == [2]


def test_a_server_that_takes_no_tombstones_is_waited_for() -> None:
    world = Harness()
    world.run(world.record("a", 1, 7))
    world.index.answers.extend([None, *[BulkAnswer(503, reason="away")] * 100])
    out = world.run(world.record("a", 2, 8))
    assert out.waiting
    assert "away" in out.reason


def test_the_routing_is_the_fields_text_and_none_without_it() -> None:
    assert routing_of(b'{"user_id":7}', "user_id") == "7"
    assert routing_of(b'{"user_id":"x"}', "user_id") == "x"
    assert routing_of(b'{"user_id":null}', "user_id") is None
    assert routing_of(b"5", "user_id") is None


STATES = st.lists(st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 3))), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None)
@given(STATES, st.integers(0, 1000), st.integers(1, 400))
def test_after_shares_in_any_order_each_document_is_its_newest_state_once(
    states: list[tuple[int, int | None]], seed: int, window_bytes: int
) -> None:
    world = Harness()
    records = [world.record(f"k{key}", n, user) for n, (key, user) in enumerate(states, 1)]
    shares = [records[n : n + 3] for n in range(0, len(records), 3)]
    random.Random(seed).shuffle(shares)
    for share in shares:
        world.run(*share, window_bytes=window_bytes)
    newest = {f"k{key}": (n, user) for n, (key, user) in enumerate(states, 1)}
    expected = {name: [(n, str(user))] for name, (n, user) in newest.items() if user is not None}
    assert {name: [(c.version, c.routing) for c in copies] for name, copies in world.living().items()} == expected
