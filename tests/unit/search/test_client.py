"""The client over an index in memory: which index it asks, as of when, and how it tells that one has gone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Terminal
from include.index.progress.document import ProgressKeeper
from include.index.server.memory import MemoryIndex
from include.search.client import IndexSearch
from include.search.definition import SearchTarget
from include.search.queries import Circle
from include.search.serving import NoIndex, Serving
from tests.unit.search.test_fresh import body, position


class Engine:
    """Answers with what it was told, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any], str | None]] = []
        self.hits: list[dict[str, Any]] = []
        self.gone: set[str] = set()

    def search(self, name: str, body: Mapping[str, Any], routing: str | None = None) -> Mapping[str, Any]:
        if name in self.gone:
            raise Terminal("index does not exist", index=name)
        self.asked.append((name, body, routing))
        names = {"buckets": [], "sum_other_doc_count": 0, "doc_count_error_upper_bound": 0}
        return {"hits": {"hits": self.hits}, "aggregations": {"lines": {"names": names}}}


class Counted(MemoryIndex):
    looks = 0

    def describe(self, name: str) -> Any:
        self.looks += 1
        return super().describe(name)


class Harness:
    def __init__(self, target: SearchTarget) -> None:
        self.clock = ManualClock()
        self.index = Counted()
        self.engine = Engine()
        self.generation("orders-v1")
        self.search = IndexSearch(target, self.index, self.engine, self.clock)

    def generation(self, name: str) -> None:
        self.index.create(name, {"aliases": {"orders": {}}})

    def progress(self, **changes: Any) -> None:
        info = self.index.describe("orders")
        assert info is not None
        keeper = ProgressKeeper(self.index, info, "assembled_order", "test", self.clock)
        keeper.save(dataclasses.replace(keeper.claim(), **changes))

    def write(self, name: str, doc_id: str, source: dict[str, Any], version: int = 1) -> None:
        action = {"index": {"_id": doc_id, "version": version, "version_type": "external"}}
        self.index.bulk(name, f"{json.dumps(action)}\n{json.dumps(source)}\n".encode())

    def hit(self, number: int) -> None:
        metadata = {"doc_id": str(number), "version": 3}
        source = {"order": body(str(number), "completed"), "metadata": metadata}
        self.engine.hits.append({"_source": source, "sort": ["x", str(number)]})


@pytest.fixture
def world(target: SearchTarget) -> Harness:
    return Harness(target)


def test_the_standing_is_asked_for_once_a_second_whatever_the_number_of_reads(world: Harness) -> None:
    world.progress(complete=position(7), visible=position(5))
    world.index.looks = 0
    for _ in range(10):
        page = world.search.of_user(7)
        assert page.seen.position == position(5)
    assert world.index.looks == 1
    world.progress(complete=position(9), visible=position(9))
    assert world.search.of_user(7).seen.position == position(5)
    world.clock.advance(1.1)
    assert world.search.of_user(7).seen.position == position(9)


def test_a_reader_may_ask_for_a_newer_standing(world: Harness) -> None:
    serving = Serving(world.index, "orders", "assembled_order", world.clock)
    assert serving.now().visible is None
    world.progress(visible=position(9))
    world.clock.advance(0.2)
    assert serving.now().visible is None
    assert serving.now(world.clock.monotonic_s() - 0.1).visible == position(9)


def test_tables_that_a_position_leaves_out_are_told(world: Harness) -> None:
    world.progress(visible=position(9), uncovered=("shop.partners",))
    assert world.search.of_user(7).seen.uncovered == ("shop.partners",)


def test_the_generation_that_serves_is_asked_by_its_own_name_and_looked_up_when_it_has_gone(world: Harness) -> None:
    world.search.of_user(7)
    world.index.drop("orders-v1")
    world.engine.gone.add("orders-v1")
    world.generation("orders-v2")
    world.search.of_user(7)
    assert [name for name, *_ in world.engine.asked] == ["orders-v1", "orders-v2"]


def test_a_refusal_of_the_index_that_serves_is_raised(world: Harness) -> None:
    world.engine.gone.add("orders-v1")
    with pytest.raises(Terminal, match="index does not exist"):
        world.search.of_user(7)


def test_without_any_index_the_next_step_is_told(world: Harness) -> None:
    world.index.drop("orders-v1")
    with pytest.raises(NoIndex, match="lyrebird index create orders"):
        world.search.one("7")


def test_a_full_page_says_where_the_next_one_begins_and_a_short_one_that_it_is_the_last(world: Harness) -> None:
    world.hit(3)
    world.hit(2)
    assert world.search.of_user(7, 2).next == '["1970-01-01T00:00:02.000000Z", "2"]'
    assert world.search.of_user(7, 3).next is None


def test_distances_come_from_the_sort_values(world: Harness) -> None:
    world.hit(3)
    world.engine.hits[0]["sort"] = [12.5, "3"]
    page = world.search.near(Circle(1, 1, 100), size=1)
    assert (page.hits[0].distance_m, page.next) == (12.5, '[12.5, "3"]')


def test_one_document_is_read_in_real_time_and_a_tombstone_is_none(world: Harness) -> None:
    world.progress(complete=position(7), visible=position(5))
    world.write("orders-v1", "7", {"order": {"a": 1}, "metadata": {"deleted": False}}, 4)
    hit, seen = world.search.one("7")
    assert hit is not None
    assert (hit.version, hit.body, seen.position) == (4, {"a": 1}, position(7))
    world.write("orders-v1", "7", {"metadata": {"deleted": True}}, 5)
    assert world.search.one("7")[0] is None
    assert not world.engine.asked


def test_in_an_index_of_several_topics_the_id_names_the_topic(world: Harness, target: SearchTarget) -> None:
    topic = target.index.topics["assembled_order"]
    shared = target.index.model_copy(update={"topics": {"assembled_order": topic, "other": topic}})
    search = IndexSearch(dataclasses.replace(target, index=shared), world.index, world.engine, world.clock)
    world.write("orders-v1", "assembled_order/7", {"order": {"a": 1}, "metadata": {"deleted": False}})
    assert search.one("7")[0] is not None
    assert search.one("8")[0] is None


def test_documents_that_are_routed_by_user_are_asked_of_one_shard_and_single_ones_of_all(
    world: Harness, target: SearchTarget
) -> None:
    topic = target.index.topics["assembled_order"].model_copy(update={"routing": "user_id"})
    routed = target.index.model_copy(update={"topics": {"assembled_order": topic}})
    search = IndexSearch(dataclasses.replace(target, index=routed), world.index, world.engine, world.clock)
    search.of_user(7)
    search.popular()
    world.hit(3)
    hit, _ = search.one("3")
    assert hit is not None
    assert [routing for *_, routing in world.engine.asked] == ["7", None, None]


def test_progress_of_no_topic_yet_is_no_position(world: Harness) -> None:
    assert world.search.of_user(7).seen.position is None
    world.progress(**{"acked": {0: 5}})
    world.clock.advance(2)
    assert world.search.of_user(7).seen.position is None
