"""The running application over doubles: several generations at once, one that is behind, new, lost, or let go."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from include.index import indexing
from include.index.definition import IndexDefinition
from include.index.outcome import SETTLED, TaskOutcome
from include.index.worker import WorkerPlan
from include.log import topics
from include.log.planning.slices import Slice
from include.log.ports import TopicSpec
from include.record.version import to_header
from tests.support.documents.topic import VALUE, DocumentTopic
from tests.support.index.harness import IndexingHarness, fill


def test_every_generation_that_is_fed_gets_every_record_and_keeps_its_own_progress() -> None:
    world = IndexingHarness()
    world.make(2)
    fill(world)
    world.start().batch()
    assert world.documents(1) == world.documents(2)
    assert len(world.documents(1)) == 10
    assert world.progress(1).acked == world.progress(2).acked == world.log.reader().end_offsets("docs")


def test_a_generation_that_is_made_while_the_application_runs_catches_up_beside_the_live_one() -> None:
    world = IndexingHarness()
    fill(world)
    life = world.start()
    life.batch()
    world.make(2)
    world.topic.put(20)
    told = life.batch()
    assert told["behind"] == ["orders-v2"]
    assert "20" in world.documents(1)
    assert world.documents(2) == {}
    assert life.indexing.catch_up()
    assert not life.indexing.catch_up()
    assert world.documents(2) == world.documents(1)
    world.topic.put(21)
    assert life.batch()["behind"] == []
    assert world.documents(2) == world.documents(1)
    for number in (1, 2):
        for p, counts in world.progress(number).counts.items():
            end = world.log.reader().end_offsets("docs")[p]
            assert counts["read"] == sum(counts[name] for name in SETTLED)
            assert counts["read"] == sum(1 for _ in world.log.reader().read("docs", p, 0, end))


def test_what_goes_on_between_batches_outlives_an_executor_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    world = IndexingHarness()
    fill(world)
    life = world.start()
    life.batch()
    world.make(2)
    life.batch()
    tasks, lost = life.indexing._tasks, list[str]()

    def losing(plan: WorkerPlan, slices: Sequence[Slice]) -> TaskOutcome:
        if not lost:
            lost.append(plan.index)
            raise RuntimeError("ExecutorLostFailure")
        return tasks(plan, slices)

    monkeypatch.setattr(life.indexing, "_tasks", losing)
    monkeypatch.setattr(indexing, "_TROUBLE_S", 0.01)
    until_s = time.monotonic() + 20
    with life.indexing.beside():
        while life.indexing.behind and time.monotonic() < until_s:
            time.sleep(0.01)
    assert lost == ["orders-v2"]
    assert life.indexing.behind == []
    assert world.documents(2) == world.documents(1)


def test_after_a_restart_the_one_that_serves_leads_and_the_other_goes_on_where_it_was() -> None:
    world = IndexingHarness()
    fill(world)
    world.start().batch()
    world.make(2)
    life = world.start()
    assert (life.leader.name, [each.name for each in life.indexing.behind]) == ("orders-v1", ["orders-v2"])
    world.topic.put(30)
    life.batch()
    assert life.rows == {"orders-v1": 1}
    life.indexing.catch_up()
    life.indexing.catch_up()
    assert world.documents(1) == world.documents(2)


def test_a_serving_index_that_was_lost_and_made_anew_catches_up_behind_the_other() -> None:
    world = IndexingHarness()
    world.make(2)
    fill(world)
    world.start().batch()
    world.index.drop("orders-v1")
    world.make(1, serving=True)
    life = world.start()
    assert (life.leader.name, [each.name for each in life.indexing.behind]) == ("orders-v2", ["orders-v1"])
    life.indexing.catch_up()
    life.indexing.catch_up()
    assert world.documents(1) == world.documents(2)


def test_every_generation_that_is_fed_grows_with_the_topics_schema_before_its_documents() -> None:
    world = IndexingHarness()
    world.make(2)
    life = world.start()
    world.topic.put(1)
    life.batch()
    city = {"name": "city", "type": ["null", "string"], "default": None}
    world.topic.write_as({**VALUE, "fields": [*VALUE["fields"], city]})
    world.topic.put(2, city="Rome")
    life.batch()
    for number in (1, 2):
        info = world.index.describe(f"orders-v{number}")
        assert info is not None
        assert info.mapping["properties"]["order"]["properties"]["city"]["type"] == "text"
        assert set(world.documents(number)) == {"1", "2"}
    dead = topics.dead("docs", "a")
    assert world.log.reader().end_offsets(dead) == {0: 0}


def test_what_one_generation_refuses_is_set_aside_for_it_and_what_nobody_can_read_once() -> None:
    world = IndexingHarness()
    world.make(2)
    world.topic.put(1, note="no number")
    world.topic.spoil(2, b"\x01")
    world.start().batch()
    dead = topics.dead("docs", "a")
    letters = list(world.log.reader().read(dead, 0, 0, world.log.reader().end_offsets(dead)[0]))
    reasons = sorted((dict(letter.headers)["dead.reason"] or b"")[:20] for letter in letters)
    assert len(letters) == 3
    assert [reason[:7] for reason in reasons] == [b"refused", b"refused", b"value i"]


def test_two_topics_fill_one_index_with_documents_of_their_own() -> None:
    raw = {
        "application": "a",
        "mapping": "m.json",
        "coerced": ["order.note"],
        "topics": {"docs": {"entity": "order"}, "more": {"entity": "order"}},
    }
    world = IndexingHarness(IndexDefinition.model_validate(raw))
    other = DocumentTopic("more", world.log.admin(), world.log.writer("o"), world.registry)
    world.topic.put(1)
    other.put(1, state="cancelled")
    other.delete(2)
    life = world.start()
    life.batch()
    assert set(world.documents(1)) == {"docs/1", "more/1", "more/2"}
    found = world.index.get("orders-v1", "more/1")
    assert found is not None
    assert (found.source["metadata"]["doc_id"], found.source["order"]["state"]) == ("1", "cancelled")
    assert sum(world.progress(1, "docs").acked.values()) < sum(world.progress(1, "more").acked.values())
    again = world.start()
    other.put(1)
    again.batch()
    assert again.rows == {"orders-v1": 1}


def test_a_topic_that_grows_from_three_to_seven_partitions_keeps_the_newest_of_each_key() -> None:
    raw = {"application": "a", "topic": "docs", "entity": "order", "mapping": "m.json", "versions": "offset"}
    world = IndexingHarness(IndexDefinition.model_validate({**raw, "key": "text", "coerced": ["order.note"]}))
    world.log.admin().delete("docs")
    world.log.admin().ensure(TopicSpec("docs", 3))
    writer = world.log.writer("grown")

    def put(key: int, state: str) -> None:
        value = world.topic._value({"order_id": key, "state": state})
        writer.begin()
        writer.append("docs", b"k%d" % key, value, headers=[to_header(1)])
        writer.commit()

    for n in range(40):
        put(n, "old")
    life = world.start()
    life.batch()
    world.log.grow("docs", 7)
    for n in range(0, 40, 2):
        put(n, "new")
    life.batch()
    again = world.start()
    again.ends = {}
    again.batch()
    for n in range(40):
        found = world.index.get("orders-v1", f"k{n}")
        assert found is not None
        assert found.source["order"]["state"] == ("old" if n % 2 else "new")
    assert [each.number for each in world.progress(1).partitions] == [3, 7]
