"""One suite for the double and the real server: sums over states of a moment, and the documents behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import orjson
import pytest

from include.audit.search.bounds import AuditBounds, PartitionShare, Window
from include.audit.search.iblt import add_up
from include.audit.search.views.elasticsearch.moment import counting_client
from include.audit.search.views.elasticsearch.states import ElasticsearchStates
from include.audit.search.views.memory import MemoryStates
from include.audit.search.views.state_view import FarAhead, IndexState, StateView
from include.errors import Terminal
from include.index.digest import BUCKET_BITS, bucket, state_hash
from include.index.mapping.declared import creation
from include.index.metadata import Metadata, TopicOrigin
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.memory import MemoryIndex
from include.index.server.port import SearchIndex
from include.settings.connections import Elasticsearch
from tests.support.documents.topic import MAPPING, one_topic

DEFINITION = one_topic("t")
BODY = b'{"state":"completed"}'


class Harness:
    """An index with documents whose offsets the test chooses, and views of it."""

    def __init__(self, index: SearchIndex, name: str, view: Callable[[str, str, AuditBounds], StateView]) -> None:
        self.index, self.name, self._view = index, f"{name}-v1", view
        index.create(self.name, creation(name, DEFINITION, MAPPING))
        self._views: list[StateView] = []

    def write(
        self, keys: list[str], *, offset: int = 0, partition: int = 0, version: int = 1, deleted: bool = False,
        topic: str = "t", generation: int = 1,
    ) -> None:  # fmt: skip
        metadata = Metadata(TopicOrigin("c", "t", topic, generation))
        lines = []
        for key in keys:
            action = {"index": {"_id": key, "version": version, "version_type": "external_gte"}}
            at = (partition, offset, key, version)
            said = metadata.deleted(*at) if deleted else metadata.living(*at, BODY)
            body = b"" if deleted else b'"order":%b,' % BODY
            lines.append(b'%b\n{%b"metadata":%b}\n' % (orjson.dumps(action), body, said))
        answer = self.index.bulk(self.name, b"".join(lines))
        assert answer.items is not None
        assert {item.status for item in answer.items} <= {200, 201}, answer

    def view(self, window: Window | AuditBounds) -> StateView:
        self.index.refresh(self.name)
        found = self._view(self.name, "t", window if isinstance(window, AuditBounds) else AuditBounds(window))
        self._views.append(found)
        return found

    def close(self) -> None:
        for view in self._views:
            view.close()


@pytest.fixture(params=["memory", "elasticsearch"])
def world(request: pytest.FixtureRequest, unique: str) -> Iterator[Harness]:
    if request.param == "memory":
        memory = MemoryIndex()
        yield Harness(memory, unique, lambda name, topic, bounds: MemoryStates(memory, name, topic, bounds))
        return
    index = ElasticsearchIndex(Elasticsearch(url=request.getfixturevalue("elasticsearch_url")))
    found = Harness(index, unique, lambda name, topic, bounds: ElasticsearchStates(index, name, topic, bounds))
    try:
        yield found
    finally:
        found.close()
        index.client.indices.delete(index=f"{unique}-v1", ignore_unavailable=True)
        index.close()


def state(key: str, version: int = 1) -> int:
    return state_hash(key, version, BODY)


@pytest.mark.parametrize("bits", [6, 14, 16])
def test_sums_by_bucket_are_those_that_python_adds_up(world: Harness, bits: int) -> None:
    keys = [f"k{n}" for n in range(500)]
    world.write(keys, offset=4)
    world.write(["foreign"], topic="u")
    world.write(["gone"], deleted=True)
    view = world.view({0: 5})
    before = view.requests
    assert view.histograms(bits) == (add_up(map(state, keys), bits), [])
    assert view.requests - before == 1


def test_documents_from_beyond_the_window_are_named_with_the_sums(world: Harness) -> None:
    world.write(["a", "b"], offset=4)
    world.write(["c"], offset=5)
    world.write(["d"], partition=2, offset=1)
    world.write(["e"], partition=1, offset=7, deleted=True, version=3)
    sums, above = world.view({0: 5, 1: 7}).histograms(6)
    assert sums == add_up(map(state, "abcd"), 6)
    assert above == [
        IndexState("c", 1, 0, 5, False, state("c"), None, 1),
        IndexState("d", 1, 2, 1, False, state("d"), None, 1),
        IndexState("e", 3, 1, 7, True, None, None, 3),
    ]


@pytest.mark.parametrize("keyed", [True, False])
def test_documents_of_a_former_generation_lie_within_all_offsets_or_are_unproven(world: Harness, keyed: bool) -> None:
    world.write(["former"], offset=90)
    world.write(["a"], offset=4, generation=2)
    world.write(["b"], offset=5, generation=2)
    view = world.view(AuditBounds({0: 5}, 2, keyed=keyed))
    sums, above = view.histograms(6)
    assert sums == add_up(map(state, ["a", "b", *(["former"] if keyed else [])]), 6)
    assert [each.doc_id for each in above] == ["b"]
    assert view.unproven() == (0 if keyed else 1)


def test_documents_from_below_the_logs_start_are_left_out_and_counted(world: Harness) -> None:
    world.write(["former"], offset=90)
    world.write(["a", "a2"], offset=2, generation=2)
    world.write(["b"], offset=3, generation=2)
    world.write(["c"], offset=2, partition=1, generation=2)
    world.write(["d"], offset=1, generation=2, deleted=True)
    world.write(["e"], offset=4, partition=2, generation=2)
    view = world.view(AuditBounds({0: 5, 1: 5, 2: 5}, 2))
    bounds = AuditBounds({0: 5, 1: 5, 2: 3}, 2).held_from({0: 3, 1: 0, 2: 5})
    view.narrow(bounds)
    assert view.histograms(6) == (add_up(map(state, "bc"), 6), [])
    assert view.unproven() == 4
    assert [each.doc_id for each in view.holders([state("a")])] == ["a"]
    everywhere = range(1 << 6)
    assert sorted(each.doc_id for each in view.in_buckets(6, list(everywhere))) == ["b", "c"]


def test_holders_of_states_are_found_and_others_are_not(world: Harness) -> None:
    world.write(["a", "b", "ü/\U0001f600"], offset=4)
    world.write(["gone"], deleted=True)
    view = world.view({0: 5})
    found = view.holders([state("b"), state("ü/\U0001f600"), state("gone"), state("b") ^ 1 << 40])
    assert sorted(each.doc_id for each in found) == ["b", "ü/\U0001f600"]
    assert view.holders([]) == []


def test_documents_of_buckets_are_listed(world: Harness) -> None:
    keys = [f"k{n}" for n in range(200)]
    world.write(keys)
    places = {bucket(state(key), 0) >> (BUCKET_BITS - 6) for key in keys[:5]}
    wanted = sorted(key for key in keys if bucket(state(key), 0) >> (BUCKET_BITS - 6) in places)
    found = world.view({0: 5}).in_buckets(6, sorted(places))
    assert sorted(each.doc_id for each in found) == wanted
    assert 5 <= len(wanted) < 200


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_view_stays_at_its_moment_and_now_does_not(world: Harness, everywhere: bool) -> None:
    world.write(["a", "b"])
    view = world.view({0: 5})
    world.write(["a"], offset=9, version=2, deleted=True)
    world.write(["c"], offset=9)
    world.index.refresh(world.name)
    assert view.histograms(6) == (add_up([state("a"), state("b")], 6), [])
    found = view.now(["a", "b", "c", "d"], everywhere=everywhere)
    assert {key: each for key, each in found.items() if each} == {
        "a": [IndexState("a", 2, 0, 9, True, None, None, 2)],
        "b": [IndexState("b", 1, 0, 0, False, state("b"), None, 1)],
        "c": [IndexState("c", 1, 0, 9, False, state("c"), None, 1)],
    }


def test_copies_under_another_routing_are_found_everywhere(elasticsearch_url: str, unique: str) -> None:
    index = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    name = f"{unique}-v1"
    creating = creation(unique, DEFINITION.model_copy(update={"shards": 3}), MAPPING)
    try:
        index.create(name, creating)
        metadata = orjson.loads(Metadata(TopicOrigin("c", "t", "t", 1)).living(0, 0, "a", 1, BODY))
        for routing in ("one", "two", "three", "four"):
            document = {"order": orjson.loads(BODY), "metadata": metadata}
            index.client.index(
                index=name, id="a", document=document, routing=routing, version=1, version_type="external_gte"
            )
        index.refresh(name)
        view = ElasticsearchStates(index, name, "t", AuditBounds({0: 5}))
        copies = view.now(["a"], everywhere=True)["a"]
        assert len(copies) >= 2
        assert len({copy.routing for copy in copies}) == len(copies)
        assert [copy.routing for copy in view.holders([state("a")])] == [copy.routing for copy in copies]
        view.close()
    finally:
        index.client.indices.delete(index=name, ignore_unavailable=True)
        index.close()


def test_what_is_received_is_counted_as_it_came_over_the_wire(elasticsearch_url: str, unique: str) -> None:
    server = Elasticsearch(url=elasticsearch_url)
    index = ElasticsearchIndex(server, counting_client(server))
    world = Harness(index, unique, lambda name, topic, bounds: ElasticsearchStates(index, name, topic, bounds))
    try:
        world.write([f"k{n}" for n in range(2000)])
        view = world.view({0: 5})
        before = view.received
        view.histograms(10)
        # Each of about 900 buckets in two views is over 80 bytes of JSON, and far less when it is packed.
        assert 10_000 < view.received - before < 90_000
    finally:
        world.close()
        index.client.indices.delete(index=world.name, ignore_unavailable=True)
        index.close()


def test_a_view_of_an_index_that_is_not_there_is_an_error(elasticsearch_url: str, unique: str) -> None:
    index = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    with pytest.raises(Terminal, match="does not exist"):
        ElasticsearchStates(index, f"{unique}-v1", "t", AuditBounds({}))
    index.close()


def test_parts_have_each_document_once(world: Harness) -> None:
    for partition in range(3):
        world.write([f"below-{partition}"], partition=partition, offset=1)
        world.write([f"above-{partition}"], partition=partition, offset=5)
        world.write([f"gone-{partition}"], partition=partition, offset=6, deleted=True)
    bounds = AuditBounds({0: 5, 1: 5, 2: 5})
    view = world.view(bounds)
    assert view.above() == {0: 2, 1: 2, 2: 2}
    for part, names in ((PartitionShare(frozenset({1})), "1"), (PartitionShare(frozenset({1}), inside=False), "02")):
        view.narrow(replace(bounds, part=part))
        sums, above = view.histograms(4)
        assert sum(count for count, _ in sums[0].values()) == 2 * len(names)
        assert sorted(found.doc_id for found in above) == sorted(
            f"{what}-{name}" for name in names for what in ("above", "gone")
        )
        assert view.above() == {int(name): 2 for name in names}


def test_more_from_above_the_bounds_than_can_be_named_is_told_by_its_type(
    world: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("include.audit.search.views.state_view.MOST_ABOVE", 10_000)
    monkeypatch.setattr("include.audit.search.views.elasticsearch.states.MOST_ABOVE", 10_000)
    world.write([str(n) for n in range(10_001)], offset=5)
    with pytest.raises(FarAhead, match="far ahead"):
        world.view({0: 5}).histograms(4)
