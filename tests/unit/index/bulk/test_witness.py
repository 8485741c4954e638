"""A document at which the server breaks, alone in its batch: told from an outage by a document that the index has."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Terminal, Transient
from include.index import worker
from include.index.bulk.request import BulkLine, line_bytes
from include.index.bulk.sender import Delivery, DeliveryResult
from include.index.bulk.suspects import Suspects
from include.index.bulk.witness import MOST_WITNESS_BYTES, Witness
from include.index.definition import IndexTopic
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.index.outcome import TaskOutcome
from include.index.server.memory import MemoryIndex
from include.index.server.port import BulkAnswer, ItemAnswer
from include.index.task import raw_of
from include.log.memory import MemoryLog, MemoryRegistry
from include.settings.connections import Elasticsearch, Registry
from tests.support.documents.topic import DocumentTopic

NAME = "orders-v1"
FAULT = ItemAnswer(500, "null_pointer_exception", "a pipeline's bug")
Breaks = Callable[[str, str, Any], bool]
"""Whether the server breaks at an operation (index, delete) on an `_id` with a source (None: of a delete)."""


def poison(_: str, doc_id: str, source: Any) -> bool:
    return source is not None and doc_id == "poison"


def line(doc_id: str, version: int = 1, *, routing: str | None = None, deleted: bool = False, pad: int = 0) -> BulkLine:
    metadata = json.dumps({"topic": "docs", "doc_id": doc_id, "version": version, "deleted": deleted}).encode()
    body = None if deleted else json.dumps({"note": "x" * pad}).encode()
    return BulkLine(doc_id, line_bytes(doc_id, version, b'"order"', body, metadata, routing=routing), deleted)


class Longest(random.Random):
    """Each wait is as long as it may be: what patience lasts for so, it lasts for always."""

    def uniform(self, _: float, b: float) -> float:
        return b


class Server:
    """An index whose server breaks at some operations; `deliver` is one try of a batch, in a delivery of its own."""

    def __init__(self, breaks: Breaks = poison) -> None:
        self.index = MemoryIndex()
        self.index.create(NAME, {})
        self.breaks = breaks
        self.sent: list[list[str]] = []
        self.started()

    def started(self) -> None:
        """A process begins that has seen nothing."""
        self.witness = Witness(self.index, NAME, ["none", "docs"])

    def put(self, *lines: BulkLine) -> None:
        """Documents that are there."""
        self.index.bulk(NAME, b"".join(each.data for each in lines))
        self.index.refresh(NAME)

    def send(self, data: bytes) -> BulkAnswer:
        rows, answers = iter(data.split(b"\n")[:-1]), []
        self.sent.append([])
        for row in rows:
            [(kind, action)] = json.loads(row).items()
            body = next(rows) if kind == "index" else None
            self.sent[-1].append(action["_id"])
            if self.breaks(kind, action["_id"], body and json.loads(body)):
                answers.append(FAULT)
                continue
            answer = self.index.bulk(NAME, b"".join(each + b"\n" for each in (row, body) if each is not None))
            answers += answer.items or ()
        return BulkAnswer(200, answers)

    def deliver(self, *lines: BulkLine) -> DeliveryResult:
        delivery = Delivery(
            self.send,
            ManualClock(),
            index=NAME,
            bulk_bytes=100_000,
            patience_s=15,
            jitter=Longest(),
            witness=self.witness,
        )
        return delivery.deliver(lines)


def dead(out: DeliveryResult) -> list[str]:
    return [each.ref for each, _ in out.dead]


def test_a_document_that_is_alone_with_its_fault_is_dead_after_a_stored_one_was_answered() -> None:
    server = Server()
    server.put(line("1", 4), line("2", 5))
    before = dict(server.index.visible(NAME))
    out = server.deliver(line("poison"))
    assert (dead(out), out.waiting) == (["poison"], [])
    assert [sent for sent in server.sent if len(sent) > 1] == [["poison", "1", "poison"]]
    server.index.refresh(NAME)
    assert server.index.visible(NAME) == before


def test_several_of_them_are_dead_though_no_sibling_passes() -> None:
    server = Server(lambda _, doc_id, source: source is not None and doc_id != "1")
    server.put(line("1"))
    assert sorted(dead(server.deliver(line("a"), line("b")))) == ["a", "b"]


def test_the_one_before_is_sent_as_it_was_where_pipelines_cannot_take_what_they_made() -> None:
    def breaks(kind: str, doc_id: str, source: Any) -> bool:
        return poison(kind, doc_id, source) or bool(source and "renamed" in source)

    server = Server(breaks)
    assert server.deliver(line("2"), line("3", deleted=True)).dead == []
    action = {"_id": "2", "version": 2, "version_type": "external"}
    made = {"renamed": 1, "metadata": {"topic": "docs", "version": 2}}
    server.put(BulkLine(None, f"{json.dumps({'index': action})}\n{json.dumps(made)}\n".encode()))
    assert dead(server.deliver(line("poison"))) == ["poison"]
    assert server.sent[-1] == ["poison", "2", "poison"]
    server.started()
    assert dead(server.deliver(line("poison"))) == []


def test_a_witness_that_was_purged_meanwhile_does_not_live_again() -> None:
    server = Server()
    server.deliver(line("1", 3))
    server.index.remove(NAME, "1")
    assert len(server.deliver(line("poison")).waiting) == 1
    server.put(line("2"))
    assert dead(server.deliver(line("poison"))) == ["poison"]
    assert server.index.get(NAME, "1") is None


@pytest.mark.parametrize(
    "breaks",
    [
        pytest.param(lambda *_: True, id="server"),
        pytest.param(lambda kind, *_: kind == "index", id="pipelines"),
        pytest.param(lambda kind, *_: kind == "delete", id="shard"),
        pytest.param(lambda _, __, source: source is not None and "order" in source, id="pipelines but tombstones"),
    ],
)
def test_in_an_outage_a_document_waits_however_often_it_is_tried(breaks: Breaks) -> None:
    server = Server()
    server.put(line("1", 4))
    server.deliver(line("2"))
    server.breaks = lambda *of: poison(*of) or breaks(*of)
    for _ in range(20):
        out = server.deliver(line("poison"), line("gone", deleted=True))
        assert out.dead == []
        assert "poison" in [each.ref for each in out.waiting]
    server.breaks = lambda *_: False
    assert [each.ref for each in server.deliver(line("poison")).done] == ["poison"]


def test_an_index_without_any_document_says_nothing_of_its_pipelines() -> None:
    server = Server()
    server.put(line("1", deleted=True), line("2", pad=MOST_WITNESS_BYTES))
    assert [each.ref for each in server.deliver(line("poison")).waiting] == ["poison"]


@pytest.mark.parametrize("error", [Transient("away"), Terminal("index does not exist")])
def test_a_server_that_is_away_when_it_is_asked_for_a_witness_is_waited_for(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise error

    server = Server()
    server.put(line("1"))
    with monkeypatch.context() as away:
        away.setattr(server.index, "living_below", fails)
        assert [each.ref for each in server.deliver(line("poison")).waiting] == ["poison"]
    assert dead(server.deliver(line("poison"))) == ["poison"]


def test_a_routed_document_bears_witness_in_its_own_shard_and_one_that_died_meanwhile_does_not() -> None:
    server = Server()
    server.put(line("1", 1), line("2", 2, routing="r"))
    server.index.bulk(NAME, line("1", 7, deleted=True).data)
    assert dead(server.deliver(line("poison"))) == ["poison"]
    found = server.witness.bring()
    assert found is not None
    assert found.data.startswith(b'{"index":{"_id":"2","version":2,"version_type":"external","routing":"r"}}\n')
    server.deliver(line("3", 1, routing="q"))
    found = server.witness.bring()
    assert found is not None
    assert found.data == line("3", 1, routing="q").data


def test_a_witness_is_asked_for_once_and_only_when_a_document_has_failed_several_times() -> None:
    suspects, one = Suspects(), line("1")
    for _ in range(4):
        suspects.answered(one, broken=True, probed=False)
        assert not suspects.lack_witness
    suspects.answered(one, broken=True, probed=False)
    assert suspects.lack_witness
    suspects.bear(None)
    assert not suspects.lack_witness
    suspects.clear()
    assert not suspects.lack_witness


def test_the_tasks_of_a_worker_know_what_was_taken_before(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(lambda kind, doc_id, _: kind == "index" and doc_id == "2")
    log, registry = MemoryLog(), MemoryRegistry()
    topic = DocumentTopic("docs", log.admin(), log.writer("w"), registry)
    port = SimpleNamespace(bulk=lambda _, data: server.send(data), get=server.index.get, living_below=lambda *_: [])
    monkeypatch.setattr(worker, "_server", lambda _: port)
    monkeypatch.setattr(worker, "SystemClock", ManualClock)
    monkeypatch.setattr(worker, "_registry", lambda _: registry)
    worker._witness.cache_clear()
    plan = worker.WorkerPlan(
        index=NAME,
        feeds=(Feed(TopicOrigin("c", "t", "docs", 1), IndexTopic(entity="order")),),
        bootstrap="",
        kafka_options={},
        elasticsearch=Elasticsearch(url="http://localhost:9200"),
        registry=Registry(url="http://localhost:8081"),
        bulk_bytes=1000,
    )

    def task() -> TaskOutcome:
        reader = log.reader()
        ends = reader.end_offsets("docs")
        records = [raw_of(r) for p, end in ends.items() for r in reader.read("docs", p, read.get(p, 0), end)]
        read.update(ends)
        monkeypatch.setattr(worker, "_records", lambda *_: records)
        return worker.work_off(plan, [])

    read: dict[int, int] = {}
    topic.put(1)
    assert task().total("indexed") == 1
    topic.put(2)
    out = task()
    assert (out.total("dead"), out.waiting) == (1, False)
    worker._witness.cache_clear()
