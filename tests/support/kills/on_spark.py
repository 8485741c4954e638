"""Runs whose tasks are in Spark's workers: where one is killed Spark fails its task, where one is stopped another host
stores what it should have, and it wakes when that is done.
"""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from include.clock import SystemClock
from include.lake.groups_spark import task_pool
from include.lake.host import GroupHost
from include.lake.reading.kafka_group import KafkaGroupLog
from include.lake.writing.driver import Driver
from include.lake.writing.report import GroupReport
from include.lake.writing.worker import TaskPlace
from include.metrics.progress import RunFolder
from include.store.s3 import store_of
from tests.support.kills.conductor import Conductor, carry_on, until, wake
from tests.support.kills.kafka_reader import Ran
from tests.support.kills.program import Program
from tests.support.kills.scenarios import Scenario
from tests.support.kills.traffic import Traffic
from tests.support.kills.workers import struck_task

__all__ = ["run_on_spark"]


class _Hosted:
    """A host of this process, whose tasks Spark runs; in a thread of its own until it is ended."""

    def __init__(self, spark: SparkSession, program: Program) -> None:
        clock, self._folder = SystemClock(), Path(program.folder)
        place = TaskPlace.of(program.group, program.kafka, None, program.store, self._folder)
        self._pool = task_pool(spark, place, partial(struck_task, program.workers[0]))
        self._store, report = store_of(program.store), GroupReport(program.name)
        log = KafkaGroupLog(program.kafka.bootstrap, program.kafka.options)
        driver = Driver(program.name, program.group, log, self._store, self._pool, clock, report, "host-spark")
        left = self._folder / "left"
        left.mkdir()
        self._host = GroupHost("lake", [(driver, report)], RunFolder(self._folder, clock), clock, lambda: False)
        self._left = GroupHost("lake", [(driver, report)], RunFolder(left, clock), clock, lambda: False)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name=program.name)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._host.serve()
            self._left.drain(flush=True)
        except BaseException as error:  # noqa: BLE001 - told by whoever ends it
            self._failure = error

    def end(self) -> None:
        """Stores all that is left; raises what it ended with."""
        (self._folder / "stop").touch()
        self._thread.join()
        self._pool.close()
        self._store.close()
        if self._failure is not None:
            raise self._failure


def run_on_spark(spark: SparkSession, conductor: Conductor, scenario: Scenario) -> Ran:
    """The whole of it; the first host's worker is hit, and a second host is there where it is stopped."""
    topic = conductor.topic(scenario.number)
    conductor.make(topic, scenario.partitions)
    first, *others = scenario.hosts
    with Traffic(conductor.bootstrap, topic, scenario.number, scenario.partitions, big=False) as traffic:
        program, ((mark, blow),) = conductor.program(scenario, first, 1)
        hosted = _Hosted(spark, program)
        try:
            until(lambda: mark.exists() and mark.read_text(), f"it never came to {blow}")
            for number, plan in enumerate(others, 2):
                carry_on(conductor, scenario, plan, number, traffic)
            traffic.end()
        finally:
            if blow.how == "stop" and mark.exists():
                wake([int(mark.read_text())])
            hosted.end()
    return conductor.ran(scenario)
