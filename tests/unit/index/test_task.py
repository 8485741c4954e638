from __future__ import annotations

import pickle
from typing import Any

from include.clock import ManualClock
from include.errors import Fenced, Terminal, Transient
from include.index.bulk.sender import Delivery
from include.index.definition import IndexTopic
from include.index.digest import bucket, of_limbs, state_hash
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.index.outcome import SETTLED, TaskOutcome
from include.index.server.memory import MemoryIndex
from include.index.server.port import BulkAnswer
from include.index.states import States
from include.index.task import IndexTask, raw_of
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import Record
from include.record.json.body import canonical
from include.record.version import pack, to_header
from tests.support.documents.topic import MAPPING, DocumentTopic

NAME = "orders-v1"
FEED = Feed(TopicOrigin("c", "t", "docs", 1), IndexTopic(entity="order"))


class Harness:
    """A topic in memory, an index in memory, and tasks between them."""

    def __init__(self) -> None:
        self.log, self.registry, self.index = MemoryLog(), MemoryRegistry(), MemoryIndex()
        self.index.create(NAME, {"mappings": MAPPING})
        self.topic = DocumentTopic("docs", self.log.admin(), self.log.writer("w"), self.registry)

    def records(self) -> list[Record]:
        reader = self.log.reader()
        found = []
        for topic in (self.topic.name, self.topic.resolved_name):
            for partition, end in reader.end_offsets(topic).items():
                found += list(reader.read(topic, partition, 0, end))
        return found

    def run(self, records: list[Record] | None = None, *, epoch: int = 0, window_bytes: int = 1000) -> TaskOutcome:
        task = IndexTask(
            states={"docs": States(FEED, self.registry)},
            delivery=Delivery(
                lambda data: self.index.bulk(NAME, data), ManualClock(), index=NAME, bulk_bytes=1000, patience_s=5
            ),
            window_bytes=window_bytes,
            epochs={("docs", p): epoch for p in (0, 1)},
        )
        return task.run(raw_of(record) for record in (self.records() if records is None else records))

    def body(self, order_id: int) -> Any:
        found = self.index.get(NAME, str(order_id))
        return None if found is None or found.deleted else found.source["order"]


def conserved(outcome: TaskOutcome) -> bool:
    return all(of["read"] == sum(of[name] for name in SETTLED) for of in outcome.counts.values())


def test_records_become_documents_and_tombstones_become_soft_deletes() -> None:
    world = Harness()
    world.topic.put(1)
    world.topic.put(2)
    world.topic.delete(2)
    out = world.run()
    assert world.body(1) == {"order_id": 1, "state": "completed", "total_price": "12.30", "note": None}
    assert world.body(2) is None
    there = world.index.get(NAME, "2")
    assert there is not None
    assert there.deleted
    assert conserved(out)
    assert (out.total("indexed"), out.total("deleted"), out.total("folded")) == (1, 1, 1)


def test_a_document_carries_the_digest_of_its_state_and_a_tombstone_none() -> None:
    world = Harness()
    world.topic.put(1)
    world.topic.put(2)
    world.topic.delete(2)
    world.run()
    found = world.index.get(NAME, "1")
    assert found is not None
    state = state_hash("1", found.version, canonical(found.source["order"]))
    metadata = found.source["metadata"]
    assert of_limbs(metadata["d0"], metadata["d1"]) == state
    assert (metadata["s0"], metadata["s1"]) == (bucket(state, 0), bucket(state, 1))
    gone = world.index.get(NAME, "2")
    assert gone is not None
    assert {"d0", "d1", "s0", "s1"}.isdisjoint(gone.source["metadata"])


def test_doing_it_again_changes_nothing_and_counts_as_stale() -> None:
    world = Harness()
    for n in (1, 2, 1):
        world.topic.put(n)
    first = world.run()
    before = [world.index.get(NAME, str(n)) for n in (1, 2)]
    again = world.run()
    assert [world.index.get(NAME, str(n)) for n in (1, 2)] == before
    assert first.total("indexed") == again.total("stale") == 2
    assert conserved(again)


def test_the_newest_version_wins_in_any_order_of_records_and_windows() -> None:
    world = Harness()
    for state in ("completed", "cancelled", "completed", "cancelled"):
        world.topic.put(1, state=state)
    newest_first = list(reversed(world.records()))
    for window_bytes in (1, 10_000):
        world.index.create("other", {})
        out = world.run(newest_first, window_bytes=window_bytes)
        assert world.body(1)["state"] == "cancelled"
        assert conserved(out)


