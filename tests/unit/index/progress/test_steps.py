from __future__ import annotations

import pytest

from include.errors import Terminal
from include.index.definition import IndexDefinition
from include.index.feed import PartitionNumber
from include.index.progress.document import IndexProgress
from include.index.progress.grown_topics import PartitionCounts
from include.index.progress.steps import grown, of_cluster, resumed, start_of
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec
from include.log.topics import resolved_of


def test_a_topic_that_was_made_anew_is_refused_until_its_generation_is_raised_and_then_read_from_the_beginning() -> (
    None
):
    known = IndexProgress("t", 1, topic_ids={"t": "old"}, acked={0: 9}, floors={"d.t": 4}, epochs={0: 2})
    assert resumed(known, 1, "old") == known
    assert resumed(known, 1, None) == known
    with pytest.raises(Terminal, match="generation to 2"):
        resumed(known, 1, "new")
    assert resumed(known, 2, "new") == IndexProgress("t", 2, floors={"d.t": 4})
    with pytest.raises(Terminal, match="lowered"):
        resumed(resumed(known, 2, "new"), 1, "new")
    assert resumed(IndexProgress("t"), 3, "new").generation == 3


def test_a_topic_of_the_same_name_in_another_cluster_needs_an_index_of_its_own() -> None:
    topic = index().topics["t"]
    known = of_cluster(IndexProgress("t", 1, topic_ids={"t": "eastern"}, acked={0: 9}), "east/shop", "eastern", topic)
    assert IndexProgress.from_json(known.to_json()).cluster == "east/shop"
    assert of_cluster(known, "east/shop", "anew", topic) == known
    with pytest.raises(Terminal, match="another cluster's topic") as refused:
        of_cluster(known, "west/shop", "western", topic)
    assert refused.value.details["indexed"] == "east/shop"
    # Nothing of it was read, or the topic was made anew in a cluster of another name and said to be another one.
    assert of_cluster(IndexProgress("t", 1, cluster="east/shop"), "west/shop", "western", topic).cluster == "west/shop"
    again = index(topic_generation=2).topics["t"]
    assert resumed(of_cluster(known, "west/shop", "western", again), 2, "western") == IndexProgress(
        "t", 2, cluster="west/shop"
    )


def test_a_cluster_may_be_renamed_unless_its_name_is_a_part_of_the_ids() -> None:
    known = IndexProgress("t", 1, topic_ids={"t": "id"}, acked={0: 9}, cluster="east/shop")
    assert of_cluster(known, "north/shop", "id", index().topics["t"]).cluster == "north/shop"
    with pytest.raises(Terminal, match="back to east/shop"):
        of_cluster(known, "north/shop", "id", index(key="none").topics["t"])


def test_growth_is_noted_with_the_ends_that_the_old_partitions_had() -> None:
    one = grown(IndexProgress("t"), 3, {0: 5, 1: 6, 2: 7})
    assert one.partitions == (PartitionNumber(3),)
    two = grown(one, 7, {0: 8, 1: 9, 2: 9, 3: 1})
    assert two.partitions == (PartitionNumber(3, {0: 8, 1: 9, 2: 9}), PartitionNumber(7))
    assert grown(two, 7, {0: 99}) == two
    assert IndexProgress.from_json(two.to_json()) == two


def index(**more: object) -> IndexDefinition:
    raw = {"application": "a", "topic": "t", "entity": "e", "mapping": "m.json", "versions": "offset", "key": "text"}
    return IndexDefinition.model_validate({**raw, **more})


def test_numbers_that_are_declared_later_begin_a_topic_anew_as_versions_count_them() -> None:
    seen = (PartitionNumber(3, {0: 4}), PartitionNumber(7))
    known = IndexProgress("t", 1, topic_ids={"t": "id"}, acked={0: 9}, partitions=seen)
    assert resumed(known, 1, "id", [3, 7]) == known
    assert resumed(known, 1, "id", [3, 7, 9]) == known
    assert resumed(known, 1, "id", []) == known
    again = resumed(known, 1, "id", [3, 5, 7])
    assert (again.acked, again.topic_ids) == ({}, {"t": "id"})
    assert again.partitions == (PartitionNumber(3), PartitionNumber(5), PartitionNumber(7))
    assert resumed(again, 1, "id", [3, 5, 7]) == again


def test_the_log_is_asked_for_growth_only_where_versions_depend_on_it() -> None:
    log = MemoryLog()
    log.admin().ensure(TopicSpec("t", 3))
    found = PartitionCounts(index(), log.admin(), log.reader()).look(IndexProgress("t"))
    assert found.partitions == (PartitionNumber(3),)
    for more in ({"versions": "header"}, {"key": "none"}):
        assert PartitionCounts(index(**more), log.admin(), log.reader()).look(IndexProgress("t")) == IndexProgress("t")
    assert PartitionCounts(index(), MemoryLog().admin(), MemoryLog().reader()).look(
        IndexProgress("t")
    ) == IndexProgress("t")


def test_a_topic_of_any_partitioner_may_not_grow() -> None:
    log = MemoryLog()
    log.admin().ensure(TopicSpec("t", 7))
    growth = PartitionCounts(index(partitioner="any"), log.admin(), log.reader())
    with pytest.raises(Terminal, match="Make the topic anew"):
        growth.look(IndexProgress("t", partitions=(PartitionNumber(3),)))


def test_change_topics_share_their_sources_resolved_topic_and_start_at_the_least_offset_of_it() -> None:
    assert resolved_of("cdc.shop.db.orders") == "cdc.shop.resolved"
    assert resolved_of("assembled_order") == "assembled_order.resolved"
    one, two = "cdc.shop.db.a", "cdc.shop.db.b"
    progress = {
        one: IndexProgress(one, acked={0: 5}, resolved_acked={0: 9}),
        two: IndexProgress(two, acked={0: 2}, resolved_acked={0: 4}),
    }
    assert start_of(progress) == {one: {0: 5}, two: {0: 2}, "cdc.shop.resolved": {0: 4}}
    new = {**progress, "cdc.shop.db.c": IndexProgress("cdc.shop.db.c")}
    assert start_of(new)["cdc.shop.resolved"] == {}
