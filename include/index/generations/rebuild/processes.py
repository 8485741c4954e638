"""`RangePool` in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection, wait

from typing_extensions import override

from include.errors import LyrebirdError, Transient
from include.index.generations.rebuild.fill import Answer, RangePool
from include.index.outcome import TaskOutcome
from include.index.worker import WorkerPlan, work_off
from include.log.planning.slices import Slice

__all__ = ["ProcessPool", "Processes"]


class Processes:
    """Worker processes that live as long as the rebuild; they end with it and with this process, however it ends."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._executor: ProcessPoolExecutor | None = None
        self._alive: Connection | None = None

    def submit(self, plan: WorkerPlan, part: Slice) -> Future[TaskOutcome]:
        """Work off `part` in one of them; starts them when there are none, or one of them has died."""
        if self._executor is not None:
            try:
                return self._executor.submit(work_off, plan, [part])
            except BrokenProcessPool:
                self.close()
        # A forked process would share the threads and connections of librdkafka, which it must not.
        context = multiprocessing.get_context("spawn")
        heard, self._alive = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(
            self.count, mp_context=context, initializer=_end_with_rebuild, initargs=(heard,)
        )
        return self._executor.submit(work_off, plan, [part])

    def close(self) -> None:
        """End them, also in the midst of a range: what they work on is dropped. May be called twice."""
        if self._alive is not None:
            # A worker that only learnt of it between two ranges would hold up the end of this process meanwhile.
            self._alive.close()
            self._alive = None
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None


class ProcessPool(RangePool):
    """`RangePool` with one plan; `close` leaves the processes to the next plan."""

    def __init__(self, processes: Processes, plan: WorkerPlan) -> None:
        self.slots = processes.count
        self._processes = processes
        self._plan = plan
        self._running: dict[Future[TaskOutcome], int] = {}

    @override
    def submit(self, number: int, part: Slice) -> None:
        self._running[self._processes.submit(self._plan, part)] = number

    @override
    def finished(self) -> list[tuple[int, Answer]]:
        done = [future for future in self._running if future.done()]
        return [(self._running.pop(future), _answer(future)) for future in done]

    @override
    def close(self) -> None:
        for future in self._running:
            future.cancel()
        self._running.clear()


def _answer(future: Future[TaskOutcome]) -> Answer:
    failed = future.exception()
    if failed is None:
        return future.result()
    if isinstance(failed, LyrebirdError):
        return failed
    if isinstance(failed, BrokenProcessPool):
        return Transient("a worker process was lost", system="workers", reason=str(failed))
    raise failed


def _end_with_rebuild(alive: Connection) -> None:
    """End this worker when the other end of `alive` is closed, or its process is gone."""
    parent = multiprocessing.parent_process()
    watched: list[Connection | int] = [alive, *([parent.sentinel] if parent is not None else [])]

    def wait_for_end() -> None:
        wait(watched)
        os._exit(1)

    threading.Thread(target=wait_for_end, name="rebuild", daemon=True).start()
