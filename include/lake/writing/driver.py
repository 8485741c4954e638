"""Drives one group: finds its topics, looks up heads, hands what is due to a pool, and hears what became of it.

What it asks for each partition, it asks in parts. A step takes one part, so whoever calls it can tell how far it is in
between, however many partitions there are.

All that it knows is forgotten with it. Two drivers of one group do no harm, they only do some work twice.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from include.clock import Clock
from include.errors import BackPressure, Fenced, LyrebirdError, Terminal, Transient
from include.lake.definition import LakeGroup
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.commit_protocol import Head
from include.lake.protocol.generations import LiveGeneration, note_heads, require_current
from include.lake.protocol.log_checks import check_log
from include.lake.reading.group_log import GroupLog, TopicIdPartition
from include.lake.upload_policy import Asked
from include.lake.writing.group_heads import PART, GroupHeads, OnPart, from_outside
from include.lake.writing.planner import SHRUNK_MS, GroupPlanner, Range, TopicRecreated, jobs_of
from include.lake.writing.task import Outcome, Task
from include.log.running.job_pool import JobPool
from include.store.object_store import ObjectStore

__all__ = ["Driver", "GroupWatcher", "TaskPool"]

LOGGER: Final = logging.getLogger("lyrebird.lake")

_TOPICS_EVERY_S: Final = 5.0
_EDGES_EVERY_S: Final = 0.5
_HIDDEN_EVERY_S: Final = 10.0
_MOST_HIDDEN: Final = 50
_PAUSE_S: Final = 1.0


def _silent() -> None:
    """Nobody listens."""


TaskPool = JobPool[Task, Outcome]
"""Where tasks run. One that was lost with its host has an `Outcome` with a `Transient`."""


class GroupWatcher(Protocol):
    """Hears what a person may have to know."""

    def on_outcome(self, outcome: Outcome) -> None:
        """A task has ended, well or not."""

    def on_lost(self, remade: TopicRecreated) -> None:
        """A topic went before all of it was stored."""

    def on_gone(self, tp: TopicIdPartition, first: int, until: int) -> None:
        """What an older revision had stored of [first, until) is read by nobody since this one has taken over."""

    def on_refused(self, tp: TopicIdPartition, error: LyrebirdError) -> None:
        """The store refuses an object of this partition alone, which waits; the driver goes on asking."""

    def on_away(self, error: LyrebirdError) -> None:
        """Log or store do not answer the driver; it goes on asking."""

    def on_back(self) -> None:
        """They answer again."""


class Driver:
    """One group. `step` it again and again, some ten times a second. Not for use from several threads.

    Args:
        name: the group's.
        group: as it is declared.
        log: tells topics, and where they begin and end.
        store: the bucket of the lake.
        pool: where tasks run.
        clock: for times and pauses.
        watcher: hears what a person may have to know.
        writer: noted in intents: host and process, say.
    """

    def __init__(
        self,
        name: str,
        group: LakeGroup,
        log: GroupLog,
        store: ObjectStore,
        pool: TaskPool,
        clock: Clock,
        watcher: GroupWatcher,
        writer: str,
    ) -> None:
        self._name, self._group, self._writer = name, group, writer
        self._log, self._store, self._pool = log, store, pool
        self._clock, self._watcher = clock, watcher
        self.planner = GroupPlanner(group)
        self._heads_of = GroupHeads(store, log, group)
        self._partitions: dict[str, int] = {}
        self._looked_s = self._asked_s = self._hidden_s = -1e9
        self._turn = 0
        self._noted: dict[TopicKey, str] = {}
        self._told: set[TopicIdPartition] = set()
        # Numbers of the jobs that run, by what they are at.
        self._job_of: dict[TopicIdPartition, int] = {}
        self._jobs = 0
        self._known = False
        self._frozen = False
        # Not zero: the last look was in vain.
        self._away_until_s = 0.0

    def step(self, asked: Asked = "", on_part: OnPart = _silent) -> None:
        """Look around, where it is time, and begin what is due; not more than a part of what there is to ask.

        Raises:
            Fenced: a newer revision of the group has taken a topic over.
        """
        self.settle()
        if self._clock.monotonic_s() >= self._away_until_s:
            try:
                self._look(on_part)
            except LyrebirdError as error:
                if not self._passes(error):
                    raise
                self._away_until_s = self._clock.monotonic_s() + _PAUSE_S
                self._watcher.on_away(error)
            else:
                if self._away_until_s:
                    self._away_until_s = 0.0
                    self._watcher.on_back()
        self._begin(asked)

    def freeze(self, on_part: OnPart = _silent) -> None:
        """Look at everything once more; from then on only what there is now is taken: a run on a schedule ends.

        Raises `Transient` or `BackPressure` when not all could be looked up, `Terminal` when the store refuses.
        """
        self._looked_s = self._asked_s = -1e9
        self._frozen = True
        self._look(on_part, first=True)

    def left(self, asked: Asked = "") -> bool:
        """Whether there is anything still to do, now: after `freeze` no more comes."""
        return self.planner.left(self._now_ms(), asked)

    def settle(self) -> None:
        """Hear of tasks that have ended, and begin none. Raises as `step`."""
        for outcome in self._pool.finished():
            tp, error = outcome.task.range.tp, outcome.error
            self._job_of.pop(tp, None)
            for commit in outcome.commits:
                self.planner.on_commit(tp, commit)
            self._watcher.on_outcome(outcome)
            if isinstance(error, Fenced):
                raise error
            if error is None and outcome.head is not None:
                self.planner.on_done(tp, outcome.head)
            else:
                passes = error is None or self._passes(error)
                self.planner.on_failure(tp, self._now_ms(), str(error), stop=not passes)

    def _passes(self, error: LyrebirdError) -> bool:
        """Whether to try again after a while.

        What another system refuses (credentials, rights, clocks, a bucket that is gone, a new partition that not all
        brokers know of) is mended from outside, and a stream goes on by itself then; a run on a schedule ends, and the
        next one tries.
        """
        return isinstance(error, (Transient, BackPressure)) or (not self._frozen and from_outside(error))

    def _look(self, on_part: OnPart, *, first: bool = False) -> None:
        now_s = self._clock.monotonic_s()
        asks = first or not self._frozen
        if asks and now_s - self._looked_s >= _TOPICS_EVERY_S:
            infos = self._log.topics()
            self._looked_s = now_s
            self._partitions = {info.name: info.partitions for info in infos}
            for remade in self.planner.on_topics(infos):
                self._watcher.on_lost(remade)
            self._check_current()
        for part in self._parts(self.planner.headless(self._now_ms()), on_part, all_of_them=first):
            self._look_up(part, on_part)
        self._known = not self.planner.headless(self._now_ms())
        if asks and now_s - self._asked_s >= _EDGES_EVERY_S:
            self.planner.on_edges(self._log.edges(self.planner.tps), self._now_ms())
            self._asked_s = now_s
            self._stop_shrunk(0 if first else SHRUNK_MS)
        if asks and now_s - self._hidden_s >= _HIDDEN_EVERY_S:
            self._look_at_hidden()
            self._hidden_s = now_s
        for part in self._parts(self.planner.unaged(), on_part, all_of_them=first):
            self._ask_ages(part)

    @staticmethod
    def _parts(tps: list[TopicIdPartition], on_part: OnPart, *, all_of_them: bool) -> Iterator[list[TopicIdPartition]]:
        """The first part of them or, one after another, every part."""
        for at in range(0, len(tps) if all_of_them else min(1, len(tps)), PART):
            if at:
                on_part()
            yield tps[at : at + PART]

    def _look_at_hidden(self) -> None:
        hidden, begun_ms = self._log.hidden(self.planner.tps), dict[TopicIdPartition, int]()
        if self._frozen:
            # A run on a schedule does not last until it has seen one stand: records tell since when they wait.
            for tp in sorted(hidden)[:_MOST_HIDDEN]:
                begun_ms[tp] = self._log.begun_ms(tp, hidden[tp].stable)
        self.planner.on_hidden(hidden, self._now_ms(), {tp: at_ms for tp, at_ms in begun_ms.items() if at_ms >= 0})

    def _check_current(self) -> None:
        """Raise `Fenced` when a newer revision has taken over. A topic at a time: it takes all of them at its start."""
        there = {(tp.topic, tp.topic_id) for tp in self.planner.tps}
        for place in self._heads_of.live.keys() - there:
            del self._heads_of.live[place]
        if self._heads_of.live:
            self._turn += 1
            live = list(self._heads_of.live.values())[self._turn % len(self._heads_of.live)]
            require_current(self._store, live)
            self._note(live)

    def note(self) -> None:
        """Note in each pointer how far it has come; a driver that goes on does so by itself.

        Raises what the store raises.
        """
        for live in self._heads_of.live.values():
            self._note(live)

    def _note(self, live: LiveGeneration) -> None:
        """Once a day, when all heads are known."""
        if not self._known:
            return
        day = dt.datetime.fromtimestamp(self._clock.now_us() // 1_000_000, dt.UTC).date().isoformat()
        if self._noted.get(live.topic) != day:
            note_heads(self._store, live, self._heads(live.topic), day)
            self._noted[live.topic] = day

    def _heads(self, topic: TopicKey) -> dict[int, int]:
        mine = (tp for tp in self.planner.tps if (tp.topic, tp.topic_id) == (topic.topic, topic.topic_id))
        return {tp.partition: self.planner.head(tp) for tp in mine}

    def _look_up(self, tps: Sequence[TopicIdPartition], on_part: OnPart) -> None:
        """Where their chains end. What is damaged there stops this partition, and no other."""
        for tp, head in self._heads_of.look_up(tps, self._partitions, on_part):
            if isinstance(head, Head):
                self._tell_gone(tp)
                self.planner.on_head(tp, head.next, last=head.last)
            elif self._passes(head):
                self.planner.on_refused(tp, self._now_ms(), str(head))
                self._watcher.on_refused(tp, head)
            else:
                self._stop(tp, head)

    def _tell_gone(self, tp: TopicIdPartition) -> None:
        live = self._heads_of.live[tp.topic, tp.topic_id]
        if live.gone(tp.partition) and tp not in self._told:
            self._told.add(tp)
            self._watcher.on_gone(tp, live.start(tp.partition), live.gone(tp.partition))

    def _stop_shrunk(self, least_ms: int) -> None:
        for tp, end in self.planner.shrunk(self._now_ms(), least_ms).items():
            live = self._heads_of.live[tp.topic, tp.topic_id]
            try:
                check_log(live.chain(tp.partition), self.planner.head(tp), end)
            except Terminal as error:
                self._stop(tp, error)

    def _stop(self, tp: TopicIdPartition, error: Terminal) -> None:
        LOGGER.error("%s: %s/%d stands still: %s", self._name, tp.topic, tp.partition, error)
        self.planner.on_failure(tp, self._now_ms(), str(error), stop=True)

    def _ask_ages(self, tps: Sequence[TopicIdPartition]) -> None:
        if tps:
            # What has gone since the last look has no age, until the next one tells: it ages from now on.
            heads = {tp: self.planner.head(tp) for tp in tps}
            for tp, timestamp_ms in self._log.timestamps_ms(heads).items():
                self.planner.on_oldest(tp, timestamp_ms)

    def _begin(self, asked: Asked) -> None:
        room = self._pool.slots - len(set(self._job_of.values()))
        if room <= 0:
            return
        due = self.planner.due(self._now_ms(), room, asked, self._pool.together)
        for job in jobs_of(due, room):
            self._jobs += 1
            self._job_of |= dict.fromkeys((each.tp for each in job), self._jobs)
            self._pool.submit(*map(self._task, job))

    def _task(self, due: Range) -> Task:
        live = self._heads_of.live[due.tp.topic, due.tp.topic_id]
        policy = self._group.policy.of(due.tp.topic)[0]
        return Task(
            self._name,
            self._group.prefix,
            due,
            live.generation,
            live.start(due.tp.partition),
            policy.max_bytes,
            policy.max_folders,
            self._writer,
            live.gone(due.tp.partition),
        )

    def _now_ms(self) -> int:
        return self._clock.now_us() // 1000
