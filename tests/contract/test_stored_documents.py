"""One suite for the double and the real server: whole documents by the sequence numbers of their writes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import orjson
import pytest

from include.audit.search.scrub import StoredDocument, StoredDocuments, is_altered
from include.audit.search.views.elasticsearch.documents import ElasticsearchDocuments
from include.audit.search.views.memory import MemoryDocuments
from include.index.mapping.declared import creation
from include.index.metadata import Metadata, TopicOrigin
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.memory import MemoryIndex
from include.index.server.port import SearchIndex
from include.settings.connections import Elasticsearch
from tests.support.documents.topic import MAPPING, one_topic

DEFINITION = one_topic("t", shards=1)
BODY = b'{"order_id":9007199254740993,"state":"\xc3\xbc","total_price":0.1}'


class Harness:
    def __init__(self, index: SearchIndex, name: str, documents: StoredDocuments) -> None:
        self.index, self.name, self.documents = index, name, documents

    def write(self, key: str, version: int = 1, *, deleted: bool = False, topic: str = "t", body: bytes = BODY) -> None:
        metadata = Metadata(TopicOrigin("c", "t", topic, 1))
        at = (0, 0, key, version)
        said = metadata.deleted(*at) if deleted else metadata.living(*at, BODY)
        action = orjson.dumps({"index": {"_id": key, "version": version, "version_type": "external_gte"}})
        document = b"{%b}" % (b'"metadata":%b' % said + (b"" if deleted else b',"order":%b' % body))
        answer = self.index.bulk(self.name, action + b"\n" + document + b"\n")
        assert answer.items is not None
        assert answer.items[0].status in (200, 201), answer


@pytest.fixture(params=["memory", "elasticsearch"])
def world(request: pytest.FixtureRequest, unique: str) -> Iterator[Harness]:
    name = f"{unique}-v1"
    if request.param == "memory":
        memory = MemoryIndex()
        memory.create(name, creation(unique, DEFINITION, MAPPING))
        yield Harness(memory, name, MemoryDocuments(memory, name, "t", "order"))
        return
    index = ElasticsearchIndex(Elasticsearch(url=request.getfixturevalue("elasticsearch_url")))
    index.create(name, creation(unique, DEFINITION, MAPPING))
    yield Harness(index, name, ElasticsearchDocuments(index, name, "t", "order"))
    index.client.indices.delete(index=name, ignore_unavailable=True)
    index.close()


def ids(found: Iterator[StoredDocument]) -> list[str]:
    return sorted(each.doc_id for each in found)


def test_what_was_written_between_two_marks_is_read_once(world: Harness) -> None:
    for key in ("a", "b", "c"):
        world.write(key)
    first = world.documents.marks()
    assert ids(world.documents.written({}, first)) == ["a", "b", "c"]
    world.write("b", 2)
    world.write("d")
    world.write("a", 3, deleted=True)
    world.write("x", topic="u")
    second = world.documents.marks()
    assert ids(world.documents.written(first, second)) == ["a", "b", "d"]
    assert ids(world.documents.written(second, world.documents.marks())) == []


def test_a_document_is_read_as_it_was_written_and_an_altered_one_shows(world: Harness) -> None:
    world.write("ü/1")
    world.write("gone", deleted=True)
    world.write("forged", body=b'{"order_id":9007199254740992,"state":"\xc3\xbc","total_price":0.1}')
    world.write("raised")
    (before,) = [each for each in world.documents.again(["raised"])]
    assert (before.version, before.stored_version) == (1, 1)
    found = {each.doc_id: each for each in world.documents.written({}, world.documents.marks())}
    assert found["ü/1"].body == orjson.loads(BODY)
    assert [key for key, each in sorted(found.items()) if is_altered(each)] == ["forged"]
    assert (found["gone"].deleted, found["gone"].body, found["gone"].state) == (True, None, None)


def test_shares_of_the_living_are_together_all_of_them(world: Harness) -> None:
    keys = [f"k{n:03}" for n in range(200)]
    for key in keys:
        world.write(key)
    world.write("gone", deleted=True)
    upto = world.documents.marks()
    shares = [ids(world.documents.written({}, upto, (n, 5))) for n in range(5)]
    assert sorted(key for share in shares for key in share) == keys
    assert all(share for share in shares)


def test_values_that_no_search_finds_are_counted_by_field(elasticsearch_url: str, unique: str) -> None:
    index = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    name = f"{unique}-v1"
    mapping = json.loads(json.dumps(MAPPING))
    mapping["properties"]["order"]["properties"]["state"]["ignore_above"] = 3
    index.create(name, creation(unique, DEFINITION, mapping))
    world = Harness(index, name, ElasticsearchDocuments(index, name, "t", "order"))
    try:
        world.write("a")
        world.write("b", body=b'{"state":"much too long"}')
        world.documents.marks()
        assert world.documents.hidden() == {"order.state": 1}
    finally:
        index.client.indices.delete(index=name, ignore_unavailable=True)
        index.close()


def test_more_documents_than_a_page_are_read_whole(elasticsearch_url: str, unique: str) -> None:
    index = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    name = f"{unique}-v1"
    index.create(name, creation(unique, DEFINITION.model_copy(update={"shards": 2}), MAPPING))
    metadata = Metadata(TopicOrigin("c", "t", "t", 1))
    lines = []
    for n in range(9_000):
        action = orjson.dumps({"index": {"_id": str(n), "version": 1, "version_type": "external"}})
        lines.append(b'%b\n{"order":%b,"metadata":%b}\n' % (action, BODY, metadata.living(0, n, str(n), 1, BODY)))
    try:
        assert index.bulk(name, b"".join(lines)).status == 200
        documents = ElasticsearchDocuments(index, name, "t", "order")
        found = list(documents.written({}, documents.marks()))
        assert len({each.doc_id for each in found}) == len(found) == 9_000
        assert not any(map(is_altered, found))
        # A mark, a refresh, and three pages of each of two shards at once.
        assert documents.requests <= 6
    finally:
        index.client.indices.delete(index=name, ignore_unavailable=True)
        index.close()
