"""The running application where generations are dropped, lost, stuck or too old under it; long batches."""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Restart, Terminal, Transient
from include.index.batch import Settlement
from include.index.batch_split import PartSize
from include.index.generations.active import change_fed
from include.index.generations.promote import drop_generation
from include.index.generations.startup import TooOld
from include.index.generations.target import ActiveGeneration
from include.index.name import IndexName
from include.index.progress.document import ProgressKeeper
from include.index.server.port import BulkAnswer
from include.log import topics
from tests.support.index.harness import IndexingHarness, Life, fill


def test_a_generation_that_is_missing_is_one_incident_and_holds_up_nobody() -> None:
    world = IndexingHarness()
    world.make(2)
    life = world.start()
    fill(world)
    life.batch()
    world.index.drop("orders-v2")
    told = []
    for n in (40, 41):
        world.topic.put(n)
        told += life.batch()["incidents"]
    (id_,) = {each["id"] for each in told}
    assert id_.startswith("lost:orders-v2:")
    assert told[0]["fix"] == "lyrebird index rebuild orders"
    assert [each["id"] for each in world.start().incidents.open()] == [told[0]["id"]]
    assert {"40", "41"} <= set(world.documents(1))
    world.index.drop("orders-v1")
    world.topic.put(42)
    with pytest.raises(Transient, match="lyrebird index rebuild orders"):
        life.batch()
    assert [each["id"].split(":")[1] for each in life.incidents.open()] == ["orders-v2", "orders-v1"]
    world.make(3)
    world.index.move_alias("orders", "orders-v3", source=None)
    with pytest.raises(Restart, match="orders-v3"):
        life.batch()
    change_fed(world.index, "orders", remove=[1, 2])
    assert world.start().batch()["incidents"] == []
    assert {"40", "41", "42"} <= set(world.documents(3))


def test_an_index_of_an_older_mapping_file_is_one_incident_until_a_rebuilt_one_serves() -> None:
    world = IndexingHarness()
    fill(world)
    assert world.start().batch()["incidents"] == []
    world.declared = copy.deepcopy(world.declared)
    world.declared["properties"]["order"]["properties"]["state"]["normalizer"] = "folded"
    life, told = world.start(), []
    for n in (40, 41):
        world.topic.put(n)
        told += life.batch()["incidents"]
    (id_,) = {each["id"] for each in told}
    assert id_.startswith("unlike:orders-v1:")
    assert "order.state: declared normalizer folded, normalizer unset in the index" in told[0]["text"]
    assert told[0]["fix"] == "lyrebird index rebuild orders"
    world.make(2)
    world.index.move_alias("orders", "orders-v2", source="orders-v1")
    assert world.start().batch()["incidents"] == []


def test_a_generation_that_is_dropped_within_a_batch_ends_nobody_and_is_not_made_again() -> None:
    for taken in ("tasks", "settle"):
        world = IndexingHarness()
        world.make(2)
        fill(world)
        life = world.start()
        life.batch()
        second = life.indexing.live[1]

        def drop(*said: Any, life: Life = life, second: ActiveGeneration = second, taken: str = taken) -> Any:
            """The generation is dropped just as its share is worked off, or has been."""
            if taken == "tasks" and said[0].index != "orders-v2":
                return Life.tasks(life, *said)
            drop_generation(life.world.index, life.world.index, IndexName("orders", 2))
            return Life.tasks(life, *said) if taken == "tasks" else Settlement.settle(second.settlement, *said)

        if taken == "tasks":
            life.indexing._tasks = drop
        else:
            second.settlement.settle = drop  # type: ignore[method-assign,assignment]
        world.topic.put(50)
        told = life.batch()
        assert told["read"] == 1
        assert [each.name for each in life.indexing.live] == ["orders-v1"]
        assert "50" in world.documents(1)
        assert world.index.describe("orders-v2") is None


