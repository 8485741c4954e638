"""Pools of jobs, on Spark and in processes: each task has one result, whatever becomes of its job."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from include.errors import LyrebirdError
from include.log.running.failure import first_line
from include.log.running.job_pool import OwnedJobPool
from include.log.running.job_pool_spark import SparkJobPool
from include.log.running.processes import Processes, ProcessPool
from tests.support.pooled_work import DEADLY, OURS, squared

Result = tuple[int, int | str]
Pool = OwnedJobPool[int, Result]
_WITHIN_S = 100.0


def lost(number: int, failed: BaseException) -> Result:
    return number, f"{type(failed).__name__} of ours" if isinstance(failed, LyrebirdError) else first_line(failed)


@pytest.fixture(params=["spark", "processes"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    if request.param == "spark":
        spark: SparkSession = request.getfixturevalue("spark")
        on_spark = SparkJobPool(spark, squared, lost, together=3, spare=1)
        yield on_spark
        on_spark.close()
        return
    processes = Processes(3)
    yield ProcessPool(processes, squared, lost)
    processes.close()


def results(pool: Pool, count: int) -> dict[int, int | str]:
    found: list[Result] = []
    until_s = time.monotonic() + _WITHIN_S
    while len(found) < count and time.monotonic() < until_s:
        found += pool.finished()
        time.sleep(0.05)
    assert len(found) == count
    return dict(found)


def test_each_task_has_its_result_once_whether_its_job_has_others_or_not(pool: Pool) -> None:
    pool.submit(1, 2, 3)
    pool.submit(4)
    assert results(pool, 4) == {1: 1, 2: 4, 3: 9, 4: 16}
    assert not pool.finished()


def test_a_pool_runs_several_jobs_at_once(pool: Pool) -> None:
    assert pool.slots == 3
    assert pool.together >= 1


def test_all_tasks_of_a_job_that_died_are_lost_and_the_pool_goes_on(pool: Pool) -> None:
    pool.submit(1, DEADLY, 3)
    found = results(pool, 3)
    assert all(isinstance(found[number], str) for number in (1, DEADLY, 3))
    pool.submit(5)
    assert results(pool, 1) == {5: 25}


def test_an_error_of_ours_reaches_its_task_as_its_own_class(pool: Pool) -> None:
    pool.submit(OURS)
    assert results(pool, 1) == {OURS: "Terminal of ours"}


def test_a_pool_may_be_closed_twice(pool: Pool) -> None:
    pool.submit(2)
    assert results(pool, 1) == {2: 4}
    pool.close()
    pool.close()
