"""Keys, values and limits that servers trip over, through the indexer's own task: right, or set aside with a reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from include.clock import SystemClock
from include.index.bulk.sender import Delivery
from include.index.definition import IndexDefinition
from include.index.digest import of_limbs, state_hash
from include.index.mapping.declared import creation
from include.index.metadata import metadata_mapping
from include.index.outcome import TaskOutcome
from include.index.progress.document import IndexProgress
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.states import States, feed_of
from include.index.task import IndexTask
from include.log.memory import MemoryRegistry
from include.record.codec import Encoder, frame
from include.record.json.body import canonical
from include.record.version import to_header
from include.settings.connections import Cluster, Elasticsearch

BODY: dict[str, Any] = {
    "properties": {
        "text": {"type": "keyword"},
        "number": {"type": "long"},
        "exact": {"type": "keyword"},
        "lines": {"type": "nested", "properties": {"n": {"type": "integer"}}},
        "free": {"type": "object", "dynamic": True},
    }
}


class Harness:
    """An index whose documents come as JSON, by keys of text, or of a schema."""

    def __init__(self, index: ElasticsearchIndex, name: str, key_schema: Mapping[str, Any] | None = None) -> None:
        self.index, self.name, self.registry = index, f"{name}-v1", MemoryRegistry()
        raw = {"application": "a", "topic": "t", "entity": "order", "mapping": "m.json"}
        self.key: Callable[[Any], bytes] = str.encode
        if key_schema is None:
            raw["key"] = "text"
        else:
            self.key = Encoder(self.registry.register("k", key_schema), key_schema)
        self.definition = IndexDefinition.model_validate(raw)
        mapping = {"dynamic": "strict", "properties": {"order": BODY, "metadata": metadata_mapping()}}
        made = creation(name, self.definition, mapping)
        # Deletes are forgotten at once, as after the minute that servers keep them.
        index.create(self.name, {**made, "settings": {**made["settings"], "index.gc_deletes": "0s"}})
        self.schema = self.registry.register("v", {"type": "object"}, language="JSON")

    def run(self, *records: tuple[Any, int, str | None]) -> TaskOutcome:
        """Index (key, version, body as JSON text); None deletes."""
        feed = feed_of(Cluster(name="c", type="t"), self.definition, "t", IndexProgress("t"))
        delivery = Delivery(
            lambda data: self.index.bulk(self.name, data),
            SystemClock(),
            index=self.name,
            bulk_bytes=5_000_000,
            patience_s=30,
        )
        task = IndexTask(states={"t": States(feed, self.registry)}, delivery=delivery, window_bytes=5_000_000)
        return task.run(
            (
                "t",
                0,
                n,
                self.key(key),
                None if text is None else frame(self.schema, text.encode()),
                [to_header(version)],
                0,
            )
            for n, (key, version, text) in enumerate(records)
        )

    def body(self, key: str) -> Any:
        found = self.index.get(self.name, key)
        assert found is not None
        metadata, body = found.source["metadata"], found.source["order"]
        state = state_hash(metadata["doc_id"], metadata["version"], canonical(body))
        assert of_limbs(metadata["d0"], metadata["d1"]) == state
        return body


@pytest.fixture
def index(elasticsearch_url: str, unique: str) -> Iterator[ElasticsearchIndex]:
    made = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    yield made
    made.client.indices.delete(index=f"{unique}-v1", ignore_unavailable=True)
    made.close()


@pytest.fixture
def world(index: ElasticsearchIndex, unique: str) -> Harness:
    return Harness(index, unique)


def test_keys_of_any_text_name_their_own_document(world: Harness) -> None:
    keys = ["ключ", "\U0001f600", "\ufffd", "5", "05", "5.0", "1e3", '["a",1]', 'a"b\\c', "a b/c?d#e", "x" * 512]
    assert world.run(*((key, 1, json.dumps({"text": key[:9]})) for key in keys)).total("indexed") == len(keys)
    assert [world.body(key)["text"] for key in keys] == [key[:9] for key in keys]
    long = "ü" * 300
    world.run((long, 1, '{"text":"long"}'))
    assert world.index.get_many(world.name, [long]) == {}
    assert world.body(f"sha256:{hashlib.sha256(long.encode()).hexdigest()}") == {"text": "long"}
    world.index.refresh(world.name)
    assert len(world.index.living_below(world.name, "t", 2, 100)) == len(keys) + 1


def test_a_key_of_several_fields_is_one_name_that_no_other_key_has(index: ElasticsearchIndex, unique: str) -> None:
    fields = [{"name": "place", "type": "string"}, {"name": "number", "type": ["null", "long"]}]
    world = Harness(index, unique, {"type": "record", "name": "Key", "fields": fields})
    names = {("a", 1): '["a",1]', ("a,1", None): '["a,1",null]', ('a",1', 1): '["a\\",1",1]', ("", 0): '["",0]'}
    keys = [{"place": place, "number": number} for place, number in names]
    assert world.run(*((key, 1, json.dumps({"text": str(n)})) for n, key in enumerate(keys))).total("indexed") == 4
    assert [world.body(name)["text"] for name in names.values()] == ["0", "1", "2", "3"]
    world.run((keys[0], 2, None))
    world.index.refresh(world.name)
    assert len(world.index.living_below(world.name, "t", 3, 100)) == 3


def test_numbers_are_exact_or_their_record_is_set_aside(world: Harness) -> None:
    exact = {"number": 9_223_372_036_854_775_807, "exact": "12345678901234567890.123456789"}
    out = world.run(
        ("max", 1, json.dumps(exact)),
        ("past", 1, '{"number":9223372036854775808}'),
        ("lossy", 1, '{"number":0.1234567890123456789}'),
    )
    assert world.body("max") == exact
    assert out.total("dead") == 2
    reasons = {one.record.key: one.reason for one in out.dead}
    assert "out of range" in reasons[b"past"]
    assert "more digits" in reasons[b"lossy"]


def test_a_document_beyond_a_limit_is_set_aside_alone_with_the_servers_reason(world: Harness) -> None:
    longest, too_long = "x" * 32_766, "x" * 32_767
    fields = {f"f{n}": n for n in range(1000)}
    out = world.run(
        ("longest", 1, json.dumps({"text": longest})),
        ("term", 1, json.dumps({"text": too_long})),
        ("three bytes", 1, json.dumps({"text": "語" * 10_923})),
        ("fields", 1, json.dumps({"free": fields})),
        ("nested", 1, json.dumps({"lines": [{"n": 1}] * 10_001})),
        ("scalars", 1, '{"lines":[1,2]}'),
        ("unknown", 1, '{"other":1}'),
        ("good", 1, '{"text":"a"}'),
    )
    assert world.body("longest") == {"text": longest}
    assert world.body("good") == {"text": "a"}
    reasons = {(one.record.key or b"").decode(): one.reason for one in out.dead}
    wanted = {
        "term": "32766",
        "three bytes": "32766",
        "fields": "Limit of total fields [1000]",
        "nested": "[10000]",
        "scalars": "object mapping",
        "unknown": "strict_dynamic_mapping_exception",
    }
    assert set(reasons) == set(wanted)
    assert {key: part for key, part in wanted.items() if part not in reasons[key]} == {}
    assert all(one.refused for one in out.dead)


def test_an_old_state_stays_deleted_after_the_server_has_forgotten_deletes(world: Harness) -> None:
    world.run(("a", 1, '{"text":"old"}'))
    world.run(("a", 3, None))
    world.index.refresh(world.name)
    out = world.run(("a", 2, '{"text":"older"}'), ("b", 1, '{"text":"b"}'))
    assert (out.total("stale"), out.total("indexed")) == (1, 1)
    found = world.index.get(world.name, "a")
    assert found is not None
    assert (found.deleted, found.version) == (True, 3)
