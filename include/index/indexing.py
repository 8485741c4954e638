"""Indexes each batch into every generation that the running application feeds. Knows no Spark.

1. the generations to feed are read; one that is new starts beside the others, one that is not fed any more is let go,
2. each live generation: topics that have grown and floors are noted, tasks index the records, a long batch's in parts,
   `batch` settles them; one that fails because it was dropped or lost meanwhile is let go likewise,
3. meanwhile and in pauses, generations that are behind get ranges of their own (`target`).

A crash anywhere: each generation goes on from its own progress documents.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from include.clock import Clock
from include.errors import BackPressure, LyrebirdError, Restart, Terminal, Transient
from include.index.batch_split import PartSize, parts_of
from include.index.generations.target import ActiveGeneration, ActiveGenerations, ranges_behind
from include.index.incidents import IndexIncidents
from include.index.outcome import TaskOutcome
from include.index.progress.steps import start_of
from include.index.server.port import IndexInfo
from include.index.server_wait import ServerRetry
from include.index.worker import WorkerPlan
from include.log.planning.plan import BatchPlan
from include.log.planning.slices import Slice
from include.metrics.exporter import Metrics

__all__ = ["Indexing", "Tasks"]

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.5
_TROUBLE_S: Final = 10.0
_RANGE: Final = 5000
_NO_EPOCHS: Final[Mapping[tuple[str, int], int]] = {}

Tasks = Callable[[WorkerPlan, Sequence[Slice]], TaskOutcome]
"""Has the records of slices indexed as the plan says; gives what became of them."""


class Indexing:
    """One process at a time; a second one is fenced.

    Args:
        plan: what workers need; index, feeds and offsets in it are set anew for each generation.
        tasks: has records indexed.
        live: generations that stand where the stream starts, or ahead of it.
        behind: generations that have to be brought there.
        fed: reads which generations are to be fed now.
        opened: opens one that is new.
        begins: gives the first offset that the log holds of each partition of a topic.
        patience: waits for a server that is away.
        metrics: of the application.
        clock: measures how long parts take.
        incidents: of the application.
        on_part: hears of each part of a long batch that is indexed: the index, how many offsets are done, and of how
            many.
        size: of the parts; None: as `PartSize` has it.
    """

    def __init__(
        self,
        *,
        plan: WorkerPlan,
        tasks: Tasks,
        live: Sequence[ActiveGeneration],
        behind: Sequence[ActiveGeneration],
        fed: Callable[[], ActiveGenerations],
        opened: Callable[[IndexInfo], ActiveGeneration],
        begins: Callable[[str], Mapping[int, int]],
        patience: ServerRetry,
        metrics: Metrics,
        clock: Clock,
        incidents: IndexIncidents,
        on_part: Callable[[str, int, int], None],
        size: PartSize | None = None,
    ) -> None:
        self.live = list(live)
        self.behind = list(behind)
        self._plan = plan
        self._tasks = tasks
        self._fed = fed
        self._opened = opened
        self._begins = begins
        self._patience = patience
        self._metrics = metrics
        self._clock = clock
        self._incidents = incidents
        self._on_part = on_part
        self._size = size or PartSize()
        self._turn = threading.Lock()

    def on_batch(self, batch: BatchPlan) -> Mapping[str, Any]:
        """Index a batch whole, waiting for a server that is away; may be called again with the same batch.

        Raises what `Settlement.settle` and the tasks' faults are, and `Restart` when no generation that is fed any
        more stands where the stream is.
        """
        with self._turn:
            self._patience.call(self._follow)
            told: Mapping[str, Any] = {}
            for target in list(self.live):
                try:
                    outcome = self._index(target, batch)
                    settle = functools.partial(target.settlement.settle, outcome, batch.ends, batch.topic_ids)
                    self._patience.call(settle)
                except Terminal:
                    self._patience.call(self._follow)
                    if target in self.live:
                        raise
                    logger.warning("index %s is not fed any more", target.name)
                    continue
                told = told or self._tell(target, outcome)
            self._incidents.goes_on()
            incidents = self._incidents.open()
            return {**told, "behind": [each.name for each in self.behind], "incidents": incidents}

    def catch_up(self) -> bool:
        """One step of each generation that is behind; whether one goes on still.

        One that cannot go on is an incident, and is tried again; it holds up none of the others.
        """
        with self._turn:
            stuck: dict[str, LyrebirdError] = {}
            waits = False
            for target in list(self.behind):
                try:
                    self._step(target)
                except (Transient, BackPressure) as error:
                    waits = True
                    logger.warning("index %s waits: %s", target.name, error)
                except Terminal as error:
                    with contextlib.suppress(LyrebirdError):
                        self._follow()
                    if target in self.behind:
                        stuck[target.name] = error
                        logger.warning("index %s cannot go on: %s", target.name, error)
            self._incidents.stuck(stuck)
            return len(self.behind) > len(stuck) and not waits

    def _step(self, target: ActiveGeneration) -> None:
        live = self.live[0]
        names = sorted(start_of(target.settlement.progress))
        begins = {(topic, p): offset for topic in names for p, offset in self._begins(topic).items()}
        ranges = ranges_behind(target, live.starts, begins, names, _RANGE)
        if not ranges:
            self.behind.remove(target)
            self.live.append(target)
            logger.warning("index %s stands where the live ones are", target.name)
            return
        outcome = self._work(target, ranges)
        ends = {(each.topic, each.partition): each.end for each in ranges}
        target.settlement.settle(outcome, ends, _topic_ids(live))

    def freshen(self) -> None:
        """Make visible to searches what the last batches left, of each generation that can be."""
        for target in [*self.live, *self.behind]:
            try:
                target.settlement.freshen()
            except LyrebirdError as error:
                # The next batch meets the same trouble, and is the one to wait for it, to let go, or to end.
                logger.warning("between batches: %s", error)

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """Between batches, as long as the context lasts: `freshen`, and `catch_up`.

        It outlives what it meets, an executor that is lost for one: without it nothing would be refreshed any more.
        """
        done = threading.Event()

        def work() -> None:
            pause_s = 0.0 if self.behind else _PAUSE_S
            while not done.wait(pause_s):
                try:
                    pause_s = 0.0 if self.behind and self.catch_up() else _PAUSE_S
                    self.freshen()
                except Exception:
                    logger.exception("between batches")
                    pause_s = _TROUBLE_S

        thread = threading.Thread(target=work, name="beside", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _follow(self) -> None:
        """Begin to feed what is new in the note, let go what is not in it any more."""
        fed = self._fed()
        known = {f"{t.name}/{t.settlement.info.uuid}" for t in (*self.live, *self.behind)}
        if fed.names == known:
            return
        self.behind = [t for t in self.behind if f"{t.name}/{t.settlement.info.uuid}" in fed.names]
        live = [t for t in self.live if f"{t.name}/{t.settlement.info.uuid}" in fed.names]
        if not live:
            raise Restart(
                "no generation that is fed stands where this application reads",
                fed=sorted(info.name for info in fed.infos),
                fix="Its guardian starts it again; without one, start it.",
            )
        self.live = live
        self.behind += [self._opened(info) for info in fed.infos if f"{info.name}/{info.uuid}" not in known]

    def _index(self, target: ActiveGeneration, batch: BatchPlan) -> TaskOutcome:
        """All records of a batch, in parts where it is long: what waits is done again for one part only."""
        out = TaskOutcome()
        total, done = sum(end - batch.start.get(at, 0) for at, end in batch.ends.items()), 0
        for part in parts_of(batch, self._size):
            offsets = sum(each.size for each in part)
            began_s = self._clock.monotonic_s()
            out.add(self._patience.call(functools.partial(self._work, target, part, out.epochs)))
            self._incidents.goes_on()
            self._size.took(offsets, self._clock.monotonic_s() - began_s)
            done += offsets
            if offsets < total:
                self._on_part(target.name, done, total)
        return out

    def _work(
        self, target: ActiveGeneration, slices: Sequence[Slice], met: Mapping[tuple[str, int], int] = _NO_EPOCHS
    ) -> TaskOutcome:
        target.look()
        progress = target.settlement.progress
        plan = replace(
            self._plan,
            index=target.name,
            feeds=tuple(target.feed(of) for of in progress.values()),
            epochs={(topic, p): epoch for topic, of in progress.items() for p, epoch in of.epochs.items()} | dict(met),
            starts=target.starts,
            evolves=self._plan.evolves.on(target.settlement.info) if self._plan.evolves else None,
        )
        outcome = self._tasks(plan, slices)
        if outcome.fault is not None:
            if target.look():
                # Its records told of it before the brokers did.
                raise Transient("topic has changed", system="kafka", reason=str(outcome.fault))
            raise outcome.fault
        if outcome.waiting:
            self._metrics.count("lyrebird_retries_total", outcome.retries, "bulk")
            raise Transient("documents wait for the index", system="elasticsearch", reason=outcome.reason)
        return outcome

    def _tell(self, target: ActiveGeneration, outcome: TaskOutcome) -> Mapping[str, Any]:
        counts = outcome.totals()
        self._metrics.count("lyrebird_documents_total", counts["indexed"], "indexed")
        self._metrics.count("lyrebird_documents_total", counts["deleted"], "deleted")
        self._metrics.count("lyrebird_superseded_total", counts["stale"], "stale")
        self._metrics.count("lyrebird_superseded_total", counts["folded"], "folded")
        self._metrics.count("lyrebird_retries_total", counts["retries"], "bulk")
        for topic, progress in target.settlement.progress.items():
            dead = sum(of["dead"] for of in outcome.of_topic(topic).values())
            self._metrics.count("lyrebird_set_aside_total", dead, topic)
            if progress.complete is not None:
                commit_us = progress.complete.commit_us
                self._metrics.set("lyrebird_position_commit_seconds", commit_us / 1e6, topic)
                age_s = max(0.0, (self._clock.now_us() - commit_us) / 1e6)
                self._metrics.set("lyrebird_lag_seconds", age_s, topic)
        return counts


def _topic_ids(live: ActiveGeneration) -> dict[str, str]:
    return {topic: found for of in live.settlement.progress.values() for topic, found in of.topic_ids.items()}
