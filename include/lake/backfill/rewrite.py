"""Makes planned cuts again, each as the live group would: by the same reader, logic and chain, in its own generation.

Ranges are tasks for any pool. A cut that is whole is passed over, so a task may be run again, elsewhere, or twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override

from include.clock import Clock
from include.errors import BackPressure, LyrebirdError, Terminal, Transient
from include.lake.backfill.plan import BackfillPlan, PlannedCut
from include.lake.backfill.raw_ranges import RawRanges
from include.lake.backfill.secor_ranges import SecorRanges
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.commit_protocol import PlannedEnd
from include.lake.protocol.commit_rules import joined_gaps
from include.lake.protocol.cut import Commit
from include.lake.protocol.runner import CutReader, OnCommit
from include.lake.protocol.steps import LocalCut, ReadRange
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.driver import TaskPool
from include.lake.writing.log_cuts import LogCuts
from include.lake.writing.planner import Range
from include.lake.writing.task import Outcome, Task, TaskContext, patience

__all__ = ["RANGE_BYTES", "Rewrite", "carry_out", "rewrite", "tasks_of"]

RANGE_BYTES: Final = 256 << 20
"""About how many bytes of the objects that are replaced one task makes again."""

_STEP_S: Final = 0.05
_PAUSE_S: Final = 5.0
_MOST_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Rewrite(Task):
    """Cuts that follow on each other. `raw` is the folder of the backup or (`secor`) the archive, None for Kafka."""

    cuts: tuple[tuple[int, int], ...] = ()
    raw: str | None = None
    secor: bool = False


def tasks_of(
    plan: BackfillPlan, generations: Mapping[int, int], writer: str, most_bytes: int = RANGE_BYTES
) -> list[Rewrite]:
    """The plan in tasks. `generations`: the one that stands in for each live generation."""
    tasks: list[Rewrite] = []
    run: list[PlannedCut] = []
    for cut in [*plan.cuts, None]:
        if run and (cut is None or not _goes_on(run, cut, most_bytes)):
            tasks.append(_task(plan, run, generations[run[0].replaces], writer))
            run = []
        if cut is not None:
            run.append(cut)
    return tasks


def _goes_on(run: list[PlannedCut], cut: PlannedCut, most_bytes: int) -> bool:
    last = run[-1]
    neighbour = (cut.partition, cut.first, cut.replaces) == (last.partition, last.next, last.replaces)
    return neighbour and sum(each.bytes for each in run) + cut.bytes <= most_bytes


def _task(plan: BackfillPlan, run: list[PlannedCut], generation: int, writer: str) -> Rewrite:
    topic = plan.topic
    tp = TopicIdPartition(topic.topic, topic.topic_id, run[0].partition)
    return Rewrite(
        group=plan.asked.group,
        prefix=topic.prefix,
        range=Range(tp, run[0].first, run[-1].next, "backfill", f"as generation {run[0].replaces}"),
        generation=generation,
        start=run[0].first,
        # The cuts have their ends already.
        max_bytes=1 << 62,
        max_folders=1 << 62,
        writer=writer,
        cuts=tuple((cut.first, cut.next) for cut in run),
        raw=plan.raw.prefix if plan.raw else None,
        secor=plan.asked.origin == "secor",
    )


def rewrite(task: Task, context: TaskContext) -> Outcome:
    """Carry out a `Rewrite`; an error of ours is told, not raised."""
    commits: list[Commit] = []
    try:
        if not isinstance(task, Rewrite):
            raise Terminal("no task of a backfill", topic=task.range.tp.topic)
        _make_cuts(task, context, commits.append)
    except LyrebirdError as error:
        tp = task.range.tp
        details = {**error.details, "topic": tp.topic, "partition": tp.partition}
        return Outcome(task, None, tuple(commits), type(error)(error.message, fix=error.fix, **details))
    return Outcome(task, task.range.until, tuple(commits))


def _make_cuts(task: Rewrite, context: TaskContext, on_commit: OnCommit) -> None:
    tp, pause = task.range.tp, patience(context.clock)
    target = Chain(context.store, task.chain, pause=pause)
    reader: LogCuts | None = None
    source: RawRanges | SecorRanges | None = None
    for first, until in task.cuts:
        commit = target.commit(first)
        if commit is None:
            if reader is None:
                # Not before it is needed: a run that goes on has little left to read.
                if task.raw is not None:
                    raw = TopicKey(task.raw, tp.topic, tp.topic_id)
                    if task.secor:
                        source = SecorRanges(context.store, raw, tp.partition, task.range.until, pause)
                    else:
                        source = RawRanges(context.store, raw, tp.partition, first, task.range.until, pause)
                log, folder = source or context.log, context.folder / "cut"
                reader = LogCuts(log, task.chain, context.logics, folder, task.max_bytes, task.max_folders)
            plan = PlannedEnd(until, "backfill", task.range.policy, task.writer, exact=True)
            try:
                commit = target.write_cut(first, plan, _Replay(reader, source) if source else reader)
            finally:
                reader.clear()
        if commit.next != until:
            raise Terminal(
                "a cut of this backfill ends elsewhere than it was planned",
                key=task.chain.commit(first),
                next=commit.next,
                planned=until,
                fix="Plan it again under another name: --run.",
            )
        on_commit(commit)


@dataclass(frozen=True)
class _Replay(CutReader):
    """`CutReader` over a raw copy or an archive, which knows what Kafka had lost, or it does not reach."""

    cuts: LogCuts
    source: RawRanges | SecorRanges

    @override
    def read(self, wanted: ReadRange) -> LocalCut:
        cut = self.cuts.read(wanted)
        return cut._replace(gaps=joined_gaps(wanted.first, self.source.gaps(wanted.first, cut.end)))


@dataclass
class _Progress:
    """Tasks that wait, and those that failed and wait for their time."""

    waiting: deque[Rewrite]
    later: list[tuple[float, Rewrite]] = field(default_factory=list)
    tries: dict[Rewrite, int] = field(default_factory=dict)
    running: int = 0
    failed: LyrebirdError | None = None

    def ready(self, now_s: float) -> Rewrite | None:
        for number, (at_s, task) in enumerate(self.later):
            if at_s <= now_s:
                del self.later[number]
                return task
        return self.waiting.popleft() if self.waiting else None

    def on_failure(self, task: Rewrite, error: LyrebirdError, now_s: float) -> None:
        self.tries[task] = self.tries.get(task, 0) + 1
        if isinstance(error, (Transient, BackPressure)) and self.tries[task] < _MOST_TRIES:
            self.later.append((now_s + _PAUSE_S * self.tries[task], task))
        else:
            self.failed = self.failed or error


def carry_out(tasks: Iterable[Rewrite], pool: TaskPool, clock: Clock, on_outcome: Callable[[Outcome], None]) -> None:
    """Run all tasks, as many at once as the pool has room for; those that fail for a while are tried again.

    Raises the first error that is no such, or comes too often, when those that run have ended. What is whole stays so.
    """
    progress = _Progress(deque(tasks))
    while progress.running or (progress.failed is None and (progress.waiting or progress.later)):
        while progress.failed is None and progress.running < max(1, pool.slots):
            task = progress.ready(clock.monotonic_s())
            if task is None:
                break
            pool.submit(task)
            progress.running += 1
        for outcome in pool.finished():
            progress.running -= 1
            on_outcome(outcome)
            if outcome.error is not None and isinstance(outcome.task, Rewrite):
                progress.on_failure(outcome.task, outcome.error, clock.monotonic_s())
        clock.sleep(_STEP_S)
    if progress.failed is not None:
        raise progress.failed
