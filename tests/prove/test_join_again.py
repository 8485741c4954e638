"""Joins that die behind each of their durable steps, and joins that do each batch twice.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_join_again.py

On a real log, registry, object store and embedded stores; driver or worker ends by kill -9.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.application_process import ApplicationProcess
from tests.support.joins.crashing_join import DAEMON, STEPS
from tests.support.joins.harness import JoinHarness

pytestmark = pytest.mark.prove
if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_join_again.py", allow_module_level=True)


@pytest.fixture
def world(unique: str, kafka: str, registry_url: str, s3: Any, tmp_path: Path) -> Any:
    made = JoinHarness(unique, kafka, registry_url, s3, tmp_path)
    (tmp_path / "state").mkdir()
    yield made
    made.close()


def started(world: JoinHarness) -> ApplicationProcess:
    return ApplicationProcess(f"join_{world.name}", world.folder, DAEMON, script="tests/support/joins/crashing_join.py")


@pytest.mark.timeout(1200)
def test_a_crash_behind_each_numbered_step_loses_and_doubles_nothing(world: JoinHarness) -> None:
    world.change(100)
    process = started(world)
    asked = world.folder / "state" / "die"
    try:
        world.wait(world.equal, within_s=120)
        for step in STEPS:
            process.kill()
            asked.write_text(step, encoding="utf-8")
            process.revived()
            until_s = time.monotonic() + 120
            while asked.exists():
                assert time.monotonic() < until_s, f"nobody came through {step}: {process.tail()}"
                world.change(5)
                world.heartbeat()
                process.revived()
                time.sleep(0.1)
            print(step, flush=True)
            world.change(20)
            world.wait(lambda: process.revived() and world.equal(), within_s=120)
        assert len(world.table(world.second)) > 5
    finally:
        process.kill()


@pytest.mark.timeout(600)
def test_a_batch_that_is_done_again_makes_the_same_outputs_byte_by_byte(world: JoinHarness) -> None:
    (world.folder / "state" / "twice").touch()
    world.change(100)
    process = started(world)
    try:
        world.wait(world.equal, within_s=120)
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s:
            world.change(10)
            world.heartbeat()
            time.sleep(0.2)
        world.truncate()
        world.change(40)
        world.wait(world.equal, within_s=120)
        assert process.stop() == 0, process.tail()
    finally:
        process.kill()
    outputs = [int(line) for line in (world.folder / "state" / "done-twice").read_text().splitlines()]
    print(f"{len(outputs)} batches, {sum(outputs)} outputs", flush=True)
    assert sum(count > 0 for count in outputs) > 20
