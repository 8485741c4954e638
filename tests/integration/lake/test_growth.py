"""Topics and partitions come, go and come again, and revisions roll out, while records are written all the time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.pointer import read_pointer
from tests.support.lake.hosted_harness import HostedLakeHarness, opened, same
from tests.support.lake.polling_reader import PollingReader
from tests.support.lake.traffic import Traffic, wait_until

LOST = re.compile(r"(\S+)/([0-9]+): offsets ([0-9]+) to ([0-9]+): the topic was deleted or made anew")


@pytest.fixture
def world(unique: str, tmp_path: Path, kafka: str, s3: Any) -> Iterator[HostedLakeHarness]:
    with opened(unique, tmp_path, kafka, s3) as made:
        yield made


def lost_offsets(told: list[str], topic: str) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    for line in told:
        name = LOST.fullmatch(line)
        assert name is not None, line
        assert name[1] == topic
        found |= {(int(name[2]), offset) for offset in range(int(name[3]), int(name[4]) + 1)}
    return found


def test_topics_and_partitions_that_come_and_go_are_stored_from_first_to_last(world: HostedLakeHarness) -> None:
    steady, brief = world.topic("steady", 3), world.topic("brief", 2)
    # Of this one much waits at any time: a part of it is lost when it is deleted.
    world.policy["topics"] = [{"topics": brief, "max_age_s": 3600, "max_bytes": 20_000}]
    deployed, traffic = world.declare(), Traffic(world.kafka)
    traffic.begin(steady)
    traffic.begin(brief)
    application = world.start(deployed)
    world.taken_up(steady, 3)
    world.taken_up(brief, 2)
    before = traffic.end(brief)

    world.grow(steady, 7)
    later = world.topic("later", 2)
    traffic.begin(later)
    world.taken_up(steady, 7)
    world.taken_up(later, 2)

    world.admin.delete(brief)
    world.topic("brief", 3)
    traffic.begin(brief)
    world.taken_up(brief, 3, generation=2)
    for group in world.groups:
        told = application.told(group)
        assert told["failing"] == {}
        stored = {key: each for key, each in world.objects(group, brief).items() if each[0] == 1}
        kept = world.records(group, stored)
        lost = lost_offsets(told["lost"], brief)
        assert lost
        assert not lost & kept.keys()
        # Markers and aborted records have offsets, too.
        assert before.keys() <= lost | kept.keys()
        assert {place: each.value for place, each in kept.items()}.items() <= before.items()

    traffic.end_all()
    assert application.stop() == 0, application.log()
    world.drain(deployed)
    for topic in (steady, later):
        assert world.is_whole(topic) >= len(traffic.acknowledged[topic]) > 100
    for group in world.groups:
        second = {key: each for key, each in world.objects(group, brief).items() if each[0] == 2}
        expected = world.committed(brief)
        assert {(p, o) for p, o in traffic.acknowledged[brief]} <= expected.keys()
        same(world.records(group, second), expected, group)
        assert {each[0] for each in world.objects(group, brief).values()} == {1, 2}


def test_a_revision_takes_over_while_the_one_before_it_runs(world: HostedLakeHarness) -> None:
    topic, traffic = world.topic("events", 3), Traffic(world.kafka)
    first, second = world.declare(1), world.declare(2)
    traffic.begin(topic)
    old = world.start(first)
    world.taken_up(topic, 3)
    with PollingReader(world, topic) as looks:
        new = world.start(second)
        world.taken_up(topic, 3, generation=2)
        looks.again()
        assert old.process.poll() in (None, 3), old.log()
        old.stop()
        looks.again()
        traffic.end(topic)
        wait_until(lambda: not world.behind(second), "the new revision stores all")
        looks.again()
    assert new.stop() == 0, new.log()
    assert world.is_whole(topic) >= len(traffic.acknowledged[topic])
    assert looks.records == len(world.committed(topic))
    for group in world.groups:
        key = world.pointer(group, topic)
        former, live = read_pointer(world.store, key).entries
        assert (former.generation, live.generation) == (1, 2)
        for partition in range(3):
            begins = live.start(partition)
            assert begins
            ends = {each.next for each in Chain(world.store, ChainKey(key, 1, partition)).commits()}
            assert begins in ends
