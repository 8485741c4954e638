"""Nothing stale ever wins: replays, zombies, topics made anew; a topic without keys, each of its records once."""

from __future__ import annotations

import random

import pytest

from include.clock import ManualClock
from include.errors import Fenced, Terminal
from include.index.bulk.sender import Delivery
from include.index.definition import IndexDefinition
from include.index.progress.document import IndexProgress
from include.index.server.memory import MemoryIndex
from include.index.states import States, feed_of
from include.index.task import IndexTask, Raw, raw_of
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import TopicSpec
from include.record.codec import frame
from include.record.key import partition_of
from include.record.version import epoch_of
from include.settings.connections import Cluster
from tests.support.index.harness import IndexingHarness

KEYED = {
    "application": "a",
    "topic": "docs",
    "entity": "order",
    "mapping": "m.json",
    "versions": "offset",
    "key": "text",
    "coerced": ["order.note"],
}


def put(world: IndexingHarness, key: int, state: str) -> None:
    writer = world.log.writer("foreign")
    writer.begin()
    writer.append("docs", b"k%d" % key, world.topic._value({"order_id": key, "state": state}))
    writer.commit()


def state(world: IndexingHarness, key: int) -> str:
    found = world.index.get("orders-v1", f"k{key}")
    assert found is not None
    text: str = found.source["order"]["state"]
    return text


def test_a_zombie_that_sends_its_old_share_again_changes_nothing_and_cannot_move_progress() -> None:
    world = IndexingHarness()
    for n in range(10):
        world.topic.put(n)
    zombie = world.start()
    zombie.batch()
    for n in range(0, 10, 2):
        world.topic.put(n, state="cancelled")
    world.topic.delete(1)
    world.start().batch()
    before = world.documents(1)
    reader = world.log.reader()
    old = [raw_of(r) for p in range(2) for r in reader.read("docs", p, 0, zombie.ends["docs", p])]
    random.Random(1).shuffle(old)
    feed = feed_of(Cluster(name="c", type="t"), world.definition, "docs", IndexProgress("docs"))
    for share in (old, old[::-1]):
        task = IndexTask(
            states={"docs": States(feed, world.registry)},
            delivery=Delivery(
                lambda data: world.index.bulk("orders-v1", data),
                ManualClock(),
                index="orders-v1",
                bulk_bytes=300,
                patience_s=5,
            ),
            window_bytes=1,
        )
        assert task.run(share).total("stale") == len(old)
    assert world.documents(1) == before
    world.topic.put(77)
    with pytest.raises(Fenced):
        zombie.batch()


def test_a_topic_that_was_made_anew_wins_once_its_generation_is_raised_and_is_refused_before() -> None:
    world = IndexingHarness(IndexDefinition.model_validate(KEYED))
    for n in range(20):
        put(world, n, "old")
    world.start().batch()
    world.log.admin().delete("docs")
    world.log.admin().ensure(TopicSpec("docs", 2))
    put(world, 3, "new")
    with pytest.raises(Terminal, match="generation to 2"):
        world.start()
    world.definition = IndexDefinition.model_validate({**KEYED, "topic_generation": 2})
    world.start().batch()
    assert (state(world, 3), state(world, 4)) == ("new", "old")
    assert epoch_of(world.documents(1)["k3"][0]) == 2
    assert sum(world.progress(1).acked.values()) == sum(world.log.reader().end_offsets("docs").values())


def test_a_topic_that_grew_is_read_again_from_the_beginning_with_the_same_result() -> None:
    world = IndexingHarness(IndexDefinition.model_validate(KEYED))
    world.log.admin().delete("docs")
    world.log.admin().ensure(TopicSpec("docs", 3))
    for n in range(40):
        put(world, n, "old")
    world.start().batch()
    world.log.grow("docs", 7)
    for n in range(0, 40, 2):
        put(world, n, "new")
    life = world.start()
    life.batch()
    before = world.documents(1)
    target = life.indexing.live[0]
    feed = target.feed(target.settlement.progress["docs"])
    reader = world.log.reader()
    everything: list[Raw] = [
        raw_of(r) for p, end in reader.end_offsets("docs").items() for r in reader.read("docs", p, 0, end)
    ]
    random.Random(2).shuffle(everything)
    world.index.drop("orders-v1")
    world.make(1, serving=True)
    task = IndexTask(
        states={"docs": States(feed, world.registry)},
        delivery=Delivery(
            lambda data: world.index.bulk("orders-v1", data),
            ManualClock(),
            index="orders-v1",
            bulk_bytes=300,
            patience_s=5,
        ),
        window_bytes=1,
    )
    assert task.run(everything).fault is None
    assert world.documents(1) == before
    for n in range(40):
        assert state(world, n) == ("old" if n % 2 else "new")


