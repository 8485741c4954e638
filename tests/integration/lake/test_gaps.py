"""Offsets without a record, on a real Kafka: what was never there, and what retention took before it was stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Gap
from include.log.kafka.log import KafkaWriter
from tests.support.lake.hosted_harness import HostedLakeHarness, opened


@pytest.fixture
def world(unique: str, tmp_path: Path, kafka: str, s3: Any) -> Iterator[HostedLakeHarness]:
    with opened(unique, tmp_path, kafka, s3) as made:
        yield made


def write(world: HostedLakeHarness, topic: str, *, commit: bool = True) -> None:
    """A transaction of 99 records: with its marker 100 offsets."""
    writer = KafkaWriter(world.kafka, f"{topic}-w")
    writer.begin()
    for number in range(99):
        writer.append(topic, b"k", b'{"at": 1700000000, "n": %d}' % number, partition=0)
    if commit:
        writer.commit()
    else:
        writer.next_offsets()
        writer.abort()
    writer.close()


def gaps(world: HostedLakeHarness, group: str, topic: str) -> list[Gap]:
    chain = ChainKey(world.pointer(group, topic), 1, 0)
    return [gap for commit in Chain(world.store, chain).commits() for gap in commit.gaps]


def test_only_what_retention_took_is_lost_and_it_is_told_once(world: HostedLakeHarness) -> None:
    topic, old = world.topic("events", 1), world.topic("old", 1)
    deployed = world.declare()
    write(world, topic)
    write(world, old)
    # Of a topic that was begun with later nothing was ever promised.
    world.drop(old, 0, 30)
    world.drain(deployed)
    write(world, topic)
    write(world, topic, commit=False)
    write(world, topic)
    world.drop(topic, 0, 150)
    told = world.drain(deployed)
    for group in world.groups:
        assert told.told(group)["lost"] == [f"{topic}/0: offsets 100 to 149: retention was faster"]
        assert gaps(world, group, topic) == [Gap(100, 150, "lost")]
        assert gaps(world, group, old) == [Gap(0, 30, "before")]
    write(world, topic, commit=False)
    again = world.drain(deployed)
    for group in world.groups:
        assert again.told(group)["lost"] == []
        offsets = {offset for _, offset in world.records(group, world.objects(group, topic))}
        assert offsets == {*range(99), *range(150, 199), *range(300, 399)}
        assert gaps(world, group, topic) == [Gap(100, 150, "lost")]
        # The last cut holds no record at all, and the chain goes on to its end.
        (head,) = [Chain(world.store, ChainKey(world.pointer(group, topic), 1, 0)).head().next]
        assert head == 500
    assert world.is_whole(old) == 69
