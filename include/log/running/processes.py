"""`JobPool` in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from typing_extensions import override

from include.errors import LyrebirdError
from include.log.running.job_pool import FuturePool, each_of

__all__ = ["ProcessPool", "Processes"]

T = TypeVar("T")
R = TypeVar("R")


class Processes:
    """Worker processes that are kept until `close`; they end with this process, however it ends."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._executor: ProcessPoolExecutor | None = None
        self._alive: Connection | None = None

    def submit(self, call: Callable[..., R], *values: Any) -> Future[R]:
        """Call in one of them; starts them when there are none, or one of them has died."""
        if self._executor is not None:
            try:
                return self._executor.submit(call, *values)
            except BrokenProcessPool:
                self.close()
        # A forked process would share the threads and connections of librdkafka, which it must not.
        context = multiprocessing.get_context("spawn")
        heard, self._alive = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(
            self.count, mp_context=context, initializer=_end_with_parent, initargs=(heard,)
        )
        return self._executor.submit(call, *values)

    def close(self) -> None:
        """End them, also in the midst of a task: what they work on is dropped. May be called twice."""
        if self._alive is not None:
            # A worker that only learnt of it between two tasks would hold up the end of this process meanwhile.
            self._alive.close()
            self._alive = None
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None


class ProcessPool(FuturePool[T, R]):
    """Each task is a job; `close` leaves the processes to the next pool. `work`, tasks and results are pickled."""

    def __init__(self, processes: Processes, work: Callable[[T], R], lost: Callable[[T, BaseException], R]) -> None:
        super().__init__(lost)
        self._processes, self._work = processes, work

    @property
    @override
    def slots(self) -> int:
        return self._processes.count

    @override
    def _begun(self, tasks: Sequence[T]) -> Future[list[R]]:
        return self._processes.submit(each_of, self._work, tasks)

    @override
    def _results(self, future: Future[list[R]], tasks: Sequence[T]) -> Iterator[R]:
        failed = future.exception()
        if failed is not None and not isinstance(failed, (LyrebirdError, BrokenProcessPool)):
            raise failed
        return super()._results(future, tasks)

    @override
    def close(self) -> None:
        for future in self._running:
            future.cancel()
        self._running.clear()


def _end_with_parent(alive: Connection) -> None:
    """End this worker when the other end of `alive` is closed, or its process is gone."""
    parent = multiprocessing.parent_process()
    watched: list[Connection | int] = [alive, *([parent.sentinel] if parent is not None else [])]

    def wait_for_end() -> None:
        wait(watched)
        os._exit(1)

    threading.Thread(target=wait_for_end, name="end", daemon=True).start()
