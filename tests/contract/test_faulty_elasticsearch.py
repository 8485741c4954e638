"""The faulty server over sockets: the indexer's adapter meets in it what it meets in the double, and each fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from include.errors import Terminal
from include.index.server import elasticsearch as adapter
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.memory import MemoryIndex
from include.settings.connections import Elasticsearch
from tests.support.faults.elasticsearch.fate import Fate, ItemFate, Manner
from tests.support.faults.elasticsearch.node import FaultyNode
from tests.support.faults.elasticsearch.server import accepting, serving
from tests.support.faults.elasticsearch.simulation import NAME, Simulation

LINE = b'{"index":{"_id":"1","version":%d,"version_type":"external"}}\n{"order":{},"metadata":{"deleted":false}}\n'


class Harness:
    """A server whose requests meet the fates given, and a client of it."""

    def __init__(self, index: ElasticsearchIndex, memory: MemoryIndex, fates: list[Fate]) -> None:
        self.index, self.memory, self.fates = index, memory, fates


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    monkeypatch.setattr(adapter, "_BULK_S", 0.3)
    memory, fates = MemoryIndex(), list[Fate]()
    node = FaultyNode(memory, lambda _items: fates.pop(0) if fates else Fate())
    with serving(memory, node) as url:
        index = ElasticsearchIndex(Elasticsearch(url=url))
        try:
            yield Harness(index, memory, fates)
        finally:
            index.close()


def test_indexes_documents_and_notes_are_those_of_the_double(world: Harness) -> None:
    index = world.index
    assert index.describe(NAME) is None
    assert index.create(NAME, {"aliases": {"orders": {}}}) == world.memory.describe("orders")
    assert [each.status for each in index.bulk(NAME, LINE % 3).items or ()] == [201]
    assert [each.status for each in index.bulk(NAME, LINE % 3).items or ()] == [409]
    assert index.get(NAME, "1") == world.memory.get(NAME, "1")
    assert index.get(NAME, "2") is None
    assert index.get_many(NAME, ["1", "2"]) == world.memory.get_many(NAME, ["1", "2"])
    index.refresh(NAME)
    assert set(world.memory.visible(NAME)) == {"1"}
    first = index.write_note(NAME, "n", {"at": 1}, None)
    assert index.write_note(NAME, "n", {"at": 2}, None) is None
    assert index.note(NAME, "n") == first == world.memory.note(NAME, "n")
    assert index.write_note(NAME, "n", {"at": 2}, first) == index.note(NAME, "n")
    with pytest.raises(Terminal):
        index.refresh("nobody")


@pytest.mark.parametrize(
    ("manner", "kind"),
    [
        ("reset", "ConnectionError"),
        ("reset before", "ConnectionError"),
        ("cut", "ConnectionError"),
        ("silent", "ConnectionTimeout"),
        ("cut length", "SerializationError"),
        ("garbage", "SerializationError"),
    ],
)
def test_an_answer_that_does_not_come_whole_is_none(world: Harness, manner: Manner, kind: str) -> None:
    world.index.create(NAME, {})
    world.fates.append(Fate(manner))
    answer = world.index.bulk(NAME, LINE % 1)
    assert (answer.status, answer.items, answer.type) == (0, None, kind)
    # The next one meets a connection that works.
    assert world.index.bulk(NAME, LINE % 2).status == 200


def test_whole_refusals_and_items_are_told_with_their_types_and_waits(world: Harness) -> None:
    world.index.create(NAME, {})
    world.fates += [
        Fate(status=429, type="circuit_breaking_exception", written="no", retry_after_s=7),
        Fate(items={0: ItemFate(503, "unavailable_shards_exception", "yes")}),
        Fate("short"),
    ]
    full = world.index.bulk(NAME, LINE % 1)
    assert (full.status, full.type, full.retry_after_s) == (429, "circuit_breaking_exception", 7)
    assert world.memory.get(NAME, "1") is None
    items = world.index.bulk(NAME, LINE % 1).items
    assert items is not None
    assert [(each.status, each.type) for each in items] == [(503, "unavailable_shards_exception")]
    assert world.memory.get(NAME, "1") is not None
    assert world.index.bulk(NAME, LINE % 2).items == []


def test_a_stub_accepts_all_and_keeps_none() -> None:
    memory = MemoryIndex()
    memory.create(NAME, {})
    with serving(memory, accepting()) as url:
        index = ElasticsearchIndex(Elasticsearch(url=url))
        try:
            items = index.bulk(NAME, (LINE % 1) * 3).items
            assert [each.status for each in items or ()] == [201] * 3
            assert index.get(NAME, "1") is None
        finally:
            index.close()


def test_deliveries_over_sockets_end_as_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_BULK_S", 0.3)
    for seed in range(8):
        simulation = Simulation(seed)
        with serving(simulation.index, simulation.node) as url:
            index = ElasticsearchIndex(Elasticsearch(url=url))
            try:
                simulation.run(lambda lines, index=index: index.bulk(NAME, lines))  # type: ignore[misc]
            finally:
                index.close()
        assert simulation.wrong == [], f"seed {seed}"
