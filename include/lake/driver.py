"""Drives one group: finds its topics, looks up heads, hands what is due to a pool, and hears what became of it.

All that it knows is forgotten with it. Two drivers of one group do no harm, they only do some work twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from include.clock import Clock
from include.errors import BackPressure, Fenced, LyrebirdError, Transient
from include.lake.chain import Chain
from include.lake.chain_key import ChainKey, TopicKey
from include.lake.definition import LakeGroup
from include.lake.generations import Live, take_over
from include.lake.planner import Planner, Remade, Spot
from include.lake.task import Outcome, Task, patience
from include.lake.upload_policy import Asked
from include.log.ports import TopicInfo
from include.store.object_store import ObjectStore

__all__ = ["Driver", "GroupLog", "Pool", "Watcher"]

_TOPICS_EVERY_S: Final = 5.0
_EDGES_EVERY_S: Final = 0.5
_PAUSE_S: Final = 1.0


class Pool(Protocol):
    """Where tasks run."""

    @property
    def slots(self) -> int:
        """How many may run at once, now: executors come and go."""

    def submit(self, task: Task) -> None:
        """Begin a task; does not wait for it."""

    def finished(self) -> list[Outcome]:
        """Tasks that ended since the last call, each once. One that was lost with its host has a `Transient`."""


class GroupLog(Protocol):
    """What a driver asks of the log, about many partitions at once. Raises `Transient` when it does not answer."""

    def topics(self) -> list[TopicInfo]:
        """All that there are."""

    def edges(self, spots: Iterable[Spot]) -> dict[Spot, tuple[int, int]]:
        """(first offset held, last stable offset) of each that is there."""

    def timestamp_ms(self, spot: Spot, offset: int) -> int:
        """Kafka timestamp of the first record from `offset` on; -1 where it has none, or there is no record."""


class Watcher(Protocol):
    """Hears what a person may have to know."""

    def on_outcome(self, outcome: Outcome) -> None:
        """A task has ended, well or not."""

    def on_lost(self, remade: Remade) -> None:
        """A topic went before all of it was stored."""

    def on_away(self, error: LyrebirdError) -> None:
        """Log or store do not answer the driver; it goes on asking."""

    def on_back(self) -> None:
        """They answer again."""


class Driver:
    """One group. `step` it again and again, some ten times a second. Not for use from several threads."""

    def __init__(
        self,
        name: str,
        group: LakeGroup,
        log: GroupLog,
        store: ObjectStore,
        pool: Pool,
        clock: Clock,
        watcher: Watcher,
        writer: str,
    ) -> None:
        """`writer` is noted in intents: host and process, say."""
        self._name, self._group, self._writer = name, group, writer
        self._log, self._store, self._pool = log, store, pool
        self._clock, self._watcher = clock, watcher
        self.planner = Planner(group)
        self._live: dict[tuple[str, str], Live] = {}
        self._partitions: dict[str, int] = {}
        self._looked_s = self._asked_s = -1e9
        self._frozen = False
        # Not zero: the last look was in vain.
        self._away_until_s = 0.0

    def step(self, asked: Asked = "") -> None:
        """Look around, where it is time, and begin what is due.

        Raises:
            Fenced: a newer revision of the group has taken a topic over.
        """
        self.settle()
        if self._clock.monotonic_s() >= self._away_until_s:
            try:
                self._look()
            except (Transient, BackPressure) as error:
                self._away_until_s = self._clock.monotonic_s() + _PAUSE_S
                self._watcher.on_away(error)
            else:
                if self._away_until_s:
                    self._away_until_s = 0.0
                    self._watcher.on_back()
        self._begin(asked)

    def freeze(self) -> None:
        """Look once more; from then on no more than what there is now is taken: a run on a schedule ends.

        Raises `Transient` or `BackPressure` when not all could be looked up.
        """
        self._looked_s = self._asked_s = -1e9
        self._look()
        self._frozen = True

    def left(self, asked: Asked = "") -> bool:
        """Whether there is anything still to do, now: after `freeze` no more comes."""
        return self.planner.left(self._now_ms(), asked)

    def settle(self) -> None:
        """Hear of tasks that have ended, and begin none. Raises as `step`."""
        for outcome in self._pool.finished():
            spot, error = outcome.task.range.spot, outcome.error
            for commit in outcome.commits:
                self.planner.on_commit(spot, commit)
            self._watcher.on_outcome(outcome)
            if isinstance(error, Fenced):
                raise error
            if error is None and outcome.head is not None:
                self.planner.on_done(spot, outcome.head)
            else:
                passes = error is None or isinstance(error, (Transient, BackPressure))
                self.planner.on_failure(spot, self._now_ms(), stop="" if passes else str(error))

    def _look(self) -> None:
        now_s = self._clock.monotonic_s()
        if not self._frozen and now_s - self._looked_s >= _TOPICS_EVERY_S:
            infos = self._log.topics()
            self._looked_s = now_s
            self._partitions = {info.name: info.partitions for info in infos}
            for remade in self.planner.on_topics(infos):
                self._watcher.on_lost(remade)
        for spot in self.planner.headless():
            self.planner.on_head(spot, self._head(spot))
        if not self._frozen and now_s - self._asked_s >= _EDGES_EVERY_S:
            self.planner.on_edges(self._log.edges(self.planner.spots), self._now_ms())
            self._asked_s = now_s
        for spot in self.planner.unaged():
            self.planner.on_oldest(spot, self._log.timestamp_ms(spot, self.planner.head(spot)))

    def _head(self, spot: Spot) -> int:
        live = self._taken_over(spot)
        return self._head_of(live.chain(spot.partition), live.start(spot.partition))

    def _taken_over(self, spot: Spot) -> Live:
        place = spot.topic, spot.topic_id
        if place not in self._live:
            self._live[place] = take_over(
                self._store,
                TopicKey(self._group.prefix, spot.topic, spot.topic_id),
                self._group.revision,
                self._partitions[spot.topic],
                self._head_of,
            )
        return self._live[place]

    def _head_of(self, chain: ChainKey, start: int) -> int:
        return Chain(self._store, chain, start=start, pause=patience(self._clock)).head().next

    def _begin(self, asked: Asked) -> None:
        room = self._pool.slots - self.planner.busy
        if room <= 0:
            return
        for due in self.planner.due(self._now_ms(), room, asked):
            live = self._live[due.spot.topic, due.spot.topic_id]
            self._pool.submit(
                Task(
                    self._name,
                    self._group.prefix,
                    due,
                    live.generation,
                    live.start(due.spot.partition),
                    self._group.policy.of(due.spot.topic)[0].max_bytes,
                    self._writer,
                )
            )

    def _now_ms(self) -> int:
        return self._clock.now_us() // 1000
