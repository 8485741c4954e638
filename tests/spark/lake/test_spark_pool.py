"""Jobs of several tasks: each task is told for itself, and all of a job that went with its host are tried again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from include.errors import Transient
from include.lake.definition import LakeGroup
from include.lake.groups_spark import task_pool
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.driver import TaskPool
from include.lake.writing.planner import Range
from include.lake.writing.task import Outcome, Task, TaskContext
from include.lake.writing.worker import TaskPlace
from include.settings.connections import Kafka, StoreSettings

GROUP = LakeGroup.model_validate(
    {
        "kind": "backup",
        "application": "lake",
        "topics": ["e*"],
        "prefix": "raw",
        "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
    }
)
STORE = StoreSettings(endpoint="http://127.0.0.1:9", bucket="b", access_key="a", secret_key=SecretStr("s"))
DEADLY = 7


def carried(task: Task, context: TaskContext) -> Outcome:
    """One partition's task has an error of its own; another's ends its process."""
    number = task.range.tp.partition
    if number == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 2:
        raise Transient("not now", system="s3")
    return Outcome(task, task.range.until)


def task(partition: int) -> Task:
    return Task("raw", "raw", Range(TopicIdPartition("events", "id", partition), 0, 5, "age", ""), 1, 0, 100, 10, "w")


@pytest.fixture
def pool(spark: SparkSession, tmp_path: Path) -> Iterator[TaskPool]:
    made = task_pool(spark, TaskPlace.of(GROUP, Kafka(bootstrap="127.0.0.1:9"), None, STORE, tmp_path), carried)
    yield made
    made.close()


def outcomes(pool: TaskPool, count: int) -> dict[int, Outcome]:
    found: list[Outcome] = []
    until_s = time.monotonic() + 100
    while len(found) < count and time.monotonic() < until_s:
        found += pool.finished()
        time.sleep(0.05)
    assert len(found) == count
    return {each.task.range.tp.partition: each for each in found}


def test_an_error_of_one_task_leaves_the_others_of_its_job_alone(pool: TaskPool) -> None:
    pool.submit(task(1), task(2), task(3))
    found = outcomes(pool, 3)
    assert [(number, found[number].head) for number in sorted(found)] == [(1, 5), (2, None), (3, 5)]
    assert isinstance(found[2].error, Transient)


def test_all_tasks_of_a_job_that_died_are_told_as_lost_and_other_jobs_go_on(pool: TaskPool) -> None:
    pool.submit(task(1), task(DEADLY), task(3))
    pool.submit(task(4))
    found = outcomes(pool, 4)
    assert {number for number, each in found.items() if each.error is None} == {4}
    for number in (1, 3, DEADLY):
        error = found[number].error
        assert isinstance(error, Transient)
        assert (error.message, error.details["partition"]) == ("a task was lost", number)
