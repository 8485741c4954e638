"""The search audit on a real index: what was deleted behind everyone's back is named, with few requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from include.audit.definition import SearchAuditSpec
from include.audit.elasticsearch import ElasticsearchView
from include.audit.expected import fold, records_below
from include.audit.report import SearchReport
from include.audit.search import audit_search
from include.clock import ManualClock, SystemClock
from include.index.definition import IndexDefinition
from include.index.delivery import Delivery
from include.index.elasticsearch import ElasticsearchIndex
from include.index.mapping import creation
from include.index.metadata import Origin
from include.index.progress import Progress, ProgressKeeper
from include.index.task import IndexTask
from include.log.memory import MemoryLog, MemoryRegistry
from include.record.codec import Decoder
from include.settings.connections import Elasticsearch
from tests.document_topic import MAPPING, DocumentTopic

ORDERS = 500


class World:
    """500 orders in a topic and, by the indexer's own task, in a real index."""

    def __init__(self, index: ElasticsearchIndex, name: str) -> None:
        self.index, self.name = index, f"{name}-v1"
        self.log, self.registry = MemoryLog(), MemoryRegistry()
        self.decode = Decoder(self.registry.schema)
        self.definition = IndexDefinition(application="a", topic="docs", entity="order", mapping="m.json")
        self.alias = name
        info = index.create(self.name, creation(name, self.definition, MAPPING))
        self.topic = DocumentTopic("docs", self.log.admin(), self.log.writer("w"), self.registry, partitions=4)
        self.topic.write([(n, {"state": "completed"}) for n in range(1, ORDERS + 1)])
        for n in range(1, 20):
            self.topic.put(n, state="cancelled")
        reader = self.log.reader()
        self.ends = reader.end_offsets("docs")
        task = IndexTask(
            origin=Origin("c", "t", "docs", 1),
            entity="order",
            decode=self.decode,
            delivery=Delivery(
                lambda data: index.bulk(self.name, data),
                SystemClock(),
                index=self.name,
                bulk_bytes=100_000,
                patience_s=30,
            ),
            window_bytes=50_000,
        )
        outcome = task.run(r for p, end in self.ends.items() for r in reader.read("docs", p, 0, end))
        assert outcome.counts["indexed"] >= ORDERS
        described = self.log.admin().describe("docs")
        assert described is not None
        keeper = ProgressKeeper(index, info, "docs", "test", ManualClock())
        keeper.claim()
        keeper.save(Progress("docs", topic_ids={"docs": described.topic_id}, acked=self.ends))

    def audit(self) -> SearchReport:
        return audit_search(
            SearchAuditSpec(name="docs", alias=self.alias, index=self.definition),
            index=self.index,
            view=lambda name, window: ElasticsearchView(self.index, name, "docs", window),
            expected=lambda window: fold(records_below(self.log.reader(), "docs", window), self.decode),
            admin=self.log.admin(),
            reader=self.log.reader(),
            clock=ManualClock(),
        )


@pytest.fixture
def world(elasticsearch_url: str, unique: str) -> Iterator[World]:
    index = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    yield World(index, unique)
    index.client.indices.delete(index=f"{unique}-v1", ignore_unavailable=True)
    index.close()


def test_a_whole_index_is_clean(world: World) -> None:
    report = world.audit()
    assert report.clean
    assert (report.expected, report.indexed) == (ORDERS, ORDERS)


def test_seven_deleted_documents_of_five_hundred_are_named_with_few_requests(world: World) -> None:
    gone = ["3", "70", "71", "72", "250", "499", "500"]
    for key in gone:
        world.index.client.delete(index=world.name, id=key)
    report = world.audit()
    assert sorted(report.missing) == sorted(gone)
    assert report.extra == ()
    assert report.requests <= 6
    assert report.listed < 50


def test_a_document_that_nobody_sent_is_extra(world: World) -> None:
    source = dict(world.index.client.get(index=world.name, id="5").body["_source"])
    source["metadata"] = {**source["metadata"], "doc_id": "5x"}
    world.index.client.index(index=world.name, id="5x", document=source)
    assert world.audit().extra == ("5x",)


def test_writes_that_go_on_meanwhile_are_no_findings(world: World) -> None:
    for n in range(30, 60):
        source = dict(world.index.client.get(index=world.name, id=str(n)).body["_source"])
        partition = source["metadata"]["partition"]
        source["metadata"] = {**source["metadata"], "offset": world.ends[partition] + n}
        world.index.client.index(index=world.name, id=str(n), document=source)
    report = world.audit()
    assert report.clean
    assert report.in_flight == 30
