"""The offline detector in Spark with a real log, registry and object store: what it writes is what a replay gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.log import topics
from tests.eventtime_world import EventWorld
from tests.join_process import JoinProcess


@pytest.fixture
def world(unique: str, kafka: str, registry_url: str, s3: Any, tmp_path: Path) -> Iterator[EventWorld]:
    made = EventWorld(unique, kafka, registry_url, s3, tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_live_over_kills_and_idle_partitions_it_writes_what_a_replay_gives_byte_for_byte(world: EventWorld) -> None:
    world.send(300)
    process = JoinProcess(world.application, world.folder, script="spark_apps/process_events.py")
    try:
        world.wait(world.is_read, lambda: process.alive)
        for kill, partitions in ((process.kill_worker, (0, 1, 2, 3)), (process.kill, (0, 1)), (process.kill, (0, 3))):
            for _ in range(3):
                world.send(60, partitions)
            kill()
            world.send(60, partitions)
            process.revived()
            world.wait(world.is_read, process.revived)
        assert process.stop() == 0, process.tail()
    finally:
        process.kill()
    expected, made = world.expected()
    written = world.written()
    assert len(written) == len(set(written))
    assert sorted(written) == sorted(expected)
    assert len(written) > 100
    late = [
        dict(record.headers)["late.offset"] for record in world.records(topics.late(world.tracks, world.application))
    ]
    assert len(late) == len(made.late) >= world.planted_late > 0
    assert any(True for _ in world.records(topics.idle(world.tracks, world.application)))
    assert made.failed == []
