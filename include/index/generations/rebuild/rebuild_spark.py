"""A rebuild on Spark: each range is a job of one task, so that an executor that is lost costs its ranges alone."""

from __future__ import annotations

import functools
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from pyspark.sql import SparkSession
from typing_extensions import override

from include.errors import LyrebirdError, Transient
from include.index.deployed import DeployedIndex
from include.index.generations.rebuild.deployed import carry_out
from include.index.generations.rebuild.fill import Answer, RangePool
from include.index.generations.rebuild.plan import RebuildPlan
from include.index.generations.rebuild.run import Rebuilt, Teller
from include.index.outcome import TaskOutcome
from include.index.worker import WorkerPlan, work_off
from include.log.planning.slices import Slice
from include.log.running import batches_spark as stream

__all__ = ["SparkRangePool", "rebuild_by_spark"]

_MOST: Final = 64


class SparkRangePool(RangePool):
    """`RangePool` of Spark jobs."""

    def __init__(self, spark: SparkSession, plan: WorkerPlan) -> None:
        self._spark = spark
        self._plan = plan
        self.slots = min(_MOST, spark.sparkContext.defaultParallelism)
        # A thread only waits for its job.
        self._threads = ThreadPoolExecutor(_MOST, thread_name_prefix="rebuild")
        self._running: dict[Future[TaskOutcome], int] = {}

    @override
    def submit(self, number: int, part: Slice) -> None:
        self._running[self._threads.submit(self._run, part)] = number

    def _run(self, part: Slice) -> TaskOutcome:
        (found,) = stream.work_off(self._spark, functools.partial(work_off, self._plan), [[part]])
        return found

    @override
    def finished(self) -> list[tuple[int, Answer]]:
        done = [future for future in self._running if future.done()]
        return [(self._running.pop(future), _answer(future)) for future in done]

    @override
    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def rebuild_by_spark(on: DeployedIndex, plan: RebuildPlan, tell: Teller, *, within_s: float) -> Rebuilt:
    """Carry out `plan`, its ranges on as many cores as Spark has; raises as `run.rebuild`."""
    spark = stream.session("rebuild_index")
    try:
        return carry_out(on, plan, lambda work_plan: SparkRangePool(spark, work_plan), tell, within_s=within_s)
    finally:
        spark.stop()


def _answer(future: Future[TaskOutcome]) -> Answer:
    failed = future.exception()
    if failed is None:
        return future.result()
    if isinstance(failed, LyrebirdError):
        return failed
    # Its host went, or Spark did: what it wrote is in the index, and comes back as stale.
    return Transient("a task was lost", system="spark", reason=str(failed).strip().splitlines()[0][:300])
