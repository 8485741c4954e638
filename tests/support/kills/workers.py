"""A pool whose tasks run in processes of their own, forked before anything has threads.

A worker that was killed or stopped is given up at once, with what it was at, as Spark gives up an executor; the task
is planned again and goes to another one. One that goes on after a stop finishes what it was at, and nobody listens.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from include.errors import Transient
from include.lake.writing.task import Outcome, Task, TaskContext, run_task
from include.lake.writing.worker import TaskPlace, work
from tests.support.kills.fault_switch import Strike, StruckLog, Switch

__all__ = ["WorkerPool", "struck_task"]

_SWITCHES: dict[Strike, Switch] = {}


def struck_task(strike: Strike | None, task: Task, context: TaskContext) -> Outcome:
    """`run_task` in a process that a strike may meet."""
    if strike is None:
        return run_task(task, context)
    switch = _SWITCHES.setdefault(strike, Switch(strike))
    switch.watch(context.store)  # type: ignore[arg-type]
    return run_task(task, replace(context, log=StruckLog(context.log, switch)))


class WorkerPool:
    """`TaskPool` of as many processes; a task goes to the free one with the least number."""

    def __init__(self, place: TaskPlace, strikes: Mapping[int, Strike], count: int) -> None:
        pipes = [Pipe() for _ in range(count)]
        self._ours = [ours for ours, _ in pipes]
        self.pids = [self._forked(each, [theirs for _, theirs in pipes], place, strikes) for each in range(count)]
        for _, theirs in pipes:
            theirs.close()
        self._lost: set[int] = set()
        self._running: dict[int, Task] = {}

    def _forked(self, number: int, theirs: list[Connection], place: TaskPlace, strikes: Mapping[int, Strike]) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            # Whoever holds the other end of a pipe keeps it open.
            for each in [*self._ours, *(end for end in theirs if end is not theirs[number])]:
                each.close()
            _serve(theirs[number], place, strikes.get(number))
        finally:
            os._exit(0)

    together = 1

    @property
    def slots(self) -> int:
        return len(self.pids) - len(self._lost)

    def submit(self, *tasks: Task) -> None:
        (task,) = tasks
        number = next(each for each in range(len(self.pids)) if each not in self._lost and each not in self._running)
        self._running[number] = task
        try:
            self._ours[number].send(task)
        except OSError:
            self._lost.add(number)

    def finished(self) -> list[Outcome]:
        return [found for number in list(self._running) if (found := self._outcome(number)) is not None]

    def _outcome(self, number: int) -> Outcome | None:
        pid, _ = os.waitpid(self.pids[number], os.WNOHANG | os.WUNTRACED) if number not in self._lost else (1, 0)
        if pid:
            self._lost.add(number)
            tp = self._running[number].range.tp
            lost = Transient("a task was lost", system="worker", topic=tp.topic, partition=tp.partition)
            return Outcome(self._running.pop(number), None, (), lost)
        if not self._ours[number].poll():
            return None
        try:
            found: Outcome = self._ours[number].recv()
        except (EOFError, OSError):
            return None
        del self._running[number]
        return found


def _serve(theirs: Connection, place: TaskPlace, strike: Strike | None) -> None:
    run = partial(struck_task, strike)
    while True:
        try:
            task: Task = theirs.recv()
            theirs.send(work(place, task, run))
        except (EOFError, OSError):
            return
