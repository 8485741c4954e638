"""One suite for the double and the real server: counts and lists of a moment, limited by offsets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from include.audit.search.bounds import AuditBounds, PartitionShare, Window
from include.audit.search.views.elasticsearch.moment import ElasticsearchView
from include.audit.search.views.key_range import DocIdRange
from include.audit.search.views.memory import MemoryView
from include.audit.search.views.range_count import IndexView, SeenDocument
from include.errors import Terminal
from include.index.bulk.request import document_line
from include.index.identity import DocumentIdentity
from include.index.mapping.declared import creation
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.memory import MemoryIndex
from include.index.server.port import SearchIndex
from include.settings.connections import Elasticsearch
from tests.support.documents.topic import MAPPING, one_topic

DEFINITION = one_topic("t")
ALL: Window = {0: 1000, 1: 1000}


class Harness:
    """An index with documents whose offsets the test chooses, and views of it."""

    def __init__(self, index: SearchIndex, name: str, view: Callable[[str, str, AuditBounds], IndexView]) -> None:
        self.index, self.name, self._view = index, f"{name}-v1", view
        index.create(self.name, creation(name, DEFINITION, MAPPING))
        self._views: list[IndexView] = []

    def write(
        self,
        key: str,
        *,
        offset: int = 0,
        partition: int = 0,
        version: int = 1,
        deleted: bool = False,
        topic: str = "t",
        generation: int = 1,
    ) -> None:
        metadata = {
            "doc_id": key,
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "version": version,
            "deleted": deleted,
            "generation": generation,
        }
        body = None if deleted else b"{}"
        line = document_line(0, DocumentIdentity(key, version), "order", body, json.dumps(metadata).encode())
        answer = self.index.bulk(self.name, line.data)
        assert answer.items is not None
        assert answer.items[0].status in (200, 201), answer

    def view(self, window: Window | AuditBounds = ALL) -> IndexView:
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
        yield Harness(memory, unique, lambda name, topic, bounds: MemoryView(memory, name, topic, bounds))
        return
    index = ElasticsearchIndex(Elasticsearch(url=request.getfixturevalue("elasticsearch_url")))
    found = Harness(index, unique, lambda name, topic, bounds: ElasticsearchView(index, name, topic, bounds))
    try:
        yield found
    finally:
        found.close()
        index.client.indices.delete(index=f"{unique}-v1", ignore_unavailable=True)
        index.close()


def test_ranges_are_half_open_and_open_at_the_ends(world: Harness) -> None:
    for key in ("a", "b", "c", "d"):
        world.write(key)
    ranges = [DocIdRange(None, "b"), DocIdRange("b", "d"), DocIdRange("d", None), DocIdRange(), DocIdRange("x", "y")]
    assert world.view().counts(ranges) == [1, 2, 1, 4, 0]
    assert world.view().ids(ranges, 10) == [["a"], ["b", "c"], ["d"], ["a", "b", "c", "d"], []]


def test_keys_are_ordered_by_code_points_as_python_orders_texts(world: Harness) -> None:
    keys = ["10", "9", "A", "a", "a\0", "aa", "ü", "\ufffd", "\U0001f600"]
    for key in keys:
        world.write(key)
    assert world.view().ids([DocIdRange()], 100) == [sorted(keys)]
    assert world.view().ids([DocIdRange("a\0", "\U0001f600")], 100) == [["a\0", "aa", "ü", "\ufffd"]]


def test_only_living_documents_of_the_topic_from_below_the_window_count(world: Harness) -> None:
    world.write("below", offset=4)
    world.write("at", offset=5)
    world.write("other-partition", partition=1, offset=5)
    world.write("unknown-partition", partition=2, offset=0)
    world.write("deleted", offset=1, deleted=True)
    world.write("foreign", offset=1, topic="u")
    view = world.view({0: 5, 1: 6})
    assert view.ids([DocIdRange()], 10) == [["below", "other-partition"]]
    assert view.counts([DocIdRange()]) == [2]
    assert world.view({}).counts([DocIdRange()]) == [0]


def test_parts_have_each_document_once(world: Harness) -> None:
    for partition in range(3):
        world.write(f"below-{partition}", partition=partition, offset=1)
        world.write(f"above-{partition}", partition=partition, offset=5)
    bounds = AuditBounds({0: 5, 1: 5, 2: 5})
    view = world.view(bounds)
    assert view.above() == {0: 1, 1: 1, 2: 1}
    view.narrow(replace(bounds, part=PartitionShare(frozenset({1}))))
    assert (view.ids([DocIdRange()], 10), view.above()) == ([["below-1"]], {1: 1})
    view.narrow(replace(bounds, part=PartitionShare(frozenset({1}), inside=False)))
    assert (view.ids([DocIdRange()], 10), view.above()) == ([["below-0", "below-2"]], {0: 1, 2: 1})


def test_a_former_generation_and_what_the_log_has_let_go_count_as_the_bounds_say(world: Harness) -> None:
    world.write("former", offset=90)
    world.write("early", offset=2, generation=2)
    world.write("late", offset=4, generation=2)
    world.write("above", offset=5, generation=2)
    bounds = AuditBounds({0: 5}, 2)
    view = world.view(bounds)
    assert view.ids([DocIdRange()], 10) == [["early", "former", "late"]]
    assert view.above() == {0: 1}
    view.narrow(bounds.held_from({0: 3, 1: 0}))
    assert view.ids([DocIdRange()], 10) == [["late"]]
    view.narrow(AuditBounds({0: 5}, 2, keyed=False))
    assert view.counts([DocIdRange()]) == [2]
    view.narrow(AuditBounds({0: 5}, 2, lows={0: 3}))
    assert view.ids([DocIdRange()], 10) == [["late"]]


def test_a_view_stays_at_its_moment_and_now_does_not(world: Harness) -> None:
    world.write("a", offset=1)
    view = world.view()
    assert view.counts([DocIdRange()]) == [1]
    world.write("a", offset=8, version=2, deleted=True)
    world.write("b", offset=9)
    world.index.refresh(world.name)
    assert view.ids([DocIdRange()], 10) == [["a"]]
    assert view.now(["a", "b", "c"]) == {"a": SeenDocument(0, 8, 2, True), "b": SeenDocument(0, 9, 1, False)}


def test_lists_are_cut_at_what_is_asked_for(world: Harness) -> None:
    for n in range(5):
        world.write(str(n))
    assert world.view().ids([DocIdRange()], 3) == [["0", "1", "2"]]


def test_many_ranges_are_counted_in_few_requests(world: Harness) -> None:
    for n in range(10):
        world.write(f"{n:03}")
    view = world.view()
    before = view.requests
    assert sum(view.counts([DocIdRange(f"{n:03}", f"{n + 1:03}") for n in range(500)])) == 10
    assert view.requests - before == 1
    assert view.counts([]) == []


def test_a_view_of_an_index_that_is_not_there_is_an_error(elasticsearch_url: str, unique: str) -> None:
    index = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    with pytest.raises(Terminal, match="does not exist"):
        ElasticsearchView(index, f"{unique}-v1", "t", AuditBounds({}))
    index.close()
