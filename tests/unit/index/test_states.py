from __future__ import annotations

import pytest

from include.errors import InvalidRecord, SettingsError
from include.index.definition import IndexDefinition, IndexTopic
from include.index.feed import Feed, PartitionNumber
from include.index.identity import index_id
from include.index.metadata import TopicOrigin
from include.index.progress.document import IndexProgress
from include.index.states import State, States, feed_of
from include.log.memory import MemoryRegistry
from include.log.ports import Record
from include.record.codec import frame
from include.record.key import partition_of, pseudo_key
from include.record.version import pack, to_header
from include.settings.connections import Cluster

CLUSTER = Cluster(name="c", type="t")


def definition(versions: str = "offset", **topic: object) -> IndexDefinition:
    raw = {"application": "a", "topic": "clicks", "entity": "click", "mapping": "m.json", "versions": versions, **topic}
    return IndexDefinition.model_validate(raw)


def click(registry: MemoryRegistry, text: str = "{}") -> bytes:
    return frame(registry.register("v", {"type": "object"}, language="JSON"), text.encode())


def test_a_record_without_a_key_is_a_document_of_its_own_under_an_id_that_names_its_cluster() -> None:
    registry = MemoryRegistry()
    feed = feed_of(CLUSTER, definition(key="none"), "clicks", IndexProgress("clicks"))
    record = Record("clicks", 2, 7, None, click(registry, '{"page":1}'))
    found = States(feed, registry).of(record)
    assert found == State(pseudo_key("c", "t", "clicks", 2, 7), pack(1, 7), b'{"page":1}')
    other = feed_of(Cluster(name="c2", type="t"), definition(key="none"), "clicks", IndexProgress("clicks"))
    elsewhere = States(other, registry).of(record)
    assert elsewhere is not None
    assert elsewhere.doc_id != found.doc_id


def test_a_record_without_key_and_value_makes_no_document() -> None:
    registry = MemoryRegistry()
    feed = feed_of(CLUSTER, definition(key="none"), "clicks", IndexProgress("clicks"))
    assert States(feed, registry).of(Record("clicks", 0, 0, None, None)) is None
    keyed = feed_of(CLUSTER, definition(key="text"), "clicks", IndexProgress("clicks"))
    assert States(keyed, registry).of(Record("clicks", 0, 0, b"k", None)) == State("k", pack(1, 0), None)


def test_versions_by_offset_follow_the_key_through_the_growth_that_progress_knows() -> None:
    registry = MemoryRegistry()
    key = next(k for k in (b"k%d" % n for n in range(99)) if partition_of(k, 3) != partition_of(k, 7))
    progress = IndexProgress("clicks", partitions=(PartitionNumber(3, {0: 9, 1: 9, 2: 9}), PartitionNumber(7)))
    states = States(feed_of(CLUSTER, definition(key="text"), "clicks", progress), registry)
    before = states.of(Record("clicks", partition_of(key, 3), 8, key, None))
    after = states.of(Record("clicks", partition_of(key, 7), 0, key, None))
    assert before is not None
    assert after is not None
    assert before.version < after.version


def test_any_partitioner_leaves_offsets_alone() -> None:
    feed = feed_of(CLUSTER, definition(key="text", partitioner="any"), "clicks", IndexProgress("clicks"))
    found = States(feed, MemoryRegistry()).of(Record("clicks", 2, 5, b"k", None))
    assert found is not None
    assert found.version == pack(1, 5)


def test_versions_by_header_need_it_and_what_lies_below_the_floor_is_no_state() -> None:
    registry = MemoryRegistry()
    progress = IndexProgress("clicks", floors={"d.t": 10})
    states = States(feed_of(CLUSTER, definition("header", key="text"), "clicks", progress), registry)
    assert states.of(Record("clicks", 0, 0, b"k", None, [to_header(9)])) is None
    assert states.of(Record("clicks", 0, 0, b"k", None, [to_header(10)])) == State("k", 10, None)
    with pytest.raises(InvalidRecord, match="version"):
        states.of(Record("clicks", 0, 0, b"k", None))


def test_in_an_index_of_several_topics_an_id_names_its_topic_and_still_fits() -> None:
    feed = Feed(TopicOrigin("c", "t", "clicks", 1), IndexTopic(entity="click"), shared=True)
    assert feed.index_id("5") == "clicks/5"
    assert Feed(TopicOrigin("c", "t", "clicks", 1), IndexTopic(entity="click")).index_id("5") == "5"
    long = index_id("t" * 249, "ü" * 256)
    assert len(long.encode()) <= 512
    assert long != index_id("t" * 249, "ü" * 255 + "x")


def test_declared_numbers_of_partitions_that_do_not_grow_are_refused() -> None:
    with pytest.raises(SettingsError, match="only grow"):
        feed_of(CLUSTER, definition(key="text", partitions=[7, 3]), "clicks", IndexProgress("clicks"))
