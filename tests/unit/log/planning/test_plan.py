"""What a batch covers and how the next one follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import SettingsError, Terminal
from include.log.planning.plan import (
    BatchGoal,
    BatchLimits,
    BatchPlan,
    Cut,
    StreamOffset,
    StreamSpec,
    batch_plan,
    governed,
    step,
)
from include.record.position import SourcePosition

POSITION = SourcePosition.from_json(
    {"flavour": "mariadb", "gtids": "0-1-7", "file": "bin.000001", "pos": 4, "commit_us": 1_000_000}
)
IDS = {"a": "id-a", "b": "id-b"}


def cut(resolved_offset: int) -> Cut:
    return Cut("shop", resolved_offset + 1, 100 + resolved_offset, POSITION, ("shop.reviews",), resolved_offset)


def cuts(resolved_offset: int) -> dict[tuple[str, str], Cut]:
    return {("cdc.shop.resolved", "shop"): cut(resolved_offset)}


def test_the_first_batch_begins_where_the_log_begins() -> None:
    batch = step(StreamOffset(), available={("a", 0): 9, ("a", 1): 4}, begins={("a", 0): 5, ("a", 1): 4}, ids=IDS)
    assert batch is not None
    assert batch.starts == {("a", 0): 5, ("a", 1): 4}
    assert batch.ends == {("a", 0): 9, ("a", 1): 4}
    assert batch.ids == {"a": "id-a"}


def test_a_batch_begins_where_the_last_one_ended() -> None:
    first = StreamOffset({("a", 0): 0}, {("a", 0): 9}, IDS)
    second = step(first, available={("a", 0): 12}, begins={}, ids=IDS)
    assert second is not None
    assert (second.starts[("a", 0)], second.ends[("a", 0)]) == (9, 12)


def test_nothing_new_is_no_batch() -> None:
    first = StreamOffset({("a", 0): 0}, {("a", 0): 9}, IDS)
    assert step(first, available={("a", 0): 9}, begins={}, ids=IDS) is None
    assert step(first, available={}, begins={}, ids=IDS) is None


def test_a_batch_never_goes_back() -> None:
    first = StreamOffset({("a", 0): 0}, {("a", 0): 9}, IDS)
    assert step(first, available={("a", 0): 3}, begins={}, ids=IDS) is None


def test_a_partition_that_is_not_readable_now_keeps_its_end() -> None:
    first = StreamOffset({}, {("a", 0): 9, ("b", 0): 2}, IDS)
    second = step(first, available={("a", 0): 10}, begins={}, ids=IDS)
    assert second is not None
    assert second.ends == {("a", 0): 10, ("b", 0): 2}
    assert second.starts == {("a", 0): 9, ("b", 0): 2}


def test_a_limit_holds_for_each_partition_and_a_topic_may_have_its_own() -> None:
    batch = step(
        StreamOffset(),
        available={("a", 0): 100, ("a", 1): 5, ("b", 0): 100},
        begins={("a", 0): 0, ("a", 1): 0, ("b", 0): 50},
        ids=IDS,
        limits=BatchLimits(10, {"b": 20}),
    )
    assert batch is not None
    assert batch.ends == {("a", 0): 10, ("a", 1): 5, ("b", 0): 70}


def test_a_later_cut_is_a_batch_though_no_record_came() -> None:
    first = StreamOffset({}, {("a", 0): 9}, IDS, cuts(3))
    goal = BatchGoal(cuts(4), {("a", 0): 9})
    second = step(first, available={}, begins={}, ids=IDS, goal=goal)
    assert second is not None
    assert second.plan().cut == cut(4)
    assert step(second, available={}, begins={}, ids=IDS, goal=goal) is None


def test_a_step_over_the_limit_is_gone_in_parts_that_are_complete_to_nothing() -> None:
    at = StreamOffset({}, {("a", 0): 9}, IDS, cuts(3))
    far, found = BatchGoal(cuts(4), {("a", 0): 30, ("a", 1): 5}), []
    for goal in (far, BatchGoal(cuts(5), {("a", 0): 90}), None):
        after = step(at, available={("b", 0): 7}, begins={}, ids=IDS, goal=goal, limits=BatchLimits(9))
        assert after is not None
        found.append(after)
        at = StreamOffset.from_text(after.to_text())
    assert [each.ends[("a", 0)] for each in found] == [18, 27, 30], "a later record waits until the far one is reached"
    assert [each.plan().cuts for each in found] == [{}, {}, cuts(4)]
    assert [each.goal for each in found] == [far, far, None]
    assert found[0].ends[("b", 0)] == 7, "what no cut speaks for goes to its own end"


def test_parts_of_a_bounded_size_are_of_all_partitions_that_are_behind() -> None:
    goal = BatchGoal(cuts(4), {("a", 0): 300, ("a", 1): 100, ("a", 2): 0})
    found = step(StreamOffset(), available={("b", 0): 50}, begins={}, ids=IDS, goal=goal, limits=BatchLimits(total=40))
    assert found is not None
    assert found.ends == {("a", 0): 30, ("a", 1): 10, ("a", 2): 0, ("b", 0): 40}, "and of those that no cut speaks for"


def test_a_limit_of_nothing_is_refused() -> None:
    for spec in ({"limit": 0}, {"limits": {"a": 0}}, {"total_limit": 0}):
        with pytest.raises(SettingsError, match="one offset at least"):
            StreamSpec("localhost:1", ("a",), **spec)


def test_a_plan_of_several_sources_has_no_one_cut() -> None:
    both = cuts(3) | {("cdc.depot.resolved", "depot"): cut(5)}
    with pytest.raises(RuntimeError, match="several"):
        _ = StreamOffset(cuts=both).plan().cut


def test_a_resolved_topic_speaks_for_what_capture_writes_and_for_nothing_else() -> None:
    assert governed("cdc.shop.shop.orders", "cdc.shop.resolved")
    assert governed("cdc.shop.control", "cdc.shop.resolved")
    assert not governed("cdc.shop.requests", "cdc.shop.resolved")
    assert not governed("cdc.shop2.shop.orders", "cdc.shop.resolved")
    assert not governed("assembled_order.requests", "cdc.shop.resolved")
    assert governed("assembled_order", "assembled_order.resolved")


@pytest.mark.parametrize("table", ["requests", "answers", "resolved", "control", "dead", "late", "idle"])
def test_a_resolved_record_speaks_for_a_table_whatever_its_name_is(table: str) -> None:
    assert governed(f"cdc.shop.shop.{table}", "cdc.shop.resolved")


def test_a_resolved_record_does_not_speak_for_what_others_write_beside_a_source() -> None:
    assert not governed("cdc.shop.shop.orders.assemble_orders.dead", "cdc.shop.resolved")
    assert not governed("cdc.shop.answers", "cdc.shop.resolved")
    assert not governed("cdc.shop.db.orders", "cdc.shop.db.resolved")


def test_an_offset_comes_back_from_its_text_and_equal_ones_have_equal_texts() -> None:
    more = {("joined.resolved", "depot"): cut(7)}
    one = StreamOffset({("b", 1): 1, ("a", 0): 2}, {("b", 1): 3, ("a", 0): 4}, {"b": "2", "a": "1"}, cuts(8) | more)
    other = StreamOffset({("a", 0): 2, ("b", 1): 1}, {("a", 0): 4, ("b", 1): 3}, {"a": "1", "b": "2"}, more | cuts(8))
    assert StreamOffset.from_text(one.to_text()) == one
    assert one.to_text() == other.to_text()


def test_a_spec_comes_back_from_its_text() -> None:
    spec = StreamSpec(
        "localhost:1", ("a", "b"), {"a": {0: 5}}, ("a.resolved",), 10, {"b": 2}, 3, {"a": "id"}, {"client.id": "x"}
    )
    assert StreamSpec.from_text(spec.to_text(), {"client.id": "x"}) == spec
    assert spec.initial() == StreamOffset({("a", 0): 5}, {("a", 0): 5}, {"a": "id"})


def test_the_text_of_a_spec_has_no_option_of_a_client() -> None:
    """Spark's plans and event logs have it."""
    spec = StreamSpec("localhost:1", ("a",), options={"sasl.password": "hush-7"})
    assert "hush-7" not in spec.to_text() + repr(spec)


