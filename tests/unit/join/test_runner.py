"""A join over a log in memory: the joined topic equals SQL, whatever stops the process and wherever batches end."""

from __future__ import annotations

import random

import pytest

from include.log import topics
from tests.support.faults.crash_points import CrashPoint, Killed, crashing
from tests.support.joins.histories import expected
from tests.unit.join.driver_harness import OUT, SOURCE, Process, world_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("grouped", [False, True])
def test_the_joined_topic_equals_sql_in_batches_of_any_size(grouped: bool) -> None:
    # In 453 and 1376 a row leaves one join key for another, and its old bucket tells of it last.
    for seed in [*range(60), 453, 1376]:
        world = world_of(seed, grouped=grouped)
        world.write()
        Process(world, lambda writer: writer, random.Random(seed).choice([None, 1, 3, 10])).to_the_end()
        assert world.table() == expected(world.setup.history), seed


@pytest.mark.parametrize("after", [False, True])
def test_a_join_that_is_killed_at_any_durable_call_goes_on_where_it_was(after: bool) -> None:
    for seed in range(25):
        draw = random.Random(seed)
        world = world_of(seed, grouped=draw.random() < 0.5)
        world.write()
        for _ in range(200):
            fuse = CrashPoint(draw.randint(1, 25), after=after)
            try:
                process = Process(world, crashing(fuse), draw.choice([None, 3]))
                process.to_the_end()
            except Killed:
                continue
            break
        Process(world, lambda writer: writer, None).to_the_end()
        assert world.table() == expected(world.setup.history), seed


@pytest.mark.parametrize("topic", [topics.requests(OUT), topics.control(SOURCE)])
def test_a_request_or_a_control_record_that_nobody_can_read_is_set_aside(topic: str) -> None:
    world = world_of(7, grouped=False)
    world.write(5)
    process = Process(world, lambda writer: writer, None)
    process.to_the_end()
    world.say(topic, b"garbage")
    process.to_the_end()
    world.write()
    process.to_the_end()
    assert world.table() == expected(world.setup.history)
    dead = topics.dead(topic, "joins")
    reader = world.log.reader()
    assert [record.value for record in reader.read(dead, 0, 0, reader.end_offsets(dead)[0])] == [b"garbage"]
