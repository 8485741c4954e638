"""What an index should hold, read by the indexer's own functions: any key form, any order, any floor."""

from __future__ import annotations

import random
from typing import Any

import pytest

from include.audit.search.expected import ExpectedDocuments, FoldedExpected, fold, reading_of, records_below
from include.audit.search.iblt import add_up
from include.index.digest import state_hash
from include.index.progress.document import IndexProgress
from include.index.states import States, feed_of
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import Record
from include.record.key import pseudo_key
from include.record.version import pack
from include.settings.connections import Cluster
from tests.support.documents.topic import DocumentTopic, one_topic

CLUSTER = Cluster(name="c", type="t")


class Harness:
    def __init__(self) -> None:
        self.log, self.registry = MemoryLog(), MemoryRegistry()
        self.topic = DocumentTopic("docs", self.log.admin(), self.log.writer("w"), self.registry)

    def records(self) -> list[Record]:
        reader = self.log.reader()
        return [r for p, end in reader.end_offsets("docs").items() for r in reader.read("docs", p, 0, end)]

    def expected(self, records: list[Record] | None = None, floor: int = 0, **declared: Any) -> FoldedExpected:
        definition = one_topic("docs", **declared)
        progress = IndexProgress("docs", floors={"db.docs": floor} if floor else {})
        states = States(feed_of(CLUSTER, definition, "docs", progress), self.registry)
        return fold(self.records() if records is None else records, reading_of(states))


@pytest.fixture
def world() -> Harness:
    found = Harness()
    found.topic.write([(n, {"state": "completed"}) for n in range(1, 9)])
    found.topic.put(3, state="cancelled")
    found.topic.delete(4)
    found.topic.spoil(5, b"\x01")
    return found


def test_the_newest_record_of_a_key_says_what_is_expected_whatever_the_order(world: Harness) -> None:
    in_order = world.expected()
    for seed in range(10):
        shuffled = world.records()
        random.Random(seed).shuffle(shuffled)
        found = world.expected(shuffled)
        ids = [str(n) for n in range(1, 9)]
        assert found.of(ids) == in_order.of(ids)
        assert found.histograms(8) == in_order.histograms(8)
    assert in_order.living == 6
    assert [r.doc_id for r in in_order.spoilt()] == ["5"]
    assert in_order.of(["4"])["4"].kind == "deleted"
    keys = in_order.keys()
    assert [*keys.spans([(0, len(keys))])[0]] == ["1", "2", "3", "5", "6", "7", "8"]


def test_states_are_found_again_by_state_and_by_bucket(world: Harness) -> None:
    expected = world.expected()
    three = expected.of(["3"])["3"]
    assert expected.find([three.state, 1]) == [three]
    assert expected.histograms(8) == add_up((expected.of([k])[k].state for k in ("1", "2", "3", "6", "7", "8")), 8)
    for place in expected.histograms(2)[0]:
        assert expected.in_buckets(2, [place])
    assert len(expected.in_buckets(2, range(4))) == expected.living


def test_records_without_keys_are_documents_under_computed_ids_with_versions_from_offsets(world: Harness) -> None:
    expected = world.expected(key="none", versions="offset", topic_generation=2)
    readable = [r for r in world.records() if r.value is not None and r.value != b"\x01"]
    assert expected.living == len(readable) == 9
    first = readable[0]
    doc_id = pseudo_key("c", "t", "docs", first.partition, first.offset)
    found = expected.of([doc_id])[doc_id]
    assert found.version == pack(2, first.offset)
    assert (found.partition, found.offset) == (first.partition, first.offset)


def test_rows_below_a_tables_floor_are_expected_to_be_gone(world: Harness) -> None:
    expected = world.expected(floor=6)
    # Versions 1 to 8 are those of the first states, 9 that of the third's second.
    kinds = {key: found.kind for key, found in expected.of([str(n) for n in range(1, 9)]).items()}
    assert {key for key, kind in kinds.items() if kind == "living"} == {"3", "6", "7", "8"}
    assert {key for key, kind in kinds.items() if kind == "deleted"} == {"1", "2", "4"}


def test_a_state_is_that_of_what_the_indexer_sends(world: Harness) -> None:
    found = world.expected().of(["1"])["1"]
    body = b'{"note":null,"order_id":1,"state":"completed","total_price":null}'
    assert found.state == state_hash("1", 1, body)


def test_what_is_read_on_from_an_earlier_cut_is_what_is_read_at_once(world: Harness) -> None:
    reader = world.log.reader()
    definition = one_topic("docs")
    states = States(feed_of(CLUSTER, definition, "docs", IndexProgress("docs")), world.registry)
    following = ExpectedDocuments(reader)
    ends = reader.end_offsets("docs")
    ids = [str(n) for n in range(1, 30)]
    for part in (4, 2, 1):
        window = {p: end // part for p, end in ends.items()}
        at_once = fold(records_below(reader, "docs", window), reading_of(states))
        read_on = following.upto(window, states)
        assert (read_on.of(ids), read_on.histograms(8)) == (at_once.of(ids), at_once.histograms(8))
    assert following.upto({p: end // 4 for p, end in ends.items()}, states).living < 6
    # A floor that has come since counts for what was read before it.
    later = States(feed_of(CLUSTER, definition, "docs", IndexProgress("docs", floors={"db.docs": 6})), world.registry)
    assert following.upto(ends, states).living == 6
    assert following.upto(ends, later).living == 4