def test_records_that_cannot_be_understood_are_set_aside_and_the_rest_goes_on() -> None:
    world = Harness()
    world.topic.put(1)
    world.topic.spoil(2, b"\x01")
    world.topic.spoil(3, b"\x00\x00\x00\x00\x63rubbish")
    world.topic.spoil(4, b"", versioned=False)
    world.topic.put(5, note="no number")
    world.topic.put(6)
    out = world.run()
    assert world.body(1) is not None
    assert world.body(6) is not None
    reasons = {one.record.key: one.reason for one in out.dead}
    assert set(reasons) == {world.topic.key(n) for n in (2, 3, 4, 5)}
    assert "document_parsing_exception" in reasons[world.topic.key(5)]
    assert "version" in reasons[world.topic.key(4)]
    assert conserved(out)


def test_a_record_without_a_key_is_set_aside() -> None:
    world = Harness()
    out = world.run([Record("docs", 0, 0, None, b"x", [to_header(1)])])
    assert out.total("dead") == 1


def test_resolved_records_are_handed_to_the_driver_and_not_indexed() -> None:
    world = Harness()
    world.topic.put(1)
    world.topic.resolve()
    out = world.run()
    assert [record.topic for record in out.others] == [world.topic.resolved_name]
    assert out.total("read") == 1


def test_what_the_server_does_not_take_is_waiting() -> None:
    world = Harness()
    for n in range(20):
        world.topic.put(n)
    world.index.answers.extend([None, *[BulkAnswer(503, reason="away")] * 100])
    out = world.run()
    assert out.waiting
    assert "away" in out.reason
    assert out.fault is None


def test_a_lost_index_is_a_fault_with_its_next_step() -> None:
    world = Harness()
    world.topic.put(1)
    world.index.drop(NAME)
    out = world.run()
    assert isinstance(out.fault, Terminal)
    assert "lyrebird index create orders" in str(out.fault)


def test_a_record_of_an_older_lineage_is_a_fault() -> None:
    world = Harness()
    world.topic.version = pack(2, 0)
    world.topic.put(1)
    assert max(world.run().epochs.values()) == 2
    out = world.run(epoch=3)
    assert out.fault is not None
    assert out.fault.details["index_epoch"] == 3
    assert world.run(epoch=2).fault is None


def test_an_older_lineage_may_follow_a_newer_one_in_another_partition_but_not_in_its_own() -> None:
    world = Harness()
    for epoch in (1, 2):
        world.topic.version = pack(epoch, 0)
        for key in range(8):
            world.topic.put(key)
    records = world.records()
    assert {record.partition for record in records if record.topic == "docs"} == {0, 1}
    for order in (records, sorted(records, key=lambda r: -r.partition)):
        out = world.run(order)
        assert out.fault is None
        assert out.epochs == {("docs", 0): 2, ("docs", 1): 2}
    turned = world.run([*(r for r in records if r.partition == 1), records[0], *reversed(records)])
    assert turned.fault is not None


def test_outcomes_travel_and_add_up() -> None:
    world = Harness()
    world.topic.put(1)
    world.topic.spoil(2, b"\x01")
    world.topic.resolve()
    out = world.run()
    out.fault = Fenced("somebody else", fix="End.", topic="docs")
    other = TaskOutcome(epochs={("docs", 1): 4}, waiting=True, reason="r")
    found = TaskOutcome()
    for each in (out, other):
        found.add(pickle.loads(pickle.dumps(each)))
    assert (found.counts, found.dead, found.others) == (out.counts, out.dead, out.others)
    assert (found.epochs, found.waiting, found.reason) == ({("docs", 0): 0, ("docs", 1): 4}, True, "r")
    assert str(found.fault) == str(out.fault)
    assert type(found.fault) is Fenced


def test_a_registry_that_is_away_is_waited_for() -> None:
    world = Harness()
    world.topic.put(1)

    def away(schema_id: int) -> Any:
        raise Transient("registry is away", system="registry")

    world.registry.language = away  # type: ignore[method-assign]
    out = world.run()
    assert out.waiting
    assert "registry is away" in out.reason
