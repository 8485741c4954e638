"""`JobPool` on Spark: each job is one of Spark's, of one task, so an executor that goes costs only what it was at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from pyspark.sql import SparkSession
from typing_extensions import override

from include.log.running.batches_spark import own_errors
from include.log.running.job_pool import FuturePool
from include.log.running.worker_memory import to_the_end

__all__ = ["SparkJobPool"]

T = TypeVar("T")
R = TypeVar("R")
# A thread only waits for its job: as many as an application could ever have at once.
_MOST: Final = 64


class SparkJobPool(FuturePool[T, R]):
    """Several may share a session and its room. `work`, tasks and results are pickled."""

    def __init__(
        self,
        spark: SparkSession,
        work: Callable[[T], R],
        lost: Callable[[T, BaseException], R],
        *,
        together: int = 1,
        spare: int = 0,
    ) -> None:
        """`spare`: jobs beyond Spark's cores, so that none is idle while the next one is planned."""
        super().__init__(lost)
        self.together = together
        self._context, self._work, self._spare = spark.sparkContext, work, spare
        self._threads = ThreadPoolExecutor(_MOST, thread_name_prefix="jobs")

    @property
    @override
    def slots(self) -> int:
        return min(_MOST, self._context.defaultParallelism + self._spare)

    @override
    def _begun(self, tasks: Sequence[T]) -> Future[list[R]]:
        return self._threads.submit(self._run, tasks)

    def _run(self, tasks: Sequence[T]) -> list[R]:
        with own_errors():
            work = partial(to_the_end, partial(map, self._work))
            found: list[R] = self._context.parallelize(tasks, 1).mapPartitions(work).collect()
            return found

    @override
    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
