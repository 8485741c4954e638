"""Stores one range, wherever it runs: carries its chain on, and reports the outcome.

A task may run twice at once, on hosts that know nothing of each other, or be killed anywhere: the chain decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from include.clock import Clock
from include.errors import BackPressure, LyrebirdError, Transient
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.commit_protocol import PlannedEnd
from include.lake.protocol.cut import Commit
from include.lake.protocol.runner import Pause
from include.lake.reading.kept_schemas import KeepingReader, SchemaKeeper, SeenIds
from include.lake.reading.log_ranges import LogRanges
from include.lake.writing.log_cuts import CutLogics, LogCuts
from include.lake.writing.planner import Range
from include.pace import doubled_s
from include.store.object_store import ObjectStore

__all__ = ["Outcome", "RunTask", "Task", "TaskContext", "patience", "run_task"]

_PAUSE_S: Final = 0.2
_MOST_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Task:
    """A range that is due, in a generation whose chain of the partition begins at `start`.

    `writer` is noted in intents; nothing depends on it. `stored`: up to where an older generation had stored the
    partition, where its commits are gone.
    """

    group: str
    prefix: str
    range: Range
    generation: int
    start: int
    max_bytes: int
    max_folders: int
    writer: str
    stored: int = 0

    @property
    def chain(self) -> ChainKey:
        """The chain that it carries on."""
        tp = self.range.tp
        return ChainKey(TopicKey(self.prefix, tp.topic, tp.topic_id), self.generation, tp.partition)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a task: the chain's head, cuts that became whole, and the error that ended it, if one did.

    `unknown_ids`: how many schema ids the registry was asked for and does not know.
    """

    task: Task
    head: int | None
    commits: tuple[Commit, ...] = ()
    error: LyrebirdError | None = None
    unknown_ids: int = 0


@dataclass(frozen=True)
class TaskContext:
    """What a task works with, in the process that it runs in. `folder` is for local files; `logics` by topic.

    `schemas` keeps those of what is read beside it; None: of a group that is no backup, or without a registry.
    """

    store: ObjectStore
    log: LogRanges
    logics: CutLogics
    folder: Path
    clock: Clock
    schemas: SchemaKeeper | None = None


RunTask = Callable[[Task, TaskContext], Outcome]
"""What carries a task out: an error of ours is told, not raised. Travels to other hosts by its name."""


def run_task(task: Task, context: TaskContext) -> Outcome:
    """Carry the chain to the end of the task's range; an error of ours is told, not raised."""
    commits: list[Commit] = []
    tp, chain = task.range.tp, task.chain
    # Of all tasks of this host that may run at once no two share a folder.
    place = hashlib.sha256(f"{chain}\n{task.writer}".encode()).hexdigest()[:16]
    plan = PlannedEnd(task.range.until, task.range.reason, task.range.policy, task.writer, stored=task.stored)
    seen = SeenIds(context.log) if context.schemas else None
    cuts = LogCuts(seen or context.log, chain, context.logics, context.folder / place, task.max_bytes, task.max_folders)
    keeping = KeepingReader(cuts, seen, context.schemas, tp.topic) if seen and context.schemas else None
    try:
        known = Chain(context.store, chain, start=task.start, last=task.range.last, pause=patience(context.clock))
        head = known.advance(plan, keeping or cuts, commits.append)
    except LyrebirdError as error:
        unknown_ids = keeping.vain if keeping else 0
        return Outcome(task, None, tuple(commits), _placed(error, tp.topic, tp.partition), unknown_ids)
    finally:
        cuts.clear()
    return Outcome(task, head.next, tuple(commits), unknown_ids=keeping.vain if keeping else 0)


def patience(clock: Clock) -> Pause:
    """A `Pause` of some seconds in all: after that the driver waits, and its other partitions with it."""

    def pause(attempt: int, error: Transient | BackPressure) -> None:
        if attempt >= _MOST_TRIES:
            raise error
        clock.sleep(doubled_s(attempt, _PAUSE_S))

    return pause


def _placed(error: LyrebirdError, topic: str, partition: int) -> LyrebirdError:
    """The same, naming the partition that it befell."""
    details = {**error.details, "topic": topic, "partition": partition}
    return type(error)(error.message, fix=error.fix, **details)
