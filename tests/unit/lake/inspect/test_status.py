"""The status of a group, in each state that a topic-partition and its servers can be in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from include.errors import Terminal, Transient
from include.lake.definition import LakeGroup
from include.lake.inspect.status import BAD, GroupStatus, PartitionStatus, group_status, standing_of
from include.lake.protocol.chain_key import ChainKey
from include.lake.reading.group_log import GroupLog, TopicIdPartition
from include.log.planning.survey import HiddenOffsets
from include.log.ports import LogWriter, TopicInfo
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo
from tests.support.lake.stored_topic import NOW_US, StoredTopic, backup_group, event

AGE_S = 60


def status(world: StoredTopic, group: LakeGroup | None = None, log: GroupLog | None = None, **told: Any) -> GroupStatus:
    group = group or backup_group()
    return group_status("raw", group, world.store, log or world, world.clock.now_us() // 1000, told)


def only(found: GroupStatus) -> PartitionStatus:
    (one,) = found.partitions
    return one


class Edges:
    """The world's log, with other edges; or none that answers."""

    def __init__(self, world: StoredTopic, edges: tuple[int, int] | None) -> None:
        self.world, self.changed = world, edges

    def topics(self) -> list[TopicInfo]:
        if self.changed is None:
            raise Transient("Kafka does not answer", system="kafka")
        return self.world.topics()

    def edges(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, tuple[int, int]]:
        assert self.changed is not None
        return dict.fromkeys(tps, self.changed)

    def hidden(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, HiddenOffsets]:
        return {}

    def begun_ms(self, tp: TopicIdPartition, offset: int) -> int:
        return self.world.begun_ms(tp, offset)

    def timestamps_ms(self, offsets: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        return dict.fromkeys(offsets, self.world.clock.now_us() // 1000)

    def epoch_before(self, tp: TopicIdPartition, offset: int) -> int | None:
        return self.world.epoch_before(tp, offset)


@pytest.fixture
def world(tmp_path: Path) -> StoredTopic:
    made = StoredTopic(tmp_path)
    made.append([event(n) for n in range(9)])
    return made


def hide(world: StoredTopic, partition: int = 0) -> LogWriter:
    """A record whose transaction is open."""
    writer = world.memory.writer("shop")
    writer.begin()
    writer.append(world.topics()[0].name, b"k", b"v", partition=partition)
    return writer


def test_what_a_transaction_hides_waits_and_is_not_up_to_date(world: StoredTopic) -> None:
    world.store_all(backup_group())
    hide(world)
    world.begun = world.clock.now_us() // 1000
    world.clock.advance(AGE_S)
    one = only(status(world))
    assert (one.state, one.lag_records, one.hidden, one.lag_s, one.open_bytes) == ("open", 1, 1, 60.0, 0)
    standing = standing_of(one, world.clock.now_us() // 1000)
    assert standing is not None
    assert (standing.head, standing.end, standing.oldest_ms) == (10, 10, None)
    world.clock.advance(1)
    found = status(world)
    assert (only(found).state, found.healthy) == ("hanging", False)
    assert "`kafka-transactions.sh --bootstrap-server … find-hanging --topic events --partition 0`" in only(found).todo


def test_a_transaction_hides_what_nobody_has_begun_to_store(tmp_path: Path) -> None:
    world = StoredTopic(tmp_path)
    world.make("events")
    hide(world)
    world.begun = world.clock.now_us() // 1000
    assert only(status(world)).state == "up to date"
    world.clock.advance(AGE_S + 1)
    assert only(status(world)).state == "hanging"


def test_what_is_stored_to_the_end_says_when_and_by_which_object(world: StoredTopic) -> None:
    world.store_all(backup_group())
    found = status(world)
    one = only(found)
    assert found.healthy
    assert (one.state, one.committed, one.end, one.lag_records, one.lag_s, one.open_bytes) == (
        "up to date",
        10,
        10,
        0,
        0.0,
        0,
    )
    assert one.last is not None
    assert one.last.key == ChainKey(world.key(backup_group()), 1, 0).commit(0)
    assert (one.last.records, one.last.first, one.last.next) == (9, 0, 10)
    assert one.last.at_us is not None
    assert one.last.newest_ms is not None


def test_what_waits_has_a_lag_an_age_and_about_so_many_bytes(world: StoredTopic) -> None:
    world.store_all(backup_group())
    world.append([event(n) for n in range(19)])
    world.clock.advance(30)
    one = only(status(world))
    assert (one.state, one.committed, one.end, one.lag_records, one.lag_s) == ("open", 10, 30, 20, 30.0)
    assert one.last is not None
    assert one.open_bytes == 20 * one.last.bytes // 10
    standing = standing_of(one, world.clock.now_us() // 1000)
    assert standing is not None
    assert (standing.waiting, standing.since_ms(world.clock.now_us() // 1000)) == (20, NOW_US // 1000 + 1000)
    assert standing_of(only(status(world, log=Edges(world, None))), 0) is None
    world.clock.advance(AGE_S - 30)
    assert only(status(world)).state == "due"
    world.clock.advance(AGE_S + 1)
    found = status(world)
    assert only(found).state == "late"
    assert "lake_backup" in only(found).todo
    assert not found.healthy
    assert only(status(world, backup_group(run="schedule"))).state == "due"


def test_old_timestamps_of_producers_make_nothing_late(world: StoredTopic) -> None:
    world.store_all(backup_group())
    writer = world.memory.writer("w")
    writer.begin()
    writer.append("events", b"k", b"v", partition=0, timestamp_ms=1_000)
    writer.commit()
    world.clock.advance(10)
    one = only(status(world))
    assert one.state == "open"
    assert one.lag_s is not None
    assert one.lag_s > 10**9


def test_a_topic_that_nobody_began_with_says_which_application_to_start(world: StoredTopic) -> None:
    one = only(status(world))
    assert (one.state, one.committed, one.lag_records) == ("not begun", None, None)
    assert "Start the application lake_backup" in one.todo
    world.make("empty")
    assert {each.topic: each.state for each in status(world).partitions} == {
        "events": "not begun",
        "empty": "up to date",
    }


def test_partitions_that_were_added_are_there_from_their_beginning(world: StoredTopic) -> None:
    world.store_all(backup_group())
    log = Edges(world, (0, 10))
    log.topics = lambda: [TopicInfo("events", world.info().topic_id, 2)]  # type: ignore[method-assign]
    first, second = status(world, log=log).partitions
    assert (first.state, first.lag_records) == ("up to date", 0)
    assert (second.partition, second.committed, second.lag_records) == (1, 0, 10)


def test_retention_and_truncation_are_told_apart(world: StoredTopic) -> None:
    world.store_all(backup_group())
    lost = only(status(world, log=Edges(world, (15, 20))))
    assert (lost.state, lost.lag_records) == ("lost", 5)
    assert "dropped offsets 10 to 14" in lost.todo
    truncated = only(status(world, log=Edges(world, (0, 7))))
    assert truncated.state == "truncated"
    assert "revision" in truncated.todo
    assert {lost.state, truncated.state} < BAD


def test_what_the_log_had_dropped_before_the_group_began_is_no_loss(world: StoredTopic) -> None:
    assert only(status(world, log=Edges(world, (5, 10)))).state == "not begun"


def test_a_topic_that_is_gone_or_made_anew_needs_nobody(world: StoredTopic) -> None:
    world.store_all(backup_group())
    old = world.info().named_id
    world.memory.admin().delete("events")
    assert (only(status(world)).state, status(world).healthy) == ("gone", True)
    world.append([event(0)])
    states = {each.topic_id: each.state for each in status(world).partitions}
    assert states == {old: "gone", world.info().named_id: "not begun"}


def test_a_topic_without_a_rule_says_what_to_declare(world: StoredTopic) -> None:
    form = {"sequence": {"layout": "verbatim"}}
    one = only(status(world, backup_group(rules=[{"topics": "other*", "format": form}])))
    assert one.state == "no rule"
    assert "Add a rule for events" in one.todo


def test_what_the_application_could_not_do_is_shown_where_it_failed(world: StoredTopic) -> None:
    world.store_all(backup_group())
    found = status(world, failing={"events/0": "an object that is none of this cut. Find out who wrote it."})
    assert (only(found).state, only(found).todo) == (
        "failing",
        "an object that is none of this cut. Find out who wrote it.",
    )
    assert not found.healthy
    assert not status(world, ended={"text": "it ended", "fix": "lyrebird lake status"}).healthy


def test_without_the_log_the_bucket_still_tells_how_far_it_is(world: StoredTopic) -> None:
    world.store_all(backup_group())
    found = status(world, log=Edges(world, None))
    assert [each.trouble for each in found.troubles] == ["log away"]
    one = only(found)
    assert (one.state, one.committed, one.end, one.lag_records, one.lag_s) == ("not known", 10, None, None, None)


class Refusing(MemoryStore):
    """Refuses listings."""

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        reason = "An error occurred (InvalidAccessKeyId) when calling the ListObjectsV2 operation: no"
        raise Terminal("the object store refuses this", system="s3", bucket="lake", endpoint="e", reason=reason)


def test_without_the_bucket_the_trouble_has_a_name_and_the_topics_are_listed(world: StoredTopic) -> None:
    found = group_status("raw", backup_group(), Refusing(), world, 0)
    assert [each.trouble for each in found.troubles] == ["wrong credentials"]
    assert only(found).state == "not known"
    assert not found.healthy


def test_a_damaged_pointer_is_a_trouble_and_a_damaged_commit_fails_its_partition_alone(world: StoredTopic) -> None:
    world.store_all(backup_group())
    world.append([event(0)], topic="else")
    world.store_all(backup_group())
    chain = ChainKey(world.key(backup_group()), 1, 0)
    world.store.put(chain.commit(0), b"{}")
    states = {each.topic: each.state for each in status(world).partitions}
    assert states == {"else": "up to date", "events": "failing"}
    world.store.put(chain.of.pointer, b"{}")
    assert [each.trouble for each in status(world).troubles] == ["damaged"]


def test_a_status_writes_nothing(world: StoredTopic) -> None:
    world.store_all(backup_group())
    before = {info.key: info.etag for info in world.store.list("")}
    status(world)
    assert {info.key: info.etag for info in world.store.list("")} == before
