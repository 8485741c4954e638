"""`lyrebird lake restore` as a process that is killed often: a topic that Kafka has no more comes back as it was."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake.hosted_harness import HostedLakeHarness, opened
from tests.support.lake.traffic import Kept, Traffic
from tests.support.paths import ROOT

KILLS = 25


@pytest.fixture
def world(unique: str, tmp_path: Path, kafka: str, s3: Any) -> Iterator[HostedLakeHarness]:
    with opened(unique, tmp_path, kafka, s3) as made:
        yield made


def restoring(deployed: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "LYREBIRD_DEPLOYMENT": str(deployed), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "include", "lake", "restore", *words, "--json"]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)


def in_order(found: dict[tuple[int, int], Kept], partition: int) -> list[Kept]:
    return [kept for (of, _), kept in sorted(found.items()) if of == partition]


def test_a_deleted_topic_is_restored_record_for_record_through_kills_beside_live_traffic(
    world: HostedLakeHarness,
) -> None:
    chance = random.Random(7)
    topic, other, traffic = world.topic("events", 3), world.topic("others", 2), Traffic(world.kafka, a_second=2000)
    deployed = world.declare()
    traffic.begin(topic)
    time.sleep(15)
    traffic.end(topic)
    before = world.committed(topic)
    world.drain(deployed)
    topic_id = world.topic_id(topic)
    world.admin.delete(topic)
    traffic.begin(other)
    application = world.start(deployed)
    # None of the group's own topics, so that it is not taken for another one to store.
    target = f"copy-{world.unique}"
    words = topic, "--to", target, "--partitions", "3", "--group", "raw"
    try:
        cut_off = 0
        for _ in range(KILLS):
            running = restoring(deployed, *words)
            time.sleep(chance.uniform(0.8, 3))
            cut_off += running.poll() is None
            running.send_signal(signal.SIGKILL)
            running.communicate()
        assert cut_off
        said, errors = restoring(deployed, *words).communicate(timeout=120)
        told = json.loads(said)
        assert told, errors
        after = world.committed(target)
        assert len(after) == len(before) > 10_000
        for partition in range(3):
            assert in_order(after, partition) == in_order(before, partition)
        assert topic_id in said
    finally:
        world.admin.delete(target)
    traffic.end_all()
    assert application.stop() == 0, application.log()
    world.drain(deployed)
    assert world.is_whole(other) >= len(traffic.acknowledged[other])
