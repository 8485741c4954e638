"""Definition of the port that runs tasks: in Spark (`job_pool_spark`), or in processes here (`processes`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from typing_extensions import override

__all__ = ["FuturePool", "JobPool", "OwnedJobPool", "each_of"]

T = TypeVar("T")
R = TypeVar("R")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class JobPool(Protocol[T_contra, R_co]):
    """Runs jobs of one task or of several, many jobs at once. For one thread."""

    @property
    def slots(self) -> int:
        """The number of jobs that may run at once, now: executors come and go."""

    @property
    def together(self) -> int:
        """The number of tasks with little to do that one job may have."""

    def submit(self, *tasks: T_contra) -> None:
        """Begin a job of these, one after the other; does not wait for it."""

    def finished(self) -> Sequence[R_co]:
        """The results of tasks that ended since the last call, each once, also those that were lost with their host."""


class OwnedJobPool(JobPool[T_contra, R_co], Protocol[T_contra, R_co]):
    """A pool in the hands of whoever made it."""

    def close(self) -> None:
        """Begin no more jobs, and wait for none. May be called twice."""


class FuturePool(OwnedJobPool[T, R]):
    """A pool over futures. `lost` says what a task gives whose job ended with an error."""

    together = 1

    def __init__(self, lost: Callable[[T, BaseException], R]) -> None:
        self._lost = lost
        self._running: dict[Future[list[R]], tuple[T, ...]] = {}

    @abstractmethod
    def _begun(self, tasks: Sequence[T]) -> Future[list[R]]:
        """A job of these, on its way."""

    @override
    def submit(self, *tasks: T) -> None:
        self._running[self._begun(tasks)] = tasks

    @override
    def finished(self) -> list[R]:
        done = [future for future in self._running if future.done()]
        return [result for future in done for result in self._results(future, self._running.pop(future))]

    def _results(self, future: Future[list[R]], tasks: Sequence[T]) -> Iterator[R]:
        failed = future.exception()
        yield from future.result() if failed is None else (self._lost(task, failed) for task in tasks)


def each_of(work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    """A job as it runs elsewhere: its tasks one after the other."""
    return [work(task) for task in tasks]