def test_a_batch_is_read_from_the_offset_log_of_its_query(tmp_path: Path) -> None:
    offset = StreamOffset({("a", 0): 5}, {("a", 0): 9}, {"a": "id-a"}, cuts(8))
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text(f"v1\n{json.dumps({})}\n{offset.to_text()}")
    plan = batch_plan(tmp_path, 3)
    assert plan == BatchPlan({("a", 0): 5}, {("a", 0): 9}, {"a": "id-a"}, cuts(8))
    assert plan.records == 4
    with pytest.raises(Terminal, match="no such batch"):
        batch_plan(tmp_path, 4)


@given(
    pushes=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(1, 30)), min_size=1, max_size=30),
    limit=st.integers(1, 7) | st.none(),
)
def test_whatever_the_limits_each_offset_is_in_exactly_one_batch(
    pushes: list[tuple[str, int, int]], limit: int | None
) -> None:
    available: dict[tuple[str, int], int] = {}
    at, read = StreamOffset(), dict[tuple[str, int], list[int]]()

    def drain(at: StreamOffset) -> StreamOffset:
        while (found := step(at, available=available, begins={}, ids=IDS, limits=BatchLimits(limit))) is not None:
            for partition, end in found.ends.items():
                read.setdefault(partition, []).extend(range(found.starts[partition], end))
            at = found
        return at

    for topic, partition, more in pushes:
        available[topic, partition] = available.get((topic, partition), 0) + more
        at = drain(at)
    assert read == {partition: list(range(end)) for partition, end in available.items()}