def test_a_topic_that_grew_twice_unseen_is_read_again_once_its_numbers_are_declared_and_the_newest_state_wins() -> None:
    world = IndexingHarness(IndexDefinition.model_validate(KEYED))
    world.log.admin().delete("docs")
    world.log.admin().ensure(TopicSpec("docs", 3))
    keys = [n for n in range(60) if not came_back(b"k%d" % n)]
    for n in keys:
        put(world, n, "old")
    world.start().batch()
    for number, text in ((5, "middle"), (7, "new")):
        world.log.grow("docs", number)
        for n in keys:
            put(world, n, text)
    with pytest.raises(Terminal, match="declare all numbers it has had"):
        world.start().batch()
    world.definition = IndexDefinition.model_validate({**KEYED, "partitions": [3, 5, 7]})
    life = world.start()
    life.batch()
    assert life.rows["orders-v1"] == 3 * len(keys)
    assert {state(world, n) for n in keys} == {"new"}
    put(world, keys[0], "newest")
    again = world.start()
    again.batch()
    assert again.rows["orders-v1"] == 1
    assert state(world, keys[0]) == "newest"


def came_back(key: bytes) -> bool:
    """Whether the key lies in the same partition of 3 and of 7, but not of 5."""
    return partition_of(key, 3) == partition_of(key, 7) != partition_of(key, 5)


class Clicks:
    """A topic without keys, and one index that two clusters of the same topic name fill."""

    def __init__(self) -> None:
        self.index, self.registry, self.log = MemoryIndex(), MemoryRegistry(), MemoryLog()
        self.index.create("clicks-v1", {})
        self.log.admin().ensure(TopicSpec("clicks", 2))
        schema = self.registry.register("v", {"type": "object"}, language="JSON")
        writer = self.log.writer("w")
        for n in range(50):
            writer.begin()
            writer.append("clicks", None, frame(schema, b'{"n":%d}' % n), partition=n % 2)
            writer.commit()

    def run(self, cluster: str, most: int | None = None) -> int:
        raw = {"application": "a", "topic": "clicks", "entity": "click", "mapping": "m.json", "versions": "offset"}
        definition = IndexDefinition.model_validate({**raw, "key": "none"})
        feed = feed_of(Cluster(name=cluster, type="t"), definition, "clicks", IndexProgress("clicks"))
        task = IndexTask(
            states={"clicks": States(feed, self.registry)},
            delivery=Delivery(
                lambda data: self.index.bulk("clicks-v1", data),
                ManualClock(),
                index="i-v1",
                bulk_bytes=300,
                patience_s=5,
            ),
            window_bytes=100,
        )
        reader = self.log.reader()
        ends = reader.end_offsets("clicks")
        records = [raw_of(r) for p, end in ends.items() for r in reader.read("clicks", p, 0, end)]
        return task.run(records[:most]).total("indexed")


def test_each_record_of_a_topic_without_keys_is_one_document_however_often_it_is_read_from_the_beginning() -> None:
    clicks = Clicks()
    assert clicks.run("one", 17) == 17
    assert clicks.run("one") == 33
    assert clicks.run("one") == 0
    found = clicks.index._documents["clicks-v1"].values()
    assert sorted(each.source["click"]["n"] for each in found) == list(range(50))


def test_two_clusters_with_a_topic_of_the_same_name_do_not_overwrite_each_other() -> None:
    clicks = Clicks()
    clicks.run("one")
    assert clicks.run("two") == 50
    assert len(clicks.index._documents["clicks-v1"]) == 100
