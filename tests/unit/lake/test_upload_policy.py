"""When a topic-partition is due, why, and where its cut ends."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from include.lake.upload_policy import PartitionBacklog, TopicPolicy, UploadPolicies, UploadPolicy, decide, explain

NOW = 1_714_564_800_000
POLICY = UploadPolicy(max_bytes=1000, max_age_s=60, max_records=50, record_bytes=10)
# Of 100 bytes an offset.
BUSY = PartitionBacklog(head=5, end=15, recent_bytes=100_000, recent_offsets=1000, seen_ms=NOW)


def decided(standing: PartitionBacklog, **changes: Any) -> tuple[str | None, int]:
    decision = decide(POLICY, replace(standing, **changes), NOW)
    return decision.reason, decision.end


def test_it_is_due_by_size_at_the_limit_and_not_before() -> None:
    assert decided(BUSY) == ("size", 15)
    assert decided(BUSY, end=14) == (None, 5)


def test_a_cut_by_size_ends_where_the_limit_is_reached() -> None:
    assert decided(BUSY, end=10_000) == ("size", 15)
    assert decided(BUSY, end=10_000, recent_bytes=99_000) == ("size", 16)


def test_records_bound_a_cut_however_small_they_are() -> None:
    assert decided(BUSY, end=55, recent_bytes=0) == ("size", 55)
    assert decided(BUSY, end=54, recent_bytes=0) == (None, 5)
    assert decided(BUSY, end=1000, recent_bytes=1) == ("size", 55)


def test_without_commits_the_declared_size_of_a_record_counts() -> None:
    assert decided(BUSY, end=54, recent_offsets=0) == (None, 5)
    assert decide(POLICY, replace(BUSY, recent_offsets=0), NOW).bytes == 100
    assert (
        decide(POLICY.model_copy(update={"record_bytes": 100}), replace(BUSY, recent_offsets=0), NOW).reason == "size"
    )


def test_bytes_that_are_known_count_more_than_estimates() -> None:
    assert decided(BUSY, known_bytes=999) == (None, 5)
    assert decided(BUSY, known_bytes=1000) == ("size", 15)
    assert decided(BUSY, known_bytes=5000) == ("size", 7)
    assert decided(BUSY, known_bytes=0) == (None, 5)


def test_a_record_larger_than_the_limit_is_a_cut() -> None:
    assert decided(BUSY, end=6, recent_bytes=10_000_000) == ("size", 6)
    assert decided(BUSY, end=9, recent_bytes=10_000_000) == ("size", 6)


def test_it_is_due_by_age_at_the_limit_and_not_before() -> None:
    idle = replace(BUSY, end=6)
    assert decided(idle, seen_ms=NOW - 60_000) == ("age", 6)
    assert decided(idle, seen_ms=NOW - 59_999) == (None, 5)
    assert decided(idle, oldest_ms=NOW - 60_000) == ("age", 6)
    assert decided(idle, oldest_ms=NOW - 60_000, seen_ms=None) == ("age", 6)


def test_what_is_large_enough_is_due_by_size_however_old_it_is() -> None:
    assert decided(BUSY, seen_ms=NOW - 10**9) == ("size", 15)


def test_a_clock_that_is_ahead_does_not_keep_records_waiting() -> None:
    assert decided(BUSY, end=6, oldest_ms=NOW + 10**9, seen_ms=NOW - 60_000) == ("age", 6)
    assert decided(BUSY, end=6, oldest_ms=-1, seen_ms=NOW - 60_000) == ("age", 6)


def test_old_records_that_are_sent_again_are_not_due_at_every_poll() -> None:
    assert decided(BUSY, end=6, oldest_ms=0, planned_ms=NOW - 10_000) == (None, 5)
    assert decided(BUSY, end=6, oldest_ms=0, planned_ms=NOW - 60_000) == ("age", 6)
    assert decided(BUSY, end=6, oldest_ms=0) == ("age", 6)


def test_a_clock_that_went_back_makes_no_age_negative() -> None:
    decision = decide(POLICY, replace(BUSY, end=6, seen_ms=NOW + 5000, planned_ms=NOW + 9000), NOW)
    assert (decision.reason, decision.age_ms) == (None, 0)


def test_what_is_asked_for_is_due_after_size_and_age() -> None:
    small = replace(BUSY, end=6)
    assert decide(POLICY, small, NOW, "flush").reason == "flush"
    assert decide(POLICY, small, NOW, "ending").reason == "ending"
    assert decide(POLICY, BUSY, NOW, "flush").reason == "size"
    assert decide(POLICY, replace(small, oldest_ms=0), NOW, "flush").reason == "age"


@pytest.mark.parametrize("end", [5, 4, 0])
def test_nothing_is_due_where_nothing_waits(end: int) -> None:
    decision = decide(POLICY, replace(BUSY, end=end), NOW, "flush")
    assert (decision.reason, decision.end, decision.bytes, decision.age_ms) == (None, 5, 0, 0)


numbers = st.integers(0, 10**6)


@settings(max_examples=100)
@given(numbers, numbers, numbers, numbers, numbers, st.sampled_from(["", "flush"]))
def test_every_decision_is_within_its_bounds(
    head: int, waiting: int, recent: int, offsets: int, seen: int, asked: Any
) -> None:
    standing = PartitionBacklog(head, head + waiting, recent, offsets, seen_ms=NOW - seen)
    decision = decide(POLICY, standing, NOW, asked)
    assert (decision.reason is None) == (decision.end == head)
    assert head <= decision.end <= min(standing.end, head + POLICY.max_records)
    if waiting and (seen >= 60_000 or asked):
        assert decision.reason is not None
    # Cut after cut, all that waits is taken.
    taken = head
    for _ in range(3):
        if asked and taken < standing.end:
            following = decide(POLICY, replace(standing, head=taken), NOW, asked).end
            assert following > taken
            taken = following


POLICIES = UploadPolicies(
    max_bytes=500,
    topics=(TopicPolicy(topics="audit.*", max_age_s=5), TopicPolicy(topics="audit.big", max_bytes=1)),
)


def test_the_first_exception_that_has_the_topic_holds_alone() -> None:
    assert POLICIES.of("audit.big") == (UploadPolicy(max_bytes=500, max_age_s=5), "audit.*")
    assert POLICIES.of("orders") == (UploadPolicy(max_bytes=500), "")


def test_patterns_have_no_other_signs_and_mind_case() -> None:
    policies = UploadPolicies(topics=(TopicPolicy(topics="a.[bc]?", max_bytes=1),))
    assert policies.of("a.bx")[1] == ""
    assert UploadPolicies(topics=(TopicPolicy(topics="Logs", max_bytes=1),)).of("logs")[1] == ""


@pytest.mark.parametrize("wrong", [{"max_bytes": 0}, {"max_age_s": -1}, {"size": 5}, {"topics": [{"max_bytes": 5}]}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        UploadPolicies.model_validate(wrong)


def test_an_intent_keeps_the_policy_in_words() -> None:
    assert POLICY.words == "1000 bytes, 50 records or 60 s"


def test_explanations_say_what_holds_what_waits_and_what_follows() -> None:
    waiting = replace(BUSY, end=8, oldest_ms=NOW - 12_345)
    assert explain(POLICY, waiting, NOW, pattern="audit.*") == [
        "policy: 1000 bytes, 50 records or 60 s (the exception for audit.*)",
        "waiting: offsets 5 to 7, about 300 bytes (recent commits: 100000 bytes in 1000 offsets)",
        "oldest: 12.345 s (by the timestamp of its record)",
        "not due: by age in 48 s, by size after 700 bytes or 47 records more",
    ]
    assert explain(POLICY, replace(waiting, oldest_ms=0, planned_ms=NOW - 1), NOW)[2].endswith("took all there was)")
    assert explain(POLICY, replace(BUSY, recent_offsets=0), NOW, asked="flush")[1:] == [
        "waiting: offsets 5 to 14, about 100 bytes (no commits yet: 10 bytes an offset are assumed)",
        "oldest: 0.000 s (since it was first seen)",
        "due by flush: the next cut ends at offset 15 at most",
    ]
    assert explain(POLICY, replace(BUSY, known_bytes=7), NOW)[1].endswith("about 7 bytes (as they were read)")
    assert explain(POLICY, replace(BUSY, end=5), NOW)[1:] == ["nothing waits: all up to offset 5 is committed"]


def test_no_cut_is_bigger_than_a_reader_can_hold() -> None:
    for kind in (UploadPolicy, partial(TopicPolicy, topics="*")):
        assert kind(max_bytes=5 << 30).max_bytes == 5 << 30
        with pytest.raises(ValidationError):
            kind(max_bytes=(5 << 30) + 1)
