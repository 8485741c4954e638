"""The running application over doubles: several generations at once, one that is behind, new, lost, or let go."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Restart, Terminal, Transient
from include.index import indexing
from include.index.batch import Settlement
from include.index.definition import IndexDefinition
from include.index.delivery import Delivery
from include.index.evolving import Bodies, Evolves
from include.index.fed import change_fed
from include.index.formats import Keys, Values
from include.index.generation import IndexName
from include.index.incident import Incidents
from include.index.mapping import creation
from include.index.memory_admin import MemoryAdmin
from include.index.opening import Opening
from include.index.outcome import SETTLED, TaskOutcome
from include.index.parts import parts_of
from include.index.patience import Patience
from include.index.progress import Progress, read_progress
from include.index.promote import drop_generation
from include.index.set_aside import DeadLetters, dead_group
from include.index.states import Feed, States
from include.index.target import Target, fed_indexes, leader_of, together
from include.index.task import IndexTask, raw_of
from include.index.worker import WorkerPlan
from include.log import topics
from include.log.dead_letter import DeadLetterLimit
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.plan import BatchPlan
from include.log.ports import TopicSpec
from include.log.slices import Slice
from include.metrics.exporter import Metrics
from include.record.version import to_header
from include.settings.connections import Cluster, Elasticsearch
from tests.document_topic import MAPPING, VALUE, DocumentTopic

DEFINITION = IndexDefinition.model_validate(
    {"application": "a", "topic": "docs", "entity": "order", "mapping": "m.json", "coerced": ["order.note"]}
)


class World:
    """A log and indexes that outlive the applications between them."""

    def __init__(self, definition: IndexDefinition = DEFINITION) -> None:
        self.definition = definition
        self.log, self.registry, self.index = MemoryLog(), MemoryRegistry(), MemoryAdmin()
        self.topic = DocumentTopic("docs", self.log.admin(), self.log.writer("w"), self.registry)
        for topic in definition.topics:
            self.log.admin().ensure(topics.document_spec(topics.dead(topic, "a"), 1))
        self.owners = 0
        self.files: dict[str, dict[str, Any]] = {}
        self.make(1, serving=True)

    def make(self, number: int, *, serving: bool = False) -> None:
        body = creation("orders", self.definition, MAPPING)
        self.index.create(f"orders-v{number}", body if serving else {**body, "aliases": {}})
        change_fed(self.index, "orders", add=[number])

    def keep(self, name: str, value: dict[str, Any]) -> None:
        self.files[name] = value

    def kept(self, name: str) -> dict[str, Any]:
        return self.files.get(name, {})

    def documents(self, number: int) -> dict[str, tuple[int, bool]]:
        name = f"orders-v{number}"
        return {found.doc_id: (found.version, found.deleted) for found in self.index._documents[name].values()}

    def progress(self, number: int, topic: str = "docs") -> Progress:
        info = self.index.describe(f"orders-v{number}")
        assert info is not None
        return read_progress(self.index, info, topic) or Progress(topic)

    def start(self) -> Life:
        self.owners += 1
        return Life(self, f"owner-{self.owners}")


class Life:
    """One life of the application."""

    def __init__(self, world: World, owner: str) -> None:
        self.world, self.clock = world, ManualClock()
        self.parts: list[tuple[str, int, int]] = []
        self.incidents = Incidents("orders", world, self.clock)
        self.rows: dict[str, int] = {}
        reader, admin = world.log.reader(), world.log.admin()
        opening = Opening(
            definition=world.definition,
            cluster=Cluster(name="c", type="t"),
            index=world.index,
            admin=admin,
            reader=reader,
            owner=owner,
            clock=self.clock,
            on_removed=lambda _: None,
        )
        letters = DeadLetters(
            application="a",
            limits={topic: DeadLetterLimit(1.0, 100) for topic in world.definition.topics},
            writer=world.log.writer(dead_group("a")),
            reader=reader,
            clock=self.clock,
        )
        fed = fed_indexes(world.index, "orders")
        targets = [opening.target(info, letters) for info in fed.infos]
        self.leader = leader_of(targets, fed.serving)
        live, behind = together(self.leader, targets)
        self.ends = dict(self.leader.starts)
        self.indexing = indexing.Indexing(
            plan=WorkerPlan(
                "",
                (),
                "",
                {},
                Elasticsearch(url="http://none"),
                "",
                1000,
                evolves=Evolves.of(self.leader.settlement.info, world.definition, MAPPING),
            ),
            tasks=self.tasks,
            live=live,
            behind=behind,
            fed=lambda: fed_indexes(world.index, "orders", self.incidents.lost),
            opened=lambda info: opening.target(info, letters, self.leader),
            begins=opening.begins,
            patience=Patience(self.clock, longest_s=60, on_wait=lambda *_: None, stopped=lambda: False),
            metrics=Metrics("a"),
            clock=self.clock,
            incidents=self.incidents,
            on_part=lambda *said: self.parts.append(said),
        )

    def tasks(self, plan: WorkerPlan, rows: list[Slice]) -> TaskOutcome:
        """What a worker does, over doubles."""
        world = self.world
        task = IndexTask(
            states={feed.name: States(feed, world.registry, self._formats(plan, feed)) for feed in plan.feeds},
            delivery=Delivery(
                lambda data: world.index.bulk(plan.index, data),
                self.clock,
                index=plan.index,
                bulk_bytes=1000,
                patience_s=5,
            ),
            window_bytes=500,
            epochs=plan.epochs,
        )
        reader = world.log.reader()
        records = []
        for each in rows:
            start = max(each.start, plan.starts.get((each.topic, each.partition), 0))
            records += [raw_of(r) for r in reader.read(each.topic, each.partition, start, max(start, each.end))]
        self.rows[plan.index] = self.rows.get(plan.index, 0) + len(records)
        return task.run(records)

    def _formats(self, plan: WorkerPlan, feed: Feed) -> tuple[Keys, Bodies]:
        index, registry, own = self.world.index, self.world.registry, feed.topic
        assert plan.evolves is not None
        values = Values(registry, own.value)
        bodies = plan.evolves.bodies(
            values, index.describe, index.put_mapping, registry, feed.name, own.entity, own.value
        )
        return Keys(registry, own.key), bodies

    def batch(self) -> Mapping[str, Any]:
        """A batch to the ends of all topics."""
        reader, admin = self.world.log.reader(), self.world.log.admin()
        starts, ends, ids = dict(self.ends), dict(self.ends), {}
        for topic in self.world.definition.topics:
            for name in (topic, topics.resolved(topic)):
                found = admin.describe(name)
                if found is not None:
                    ids[name] = found.topic_id
                    ends |= {(name, p): end for p, end in reader.end_offsets(name).items()}
        rows = [
            Slice(topic, p, starts.get((topic, p), 0), end)
            for (topic, p), end in ends.items()
            if end > starts.get((topic, p), 0)
        ]
        self.ends = ends
        return self.indexing.on_batch(rows, BatchPlan(starts, ends, ids, None))


def fill(world: World, count: int = 10) -> None:
    for n in range(1, count + 1):
        world.topic.put(n)
    world.topic.delete(1)
    world.topic.resolve()


def test_every_generation_that_is_fed_gets_every_record_and_keeps_its_own_progress() -> None:
    world = World()
    world.make(2)
    fill(world)
    world.start().batch()
    assert world.documents(1) == world.documents(2)
    assert len(world.documents(1)) == 10
    assert world.progress(1).acked == world.progress(2).acked == world.log.reader().end_offsets("docs")


def test_a_generation_that_is_made_while_the_application_runs_catches_up_beside_the_live_one() -> None:
    world = World()
    fill(world)
    life = world.start()
    life.batch()
    world.make(2)
    world.topic.put(20)
    told = life.batch()
    assert told["behind"] == ["orders-v2"]
    assert "20" in world.documents(1)
    assert world.documents(2) == {}
    assert life.indexing.catch_up()
    assert not life.indexing.catch_up()
    assert world.documents(2) == world.documents(1)
    world.topic.put(21)
    assert life.batch()["behind"] == []
    assert world.documents(2) == world.documents(1)
    for number in (1, 2):
        for p, counts in world.progress(number).counts.items():
            end = world.log.reader().end_offsets("docs")[p]
            assert counts["read"] == sum(counts[name] for name in SETTLED)
            assert counts["read"] == sum(1 for _ in world.log.reader().read("docs", p, 0, end))


def test_after_a_restart_the_one_that_serves_leads_and_the_other_goes_on_where_it_was() -> None:
    world = World()
    fill(world)
    world.start().batch()
    world.make(2)
    life = world.start()
    assert (life.leader.name, [each.name for each in life.indexing.behind]) == ("orders-v1", ["orders-v2"])
    world.topic.put(30)
    life.batch()
    assert life.rows == {"orders-v1": 1}
    life.indexing.catch_up()
    life.indexing.catch_up()
    assert world.documents(1) == world.documents(2)


def test_a_serving_index_that_was_lost_and_made_anew_catches_up_behind_the_other() -> None:
    world = World()
    world.make(2)
    fill(world)
    world.start().batch()
    world.index.drop("orders-v1")
    world.make(1, serving=True)
    life = world.start()
    assert (life.leader.name, [each.name for each in life.indexing.behind]) == ("orders-v2", ["orders-v1"])
    life.indexing.catch_up()
    life.indexing.catch_up()
    assert world.documents(1) == world.documents(2)


def test_a_generation_that_is_missing_is_one_incident_and_holds_up_nobody() -> None:
    world = World()
    world.make(2)
    life = world.start()
    fill(world)
    life.batch()
    world.index.drop("orders-v2")
    told = []
    for n in (40, 41):
        world.topic.put(n)
        told += life.batch()["incidents"]
    assert {each["id"] for each in told} == {f"lost:orders-v2:{told[0]['at_us']}"}
    assert told[0]["fix"] == "lyrebird index rebuild orders"
    assert [each["id"] for each in world.start().incidents.open()] == [told[0]["id"]]
    assert {"40", "41"} <= set(world.documents(1))
    world.index.drop("orders-v1")
    world.topic.put(42)
    with pytest.raises(Transient, match="lyrebird index rebuild orders"):
        life.batch()
    assert [each["id"].split(":")[1] for each in life.incidents.open()] == ["orders-v1", "orders-v2"]
    world.make(3)
    world.index.move_alias("orders", "orders-v3", source=None)
    with pytest.raises(Restart, match="orders-v3"):
        life.batch()
    change_fed(world.index, "orders", remove=[1, 2])
    assert world.start().batch()["incidents"] == []
    assert {"40", "41", "42"} <= set(world.documents(3))


def test_a_generation_that_is_dropped_within_a_batch_ends_nobody_and_is_not_made_again() -> None:
    for taken in ("tasks", "settle"):
        world = World()
        world.make(2)
        fill(world)
        life = world.start()
        life.batch()
        second = life.indexing.live[1]

        def drop(*said: Any, life: Life = life, second: Target = second, taken: str = taken) -> Any:
            """The generation is dropped just as its share is worked off, or has been."""
            if taken == "tasks" and said[0].index != "orders-v2":
                return Life.tasks(life, *said)
            drop_generation(life.world.index, life.world.index, IndexName("orders", 2))
            return Life.tasks(life, *said) if taken == "tasks" else Settlement.settle(second.settlement, *said)

        if taken == "tasks":
            life.indexing._tasks = drop
        else:
            second.settlement.settle = drop  # type: ignore[method-assign]
        world.topic.put(50)
        told = life.batch()
        assert told["read"] == 1
        assert [each.name for each in life.indexing.live] == ["orders-v1"]
        assert "50" in world.documents(1)
        assert world.index.describe("orders-v2") is None


def test_a_generation_that_is_behind_and_cannot_go_on_holds_up_no_other_and_is_an_incident() -> None:
    world = World()
    fill(world)
    world.start().batch()
    world.make(2)
    world.make(3)
    life = world.start()
    stuck = life.indexing.behind[0]
    assert stuck.name == "orders-v2"

    def refused(*_: Any) -> Any:
        raise Terminal("too many records cannot be understood", topic="docs")

    stuck.settlement.settle = refused  # type: ignore[method-assign]
    life.indexing.catch_up()
    assert not life.indexing.catch_up()
    assert world.documents(3) == world.documents(1)
    world.topic.put(60)
    (told,) = life.batch()["incidents"]
    assert told["id"].startswith("stuck:orders-v2:")
    assert "cannot be understood" in told["text"]
    assert "60" in world.documents(3)
    assert life.indexing.live[1].settlement.freshen()


def test_a_long_batch_is_worked_off_in_parts_and_each_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "parts_of", functools.partial(parts_of, most=4))
    world = World()
    fill(world)
    life = world.start()
    told = life.batch()
    offsets = sum(world.log.reader().end_offsets("docs").values())
    offsets += sum(world.log.reader().end_offsets(topics.resolved("docs")).values())
    assert len(life.parts) >= offsets / 4
    assert {(name, of) for name, _, of in life.parts} == {("orders-v1", len(life.parts))}
    assert told["read"] == told["indexed"] + told["deleted"] + told["folded"]
    assert len(world.documents(1)) == 10
    world.topic.put(9)
    life.batch()
    assert len(life.parts) == life.parts[-1][2]


def test_a_generation_that_is_fed_no_more_gets_nothing_and_the_rest_goes_on() -> None:
    world = World()
    world.make(2)
    fill(world)
    life = world.start()
    life.batch()
    change_fed(world.index, "orders", remove=[2])
    world.topic.put(50)
    life.batch()
    assert "50" in world.documents(1)
    assert "50" not in world.documents(2)


def test_an_application_whose_live_generations_are_all_gone_asks_to_be_started_again() -> None:
    world = World()
    fill(world)
    life = world.start()
    life.batch()
    world.make(2)
    world.index.move_alias("orders", "orders-v2", source="orders-v1")
    change_fed(world.index, "orders", remove=[1])
    world.topic.put(60)
    with pytest.raises(Restart, match="orders-v2"):
        life.batch()
    world.start().batch()
    assert len(world.documents(2)) == 11


def test_every_generation_that_is_fed_grows_with_the_topics_schema_before_its_documents() -> None:
    world = World()
    world.make(2)
    life = world.start()
    world.topic.put(1)
    life.batch()
    city = {"name": "city", "type": ["null", "string"], "default": None}
    world.topic.write_as({**VALUE, "fields": [*VALUE["fields"], city]})
    world.topic.put(2, city="Rome")
    life.batch()
    for number in (1, 2):
        info = world.index.describe(f"orders-v{number}")
        assert info is not None
        assert info.mapping["properties"]["order"]["properties"]["city"]["type"] == "text"
        assert set(world.documents(number)) == {"1", "2"}
    dead = topics.dead("docs", "a")
    assert world.log.reader().end_offsets(dead) == {0: 0}


def test_what_one_generation_refuses_is_set_aside_for_it_and_what_nobody_can_read_once() -> None:
    world = World()
    world.make(2)
    world.topic.put(1, note="no number")
    world.topic.spoil(2, b"\x01")
    world.start().batch()
    dead = topics.dead("docs", "a")
    letters = list(world.log.reader().read(dead, 0, 0, world.log.reader().end_offsets(dead)[0]))
    reasons = sorted(dict(letter.headers)["dead.reason"][:20] for letter in letters)
    assert len(letters) == 3
    assert [reason[:7] for reason in reasons] == [b"refused", b"refused", b"value i"]


def test_two_topics_fill_one_index_with_documents_of_their_own() -> None:
    raw = {
        "application": "a",
        "mapping": "m.json",
        "coerced": ["order.note"],
        "topics": {"docs": {"entity": "order"}, "more": {"entity": "order"}},
    }
    world = World(IndexDefinition.model_validate(raw))
    other = DocumentTopic("more", world.log.admin(), world.log.writer("o"), world.registry)
    world.topic.put(1)
    other.put(1, state="cancelled")
    other.delete(2)
    life = world.start()
    life.batch()
    assert set(world.documents(1)) == {"docs/1", "more/1", "more/2"}
    found = world.index.get("orders-v1", "more/1")
    assert found is not None
    assert (found.source["metadata"]["doc_id"], found.source["order"]["state"]) == ("1", "cancelled")
    assert sum(world.progress(1, "docs").acked.values()) < sum(world.progress(1, "more").acked.values())
    again = world.start()
    other.put(1)
    again.batch()
    assert again.rows == {"orders-v1": 1}


def test_a_topic_that_grows_from_three_to_seven_partitions_keeps_the_newest_of_each_key() -> None:
    raw = {"application": "a", "topic": "docs", "entity": "order", "mapping": "m.json", "versions": "offset"}
    world = World(IndexDefinition.model_validate({**raw, "key": "text", "coerced": ["order.note"]}))
    world.log.admin().delete("docs")
    world.log.admin().ensure(TopicSpec("docs", 3))
    writer = world.log.writer("grown")

    def put(key: int, state: str) -> None:
        value = world.topic._value({"order_id": key, "state": state})
        writer.begin()
        writer.append("docs", b"k%d" % key, value, headers=[to_header(1)])
        writer.commit()

    for n in range(40):
        put(n, "old")
    life = world.start()
    life.batch()
    world.log.grow("docs", 7)
    for n in range(0, 40, 2):
        put(n, "new")
    life.batch()
    again = world.start()
    again.ends = {}
    again.batch()
    for n in range(40):
        found = world.index.get("orders-v1", f"k{n}")
        assert found is not None
        assert found.source["order"]["state"] == ("old" if n % 2 else "new")
    assert [each.number for each in world.progress(1).partitions] == [3, 7]
