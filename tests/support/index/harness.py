"""A log and indexes in memory, and the running application between them, for tests of what it does as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from include.clock import ManualClock
from include.index import indexing
from include.index.batch_split import PartSize
from include.index.bulk.sender import Delivery
from include.index.dead_letters import DeadLetters, dead_group
from include.index.definition import IndexDefinition
from include.index.feed import Feed
from include.index.generations.active import change_fed
from include.index.generations.startup import GenerationContext, opened
from include.index.generations.target import fed_indexes, leader_of, together
from include.index.incidents import IndexIncidents
from include.index.mapping.declared import creation
from include.index.mapping.evolving import BodyOf, MappingEvolution
from include.index.outcome import TaskOutcome
from include.index.progress.document import IndexProgress, read_progress
from include.index.server.memory_admin import MemoryAdmin
from include.index.server_wait import ServerRetry
from include.index.states import States
from include.index.task import IndexTask, raw_of
from include.index.worker import WorkerPlan
from include.log import topics
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.planning.plan import BatchPlan
from include.log.planning.slices import Slice
from include.log.publishing.dead_letter import DeadLetterLimit
from include.metrics.exporter import Metrics
from include.record.json.formats import Keys, Values
from include.settings.connections import Cluster, Elasticsearch, Registry
from tests.support.documents.topic import MAPPING, DocumentTopic
from tests.support.run_folder import MemoryRunFolder

DEFINITION = IndexDefinition.model_validate(
    {"application": "a", "topic": "docs", "entity": "order", "mapping": "m.json", "coerced": ["order.note"]}
)


class IndexingHarness:
    """A log and indexes that outlive the applications between them."""

    def __init__(self, definition: IndexDefinition = DEFINITION) -> None:
        self.definition = definition
        self.log, self.registry, self.index = MemoryLog(), MemoryRegistry(), MemoryAdmin()
        self.topic = DocumentTopic("docs", self.log.admin(), self.log.writer("w"), self.registry)
        for topic in definition.topics:
            self.log.admin().ensure(topics.document_spec(topics.dead(topic, "a"), 1))
        self.owners = 0
        self.size = PartSize()
        self.later_us = 0
        self.folder = MemoryRunFolder()
        self.declared: dict[str, Any] = MAPPING
        self.make(1, serving=True)

    def make(self, number: int, *, serving: bool = False) -> None:
        body = creation("orders", self.definition, self.declared)
        self.index.create(f"orders-v{number}", body if serving else {**body, "aliases": {}})
        change_fed(self.index, "orders", add=[number])

    def documents(self, number: int) -> dict[str, tuple[int, bool]]:
        name = f"orders-v{number}"
        return {found.doc_id: (found.version, found.deleted) for found in self.index._documents[name].values()}

    def progress(self, number: int, topic: str = "docs") -> IndexProgress:
        info = self.index.describe(f"orders-v{number}")
        assert info is not None
        return read_progress(self.index, info, topic) or IndexProgress(topic)

    def start(self, longest_s: float = 60) -> Life:
        self.owners += 1
        return Life(self, f"owner-{self.owners}", longest_s)


class Life:
    """One life of the application."""

    def __init__(self, world: IndexingHarness, owner: str, longest_s: float = 60) -> None:
        self.world, self.clock = world, ManualClock()
        self.clock.advance(world.later_us / 1e6)
        self.parts: list[tuple[str, int, int]] = []
        self.incidents = IndexIncidents("orders", world.folder, self.clock)
        self.rows: dict[str, int] = {}
        reader, admin = world.log.reader(), world.log.admin()
        opening = GenerationContext(
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
        targets, old = opened(fed.infos, lambda info: opening.target(info, letters))
        self.incidents.old(old)
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
                Registry(url="http://none"),
                1000,
                evolves=MappingEvolution.of(self.leader.settlement.info, world.definition, MAPPING),
            ),
            tasks=self.tasks,
            live=live,
            behind=behind,
            fed=lambda: fed_indexes(
                world.index, "orders", self.incidents.lost, lambda info: self.incidents.unlike(info, world.declared)
            ).without(old),
            opened=lambda info: opening.target(info, letters, self.leader),
            begins=opening.begins,
            patience=ServerRetry(
                self.clock,
                longest_s=longest_s,
                on_wait=lambda error, _: self.incidents.waits(error),
                stopped=lambda: False,
            ),
            metrics=Metrics("a"),
            clock=self.clock,
            incidents=self.incidents,
            on_part=lambda *said: self.parts.append(said),
            size=world.size,
        )

    def tasks(self, plan: WorkerPlan, slices: Sequence[Slice]) -> TaskOutcome:
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
        for each in slices:
            start = max(each.start, plan.starts.get((each.topic, each.partition), 0))
            records += [raw_of(r) for r in reader.read(each.topic, each.partition, start, max(start, each.end))]
        self.rows[plan.index] = self.rows.get(plan.index, 0) + len(records)
        return task.run(records)

    def _formats(self, plan: WorkerPlan, feed: Feed) -> tuple[Keys, BodyOf]:
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
        self.ends = ends
        return self.indexing.on_batch(BatchPlan(starts, ends, ids))


def fill(world: IndexingHarness, count: int = 10) -> None:
    for n in range(1, count + 1):
        world.topic.put(n)
    world.topic.delete(1)
    world.topic.resolve()