def test_a_generation_that_is_behind_and_cannot_go_on_holds_up_no_other_and_is_an_incident() -> None:
    world = IndexingHarness()
    fill(world)
    world.start().batch()
    world.make(2)
    world.make(3)
    life = world.start()
    stuck = life.indexing.behind[0]
    assert stuck.name == "orders-v2"

    def refused(*_: Any) -> Any:
        raise Terminal("too many records cannot be understood", topic="docs")

    stuck.settlement.settle = refused  # type: ignore[method-assign,assignment]
    life.indexing.catch_up()
    assert not life.indexing.catch_up()
    assert world.documents(3) == world.documents(1)
    world.topic.put(60)
    (told,) = life.batch()["incidents"]
    assert told["id"].startswith("stuck:orders-v2:")
    assert "cannot be understood" in told["text"]
    assert "60" in world.documents(3)
    assert life.indexing.live[1].settlement.freshen()


DAY_US = 86_400_000_000


def test_an_index_that_stood_still_longer_than_deletions_are_kept_is_not_resumed_where_it_lacks_records() -> None:
    world = IndexingHarness()
    fill(world)
    world.start().batch()
    world.later_us = 8 * DAY_US
    assert world.start().batch()["read"] == 0
    world.later_us = 16 * DAY_US
    world.topic.put(70)
    with pytest.raises(TooOld, match="lyrebird index rebuild orders") as refused:
        world.start()
    assert refused.value.details["kept_days"] == 7.0
    world.later_us = 14 * DAY_US
    assert world.start().batch()["read"] == 1


def test_one_that_only_waits_is_never_too_old_and_one_that_is_does_not_stop_the_others() -> None:
    world = IndexingHarness()
    fill(world)
    life = world.start()
    life.batch()
    world.make(2)
    for _ in range(24 * 8):
        life.clock.advance(3600)
        life.indexing.freshen()
    world.later_us = 9 * DAY_US
    world.topic.put(71)
    again = world.start()
    assert again.batch()["incidents"] == []
    assert set(again.rows) == {"orders-v1"}
    again.indexing.catch_up()
    world.later_us = 20 * DAY_US
    info = world.index.describe("orders-v2")
    assert info is not None
    young = ProgressKeeper(world.index, info, "docs", "x", ManualClock(world.later_us))
    young.claim()
    world.topic.put(72)
    last = world.start()
    (told,) = last.batch()["incidents"]
    assert told["id"].startswith("old:orders-v1:")
    assert last.leader.name == "orders-v2"
    assert "72" in world.documents(2)
    assert "72" not in world.documents(1)


def test_a_long_batch_is_worked_off_in_parts_and_each_is_told() -> None:
    world = IndexingHarness()
    world.size = PartSize(most=4)
    fill(world)
    life = world.start()
    told = life.batch()
    reader = world.log.reader()
    ends = [*reader.end_offsets("docs").values(), *reader.end_offsets(topics.resolved("docs")).values()]
    offsets = sum(ends)
    assert {(name, of) for name, _, of in life.parts} == {("orders-v1", offsets)}
    done = [done for _, done, _ in life.parts]
    assert done == sorted(set(done))
    assert all(after - before <= 4 + len(ends) for before, after in itertools.pairwise([0, *done]))
    assert done[-1] == offsets
    assert told["read"] == told["indexed"] + told["deleted"] + told["folded"]
    assert len(world.documents(1)) == 10
    world.topic.put(9)
    life.batch()
    assert len(life.parts) == len(done)


