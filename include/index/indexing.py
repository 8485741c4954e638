"""What the running application does with each batch, for every generation that it feeds. Knows no Spark.

1. the generations to feed are read; one that is new starts beside the others, one that is not fed any more is let go,
2. each live generation: topics that have grown and floors are noted, tasks index the records, `batch` settles them,
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
from include.errors import LyrebirdError, Restart, Transient
from include.index.advance import start_of
from include.index.outcome import TaskOutcome
from include.index.patience import Patience
from include.index.port import IndexInfo
from include.index.target import Fed, Target, ranges_behind
from include.index.worker import WorkerPlan
from include.log.plan import BatchPlan
from include.metrics.exporter import Metrics

__all__ = ["Indexing", "Tasks"]

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.5
_RANGE: Final = 5000

Tasks = Callable[[WorkerPlan, Any], TaskOutcome]
"""Has the records of a batch's rows, or of a list of `Slice`, indexed as the plan says; gives what became of them."""


class Indexing:
    """One process at a time; a second one is fenced. `live` stand where the stream starts, or ahead of it."""

    def __init__(
        self,
        *,
        plan: WorkerPlan,
        tasks: Tasks,
        live: Sequence[Target],
        behind: Sequence[Target],
        fed: Callable[[], Fed],
        opened: Callable[[IndexInfo], Target],
        begins: Callable[[str], Mapping[int, int]],
        patience: Patience,
        metrics: Metrics,
        clock: Clock,
        on_missing: Callable[[tuple[str, ...]], None],
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
        self._on_missing = on_missing
        self._missing: tuple[str, ...] = ()
        self._turn = threading.Lock()

    def on_batch(self, rows: Any, batch: BatchPlan) -> Mapping[str, Any]:
        """Index a batch whole, waiting for a server that is away; may be called again with the same batch.

        Raises what `Settlement.settle` and the tasks' faults are, and `Restart` when no generation that is fed any
        more stands where the stream is.
        """
        with self._turn:
            self._patience.call(self._follow)
            told: Mapping[str, Any] = {}
            for target in self.live:
                outcome = self._patience.call(functools.partial(self._work, target, rows))
                settle = functools.partial(target.settlement.settle, outcome, batch.ends, batch.topic_ids)
                self._patience.call(settle)
                if target is self.live[0]:
                    told = self._tell(target, outcome)
            return {**told, **({"behind": [each.name for each in self.behind]} if self.behind else {})}

    def catch_up(self) -> bool:
        """One step of each generation that is behind; whether one is behind still. Raises as `on_batch`."""
        with self._turn:
            for target in list(self.behind):
                live = self.live[0]
                names = sorted(start_of(target.settlement.progress))
                begins = {(topic, p): offset for topic in names for p, offset in self._begins(topic).items()}
                ranges = ranges_behind(target, live.starts, begins, names, _RANGE)
                if not ranges:
                    self.behind.remove(target)
                    self.live.append(target)
                    logger.warning("index %s stands where the live ones are", target.name)
                    continue
                outcome = self._work(target, ranges)
                ends = {(each.topic, each.partition): each.end for each in ranges}
                target.settlement.settle(outcome, ends, _topic_ids(live))
            return bool(self.behind)

    def freshen(self) -> None:
        """Make visible to searches what the last batches left."""
        for target in [*self.live, *self.behind]:
            target.settlement.freshen()

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """Between batches, as long as the context lasts: `freshen`, and `catch_up`."""
        done = threading.Event()

        def work() -> None:
            behind = bool(self.behind)
            while not done.wait(0.0 if behind else _PAUSE_S):
                try:
                    behind = self.catch_up() if self.behind else False
                    self.freshen()
                except LyrebirdError as error:
                    # The next batch meets the same trouble, and is the one to wait for it or to end.
                    behind = False
                    logger.warning("between batches: %s", error)

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
        if fed.missing != self._missing:
            self._missing = fed.missing
            self._on_missing(fed.missing)
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

    def _work(self, target: Target, rows: Any) -> TaskOutcome:
        target.look()
        progress = target.settlement.progress
        plan = replace(
            self._plan,
            index=target.name,
            feeds=tuple(target.feed(of) for of in progress.values()),
            epochs={(topic, p): epoch for topic, of in progress.items() for p, epoch in of.epochs.items()},
            starts=target.starts,
            evolves=self._plan.evolves.on(target.settlement.info) if self._plan.evolves else None,
        )
        outcome = self._tasks(plan, rows)
        if outcome.fault is not None:
            if target.look():
                # Its records told of it before the brokers did.
                raise Transient("topic has changed", system="kafka", reason=str(outcome.fault))
            raise outcome.fault
        if outcome.waiting:
            self._metrics.count("lyrebird_retries_total", outcome.retries, "bulk")
            raise Transient("documents wait for the index", system="elasticsearch", reason=outcome.reason)
        return outcome

    def _tell(self, target: Target, outcome: TaskOutcome) -> Mapping[str, Any]:
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


def _topic_ids(live: Target) -> dict[str, str]:
    return {topic: found for of in live.settlement.progress.values() for topic, found in of.topic_ids.items()}
