"""What a group's driver does next: by size and age, one task to a partition, topics that come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.lake.definition import LakeGroup
from include.lake.protocol.cut import Commit, CutObject
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.planner import GroupPlanner, Range, TopicRecreated, jobs_of
from include.log.ports import TopicInfo

GROUP = LakeGroup.model_validate(
    {
        "kind": "backup",
        "application": "lake",
        "topics": ["events*"],
        "prefix": "lake/raw",
        "policy": {"max_bytes": 100_000, "max_age_s": 60, "record_bytes": 100},
        "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
    }
)
A, B = TopicIdPartition("events", "id", 0), TopicIdPartition("events", "id", 1)


def begun(partitions: int = 2, **heads: int) -> GroupPlanner:
    planner = GroupPlanner(GROUP)
    planner.on_topics([TopicInfo("events", "id", partitions), TopicInfo("other", "x", 1)])
    for tp in planner.headless():
        planner.on_head(tp, heads.get(f"p{tp.partition}", 0))
    return planner


def commit(first: int, until: int, size: int) -> Commit:
    file = CutObject("k", size, "0" * 64, 1, first, first, None, None)
    return Commit(first, until, "0" * 32, 1, 0, 0, None, None, (), None, "c", {}, (file,))


def test_a_topics_id_may_stand_in_names_of_objects() -> None:
    planner = GroupPlanner(GROUP)
    planner.on_topics([TopicInfo("events", "2Ovc+L1NSN6l2wa0sA/OTw", 1)])
    assert planner.tps == [TopicIdPartition("events", "2Ovc-L1NSN6l2wa0sA_OTw", 0)]
    assert planner.on_topics([TopicInfo("events", "2Ovc+L1NSN6l2wa0sA/OTw", 1)]) == []


def test_only_the_groups_topics_are_watched_and_heads_are_asked_for_once() -> None:
    planner = GroupPlanner(GROUP)
    planner.on_topics([TopicInfo("events", "id", 2), TopicInfo("other", "x", 1)])
    assert planner.headless() == [A, B] == planner.tps
    planner.on_head(A, 7)
    assert planner.headless() == [B]
    assert planner.due(0, 9) == []


def test_what_waits_is_due_by_size_at_once_and_by_age_later_idle_or_not() -> None:
    planner = begun()
    planner.on_edges({A: (0, 5_000), B: (0, 10)}, 1_000)
    assert planner.due(1_000, 9) == [Range(A, 0, 1_000, "size", GROUP.policy.words)]
    assert planner.due(60_999, 9) == []
    assert planner.due(61_000, 9) == [Range(B, 0, 10, "age", GROUP.policy.words)]
    assert planner.busy == 2
    planner.on_done(A, 1_000)
    assert [each.head for each in planner.due(61_000, 9)] == [1_000]


def test_the_size_of_records_is_learned_from_commits() -> None:
    planner = begun(1)
    planner.on_edges({A: (0, 500)}, 0)
    assert planner.due(0, 9) == []
    planner.on_commit(A, commit(0, 100, 30_000))
    assert [(each.until, each.reason) for each in planner.due(0, 9)] == [(334, "size")]


def test_an_old_record_is_due_when_the_driver_starts_again() -> None:
    planner = begun(1, p0=10)
    planner.on_edges({A: (0, 20)}, 500_000)
    assert planner.unaged() == [A]
    planner.on_oldest(A, 430_000)
    assert planner.unaged() == []
    assert [each.reason for each in planner.due(500_000, 9)] == ["age"]


def test_those_that_have_waited_longest_come_first_and_no_more_than_there_is_room_for() -> None:
    planner = begun(2)
    planner.on_edges({B: (0, 10)}, 0)
    planner.on_edges({A: (0, 10)}, 5_000)
    assert [each.tp for each in planner.due(100_000, 1)] == [B]
    assert [each.tp for each in planner.due(100_000, 1)] == [A]


def test_a_flush_takes_all_there_is() -> None:
    planner = begun(1)
    planner.on_edges({A: (0, 3)}, 0)
    assert [(each.until, each.reason) for each in planner.due(0, 9, "flush")] == [(3, "flush")]


def test_a_failure_pauses_its_partition_longer_each_time_and_asks_for_its_head_again() -> None:
    planner = begun(2)
    planner.on_edges({A: (0, 9_000), B: (0, 9_000)}, 0)
    now_ms, pauses = 0, []
    for _ in range(9):
        assert A in [each.tp for each in planner.due(now_ms, 9)]
        planner.on_failure(A, now_ms, "away")
        assert planner.headless() == [A]
        planner.on_head(A, 0)
        failed_ms = now_ms
        while not planner.due(now_ms, 9):
            now_ms += 1_000
        pauses.append(now_ms - failed_ms)
        planner.on_failure(A, now_ms, "away")
        planner.on_head(A, 0)
        now_ms += 60_000
    assert pauses[0] == 1_000
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60_000


def test_what_must_not_go_on_stands_still_and_the_others_go_on() -> None:
    planner = begun(2)
    planner.on_edges({A: (0, 9_000), B: (0, 9_000)}, 0)
    planner.due(0, 9)
    planner.on_failure(A, 0, "truncated", stop=True)
    planner.on_done(B, 1_000)
    assert planner.stopped == {A: "truncated"}
    assert planner.headless() == []
    assert [each.tp for each in planner.due(10_000_000, 9)] == [B]


def test_new_partitions_and_topics_are_taken_up_and_a_topic_made_anew_tells_what_went_with_it() -> None:
    planner = begun(1)
    planner.on_edges({A: (0, 10)}, 0)
    planner.due(0, 9, "flush")
    planner.on_done(A, 8)
    planner.on_topics([TopicInfo("events", "id", 3), TopicInfo("events.more", "y", 1)])
    assert planner.headless() == [B, TopicIdPartition("events", "id", 2), TopicIdPartition("events.more", "y", 0)]
    assert planner.on_topics([TopicInfo("events", "new", 1)]) == [TopicRecreated(A, 8, 10)]
    assert planner.headless() == [TopicIdPartition("events", "new", 0)]
    planner.on_done(A, 10)
    planner.on_commit(A, commit(8, 10, 5))
    planner.on_failure(A, 0, "away")
    assert planner.tps == [TopicIdPartition("events", "new", 0)]


def test_what_a_task_still_stores_of_a_topic_that_is_gone_is_not_told_as_lost() -> None:
    planner = begun(2)
    planner.on_edges({A: (0, 10), B: (0, 10)}, 0)
    planner.due(0, 9, "flush")
    gone = [TopicInfo("events", "new", 1)]
    assert planner.on_topics(gone) == []
    assert planner.busy == 2
    planner.on_done(A, 10)
    planner.on_commit(B, commit(0, 6, 5))
    planner.on_failure(B, 0, "the topic was made anew", stop=True)
    assert planner.busy == 0
    assert planner.on_topics(gone) == [TopicRecreated(B, 6, 10)]
    assert planner.on_topics(gone) == []
    assert planner.tps == [TopicIdPartition("events", "new", 0)]


def test_records_of_a_topic_made_anew_are_none_that_the_one_before_lost() -> None:
    planner = begun(1)
    planner.on_edges({A: (0, 10)}, 0)
    planner.on_edges({A: (0, 3)}, 500)
    planner.on_edges({A: (0, 1_000)}, 1_000)
    assert planner.on_topics([TopicInfo("events", "new", 1)]) == [TopicRecreated(A, 0, 10)]


def test_a_log_that_fell_back_and_is_the_same_topic_is_followed_again() -> None:
    planner = begun(1)
    planner.on_edges({A: (0, 10)}, 0)
    planner.on_edges({A: (0, 3)}, 500)
    planner.on_topics([TopicInfo("events", "id", 1)])
    planner.on_edges({A: (0, 12)}, 1_000)
    assert planner.waiting() == {A: 12}


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(["write", "wait", "run", "fail"]), st.integers(1, 3_000)),
        max_size=60,
    )
)
def test_each_offset_is_planned_in_order_once_and_all_are_within_the_age(steps: list[tuple[int, str, int]]) -> None:
    planner = begun(2)
    ends, heads, now_ms, running = {A: 0, B: 0}, {A: 0, B: 0}, 0, dict[TopicIdPartition, Range]()
    for partition, what, number in steps:
        tp = (A, B)[partition]
        if what == "write":
            ends[tp] += number
        elif what == "wait":
            now_ms += number * 10
        elif what == "fail" and tp in running:
            del running[tp]
            planner.on_failure(tp, now_ms, "away")
        elif tp in running:
            heads[tp] = running.pop(tp).until
            planner.on_done(tp, heads[tp])
        for each in planner.headless():
            planner.on_head(each, heads[each])
        planner.on_edges({each: (0, end) for each, end in ends.items()}, now_ms)
        for one in planner.due(now_ms, 1):
            assert one.tp not in running
            assert one.head == heads[one.tp] < one.until <= ends[one.tp]
            running[one.tp] = one
    for tp in running:
        planner.on_done(tp, heads[tp])
    now_ms += 200_000
    planner.on_edges({each: (0, end) for each, end in ends.items()}, now_ms)
    now_ms += 60_000
    due = {each.tp for each in planner.due(now_ms, 9)}
    assert due == {tp for tp, end in ends.items() if end > heads[tp]}


def test_a_delay_counts_from_when_the_log_was_seen_to_have_a_record_whatever_its_timestamp() -> None:
    planner = begun(1)
    planner.on_edges({A: (0, 0)}, 0)
    planner.on_edges({A: (0, 10)}, 100_000)
    planner.on_oldest(A, 1)
    assert planner.overdue_ms(100_000) == {A: -60_000}
    assert planner.overdue_ms(200_000) == {A: 40_000}
    assert planner.overdue_ms(200_000, whole=True) == {A: 139_999}
    planner.on_done(A, 10)
    assert planner.overdue_ms(300_000) == {}
    planner.on_edges({A: (0, 11)}, 400_000)
    planner.on_failure(A, 0, "damaged", stop=True)
    assert planner.overdue_ms(900_000) == {}


def test_what_is_stored_more_slowly_than_it_comes_is_overdue_by_as_much_as_it_is_behind() -> None:
    """A cut each ten seconds of half of what came meanwhile, for two hours."""
    planner = begun(1)
    for second in range(7_200):
        planner.on_edges({A: (0, 100 * second)}, 1000 * second)
        if second % 10 == 0:
            planner.on_done(A, 50 * second)
    (overdue_ms,) = planner.overdue_ms(7_200_000).values()
    # The record at offset 359,500 came after 3,595 s.
    assert overdue_ms == pytest.approx((7_200 - 3_595 - 60) * 1000, rel=0.02)
    planner.on_done(A, 719_900)
    assert planner.overdue_ms(7_200_000) == {}


def test_small_ranges_share_jobs_and_full_ones_have_their_own() -> None:
    planner = begun(40)
    ends = {tp: (0, 5_000 if tp.partition == 7 else 10) for tp in planner.tps}
    planner.on_edges(ends, 0)
    due = planner.due(100_000, 3, together=16)
    # One job for the full one, and what two jobs can have of the small ones.
    assert [each.tp.partition for each in due if not each.small] == [7]
    assert [len(job) for job in jobs_of(due, 3)] == [1, 16, 16]
    assert planner.busy == 33


def test_a_few_small_ranges_are_spread_over_all_jobs() -> None:
    planner = begun(5)
    planner.on_edges({tp: (0, 10) for tp in planner.tps}, 0)
    assert [len(job) for job in jobs_of(planner.due(100_000, 3, together=16), 3)] == [2, 2, 1]
    assert jobs_of([], 3) == []


def test_many_records_are_no_small_range_whatever_they_weigh() -> None:
    assert Range(A, 0, 10_000, "age", "").small
    assert not Range(A, 0, 10_001, "age", "").small
    assert not Range(A, 0, 10, "size", "").small


@given(
    ends=st.lists(st.integers(1, 5_000), min_size=1, max_size=60),
    most=st.integers(1, 6),
    together=st.integers(1, 16),
)
def test_each_due_range_is_in_one_job_and_no_job_has_more_than_it_may(
    ends: list[int], most: int, together: int
) -> None:
    planner = begun(len(ends))
    planner.on_edges({tp: (0, ends[tp.partition]) for tp in planner.tps}, 0)
    due = planner.due(100_000, most, together=together)
    jobs = jobs_of(due, most)
    assert sorted(each for job in jobs for each in job) == sorted(due)
    assert 1 <= len(jobs) <= most
    assert all(1 <= len(job) <= together for job in jobs)
    assert all(len(job) == 1 or all(each.small for each in job) for job in jobs)


def test_a_partition_is_failing_until_all_that_was_due_is_stored_whoever_stored_it() -> None:
    planner = begun(2)
    planner.on_edges({A: (0, 300), B: (0, 300)}, 0)
    assert [each.until for each in planner.due(100_000, 9, "flush")] == [300, 300]
    for tp in (A, B):
        planner.on_failure(tp, 100_000, "away")
    planner.on_edges({A: (0, 350), B: (0, 350)}, 100_000)
    planner.on_head(A, 200)
    planner.on_head(B, 300)
    assert planner.failing == {A: "away"}
    assert planner.stopped == {}
    planner.due(200_000, 9, "flush")
    planner.on_done(A, 350)
    assert planner.failing == {}
