"""A job over a log in memory: outputs are those of a plain sort, whatever stops the process."""

from __future__ import annotations

import random

import pytest

from include.eventtime.algorithm.watermark import NEVER
from include.log import topics
from tests.support.eventtime.histories import expected
from tests.support.faults.crash_points import CrashPoint, Killed, crashing
from tests.unit.eventtime.driver_harness import APPLICATION, JobDriverHarness, Process

pytestmark = pytest.mark.unit


def assert_right(world: JobDriverHarness, process: Process) -> None:
    """Outputs up to the watermark, and late elements, are what the log and the verdicts in it say."""
    outputs, late = expected(world.logged(process.runner.committed.watermark))
    assert world.outputs() == outputs
    assert world.late() == late


@pytest.mark.parametrize("seed", range(40))
def test_outputs_are_those_of_a_plain_sort_in_batches_of_any_size(seed: int) -> None:
    world = JobDriverHarness(seed)
    process = Process(world, total_limit=random.Random(seed).choice([None, 1, 3, 10]))
    while any(world.waiting.values()):
        world.write(world.draw.choice((1, 5, 20)))
        process.to_the_end()
    assert process.runner.committed.watermark > NEVER
    assert_right(world, process)


@pytest.mark.parametrize("expired", [False, True], ids=["group there", "group gone"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_a_job_that_is_killed_at_any_durable_call_goes_on_where_it_was(seed: int, after: bool, expired: bool) -> None:
    draw, world = random.Random(seed), JobDriverHarness(seed)
    while any(world.waiting.values()):
        world.write(draw.choice((3, 20)))
        for _ in range(200):
            fuse = CrashPoint(draw.randint(1, 25), after=after)
            try:
                Process(world, crashing(fuse), draw.choice([None, 3])).to_the_end()
            except Killed:
                if expired:
                    world.log.expire(f"{APPLICATION}.{world.job.topic}.0")
                continue
            break
    process = Process(world)
    process.to_the_end()
    assert_right(world, process)


def test_verdicts_are_written_down_and_the_job_is_past_idle_partitions() -> None:
    moved = 0
    for seed in range(20):
        world = JobDriverHarness(seed)
        process = Process(world)
        while any(world.waiting.values()):
            world.write(2)
            process.to_the_end()
        moved += sum(1 for topic in world.history.topics for _ in world.records(topics.idle(topic, APPLICATION)))
    assert moved > 5


def test_a_partition_that_joins_begins_at_the_watermark_and_a_replay_is_told_so() -> None:
    world = JobDriverHarness(3)
    process = Process(world)
    world.write(25)
    process.to_the_end()
    before = process.runner.committed.watermark
    assert before > NEVER
    topic = world.history.topics[0]
    partitions = world.admin.describe(topic).partitions  # type: ignore[union-attr]
    world.log.grow(topic, partitions + 1)
    # One that comes too late for where it begins, and one that does not.
    world.waiting[topic, partitions] = [
        item.__class__((topic, partitions), 0, time, "a", {"timer": "x", "after": 3, "fails": ""})
        for item, time in zip(world.history.partitions[topic, 0], (before + 5, before), strict=False)
    ]
    world.write()
    Process(world).to_the_end()
    process = Process(world)
    process.to_the_end()
    assert ((topic, partitions), 0) in world.late()
    assert_right(world, process)


def test_the_order_of_sources_stays_when_the_declaration_changes_it() -> None:
    world = next(found for found in map(JobDriverHarness, range(20)) if len(found.history.topics) == 2)
    world.write(20)
    Process(world).to_the_end()
    entry = world.job.entry
    turned = entry.model_copy(update={"sources": entry.sources[::-1]})
    object.__setattr__(world.job, "entry", turned)
    process = Process(world)
    assert process.runner.committed.sources == tuple(world.history.topics)