def test_an_index_that_takes_nothing_is_waited_for_and_is_one_incident_until_it_goes_on() -> None:
    world = IndexingHarness()
    fill(world)
    life = world.start(longest_s=math.inf)
    bulk, told = world.index.bulk, []
    full_until_s = life.clock.monotonic_s() + 4 * 3600

    def full(name: str, lines: bytes) -> BulkAnswer:
        if life.clock.monotonic_s() < full_until_s:
            told.append(life.incidents.open())
            return BulkAnswer(429, None, "full")
        return bulk(name, lines)

    world.index.bulk = full  # type: ignore[method-assign]
    assert life.batch()["incidents"] == []
    assert len(world.documents(1)) == 10
    ids = {each["id"] for open_ in told for each in open_}
    assert len(ids) == 1
    assert told[0] == []
    (last,) = told[-1]
    assert last["kind"] == "waits"
    assert last["text"].startswith("orders is not indexed since 19")
    # At once after a longer outage, too: five minutes count from the new one's begin.
    assert world.start().incidents.open() == []


def test_a_generation_that_is_fed_no_more_gets_nothing_and_the_rest_goes_on() -> None:
    world = IndexingHarness()
    world.make(2)
    fill(world)
    life = world.start()
    life.batch()
    change_fed(world.index, "orders", remove=[2])
    world.topic.put(50)
    life.batch()
    assert "50" in world.documents(1)
    assert "50" not in world.documents(2)


def test_an_application_whose_live_generations_are_all_gone_asks_to_be_started_again() -> None:
    world = IndexingHarness()
    fill(world)
    life = world.start()
    life.batch()
    world.make(2)
    world.index.move_alias("orders", "orders-v2", source="orders-v1")
    change_fed(world.index, "orders", remove=[1])
    world.topic.put(60)
    with pytest.raises(Restart, match="orders-v2"):
        life.batch()
    world.start().batch()
    assert len(world.documents(2)) == 11


def outgrown(world: IndexingHarness) -> None:
    """Documents that were deleted after their topic had grown."""
    for order_id in range(100, 120):
        world.topic.put(order_id)
    world.log.grow("docs", 3)
    for order_id in range(100, 120):
        world.topic.delete(order_id)


@pytest.mark.parametrize("before", ["nothing", "an index of an older generation", "an index that was lost"])
def test_an_index_that_begins_at_the_topics_beginning_is_not_filled_from_one_that_grew(before: str) -> None:
    world = IndexingHarness()
    if before != "nothing":
        fill(world)
        world.start().batch()
    outgrown(world)
    if before == "an index of an older generation":
        raised = {"docs": world.definition.topics["docs"].model_copy(update={"generation": 2})}
        world.definition = world.definition.model_copy(update={"topics": raised})
    if before == "an index that was lost":
        # With its notes: they go by the index's uuid.
        world.index.drop("orders-v1")
        world.make(1, serving=True)
    progress = world.progress(1)
    with pytest.raises(Terminal, match="has grown") as refused:
        world.start()
    assert (refused.value.details["topic"], refused.value.details["before"]) == ("docs", 2)
    assert "written anew from its source" in str(refused.value)
    assert world.progress(1) == progress, "it was not claimed"


def test_a_generation_that_would_begin_on_a_topic_that_grew_keeps_no_other_from_being_written() -> None:
    world = IndexingHarness()
    fill(world)
    world.start().batch()
    outgrown(world)
    world.make(2)
    world.topic.put(200)
    world.start().batch()
    assert "200" in world.documents(1)
    assert not world.documents(2)


def test_an_index_that_had_read_a_topic_before_it_grew_goes_on() -> None:
    world = IndexingHarness()
    fill(world)
    world.start().batch()
    outgrown(world)
    world.start().batch()
    assert not [doc_id for doc_id, (_, deleted) in world.documents(1).items() if int(doc_id) >= 100 and not deleted]


def test_where_settings_are_not_told_an_index_begins_with_a_warning_that_names_the_right(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = IndexingHarness()
    outgrown(world)
    for told in ("settings", "deletions_kept_ms"):
        monkeypatch.setattr(type(world.log.admin()), told, lambda *_: None)
    world.start()
    (warning,) = [each.getMessage() for each in caplog.records if each.name == "include.index.progress.grown_topics"]
    assert warning.startswith("docs may have grown")
    assert "DESCRIBE_CONFIGS" in warning
