"""Drills: what groups of the lake need fails, for as long as a test wants, under traffic."""

from __future__ import annotations

import time

import psutil

from tests.integration.lake.faulty_store import FaultyStore
from tests.integration.lake.hosted import Hosted
from tests.integration.lake.traffic import Traffic, wait_until
from tests.integration.lake.world import World

__all__ = ["bears_faults"]

# More than what an application may take while it waits.
_MORE_MB = 80


def stays_up(application: Hosted, before_mb: int) -> None:
    """It runs, and what waits lies in the log, not in its memory."""
    assert application.process.poll() is None, application.log()
    assert memory_mb(application) < before_mb + _MORE_MB


def memory_mb(application: Hosted) -> int:
    return int(psutil.Process(application.process.pid).memory_info().rss) >> 20


def bears_faults(world: World, seed: int, seconds: float) -> None:
    """The store refuses, cuts off and loses answers for so long, under traffic."""
    topic, traffic = world.topic("events", 3), Traffic(world.kafka)
    with FaultyStore(world.s3.endpoint, seed) as store:
        deployed = world.declare(endpoint=store.endpoint)
        traffic.begin(topic)
        application = world.start(deployed)
        world.taken_up(topic, 3)
        before_mb = memory_mb(application)
        store.shares = {"busy": 0.15, "failing": 0.05, "reset": 0.05, "lost": 0.1}
        time.sleep(seconds)
        assert all(store.met[fault] for fault in store.shares), store.met
        traffic.end(topic)
        # Still among faults.
        wait_until(lambda: not world.behind(deployed), "all is stored", 120)
        store.shares = {}
        is_well(world, application, before_mb)
    assert world.is_whole(topic) >= len(traffic.acknowledged[topic])


def is_well(world: World, application: Hosted, before_mb: int) -> None:
    """It tells of no trouble, has lost nothing, and ends when it is asked to."""
    stays_up(application, before_mb)
    for group in world.groups:

        def well(group: str = group) -> bool:
            told = application.told(group)
            return (told["failing"], told["away"]) == ({}, "")

        wait_until(well, f"{group} is well")
        assert application.told(group)["lost"] == []
    assert application.stop() == 0, application.log()
