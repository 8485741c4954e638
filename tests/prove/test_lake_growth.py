"""Roll-outs of groups of the lake, to the end of those that they replace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.lake.traffic import Traffic, wait_until
from tests.integration.lake.world import World, opened


@pytest.fixture
def world(unique: str, tmp_path: Path, kafka: str, s3: Any) -> Iterator[World]:
    with opened(unique, tmp_path, kafka, s3) as made:
        yield made


def test_an_older_revision_that_runs_on_is_fenced(world: World) -> None:
    topic, traffic = world.topic("events", 2), Traffic(world.kafka)
    first, second = world.declare(1), world.declare(2)
    traffic.begin(topic)
    old = world.start(first)
    world.taken_up(topic, 2)
    new = world.start(second)
    assert old.process.wait(60) == 3, old.log()
    assert "newer revision" in old.log().splitlines()[-1]
    again = world.start(first)
    assert again.process.wait(60) == 3, again.log()
    traffic.end(topic)
    wait_until(lambda: not world.behind(second), "all is stored")
    assert new.stop() == 0, new.log()
    assert world.is_whole(topic) >= len(traffic.acknowledged[topic])
