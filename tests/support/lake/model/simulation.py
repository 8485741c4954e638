"""A simulation in which the real protocol runs: a log that changes, a store that loses answers, workers that crash.

One seed is one schedule. Between any two steps of a worker any other may run, time may stop for it, it may die. A
store's answer may be lost, with its write done, not done, or done later. The log grows, is compacted, loses its
beginning; ranges are read in two halves. Workers differ in library, in size limit and in how far they want to go.
`without` names a safeguard that is taken away (`log`), to see that the checks of `invariants` then find it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Commit
from include.lake.protocol.pointer import ReadersPointer, change_pointer, read_pointer
from tests.support.lake.model.log import TOPIC, Log, Witness
from tests.support.lake.model.workers import Backfill, Worker


def offsets_of(store: Witness, key: str) -> list[int]:
    """The offsets in a file of the model."""
    found = store.get(key)
    return list(json.loads(found.body)["offsets"]) if found else []


class LakeSimulation:
    """One schedule."""

    def __init__(self, seed: int, *, without: str = "", generations: int = 1, backfill: bool = False) -> None:
        self.rng = random.Random(seed)
        self.without = without
        # Each world has its climate: how often the log is compacted, how often it loses its beginning.
        self.compacting = self.rng.choice((0.0, 0.02, 0.05))
        self.expiring = self.rng.choice((0.0, 0.01, 0.04))
        self.parsers = self.rng.choice((1, 1, 2))
        self.log = Log()
        self.store = Witness()
        self.later: list[tuple[int, Callable[[], Any]]] = []
        self.step = 0
        self.calm = False
        self.stopped: list[str] = []
        self.records_left = self.rng.randint(15, 50)
        self._take_over(1, {})
        change_pointer(self.store, TOPIC, lambda now: now.reserve("release 2", "live"))
        self.refused = 0
        names = "abc"[: self.rng.choice((2, 3, 3))]
        self.workers = [Worker(self, name, 1) for name in names]
        if generations == 2:
            self.workers += [Worker(self, name, 2) for name in "xy"]
        self.live = self.workers[-2:] if generations == 2 else list(self.workers)
        # What is kept elsewhere of the cuts that a backfill makes again.
        self.archive: list[int] = []
        self.replayed: dict[int, Commit] = {}
        if backfill:
            self.workers += [Backfill(self, name, 7) for name in "pq"]

    def chain(self, generation: int) -> ChainKey:
        return ChainKey(TOPIC, generation, 3)

    def take_archive(self) -> bool:
        """Choose some cuts that are read in the first generation, and keep their records; whether there are any."""
        chain, pointer = self.chain(1), read_pointer(self.store, TOPIC)
        found = []
        for key in sorted(self.store.writes):
            if key.startswith(f"{chain}/") and key.endswith(".commit"):
                first = int(key.removesuffix(".commit").split("/")[-1])
                body = self.store.get(key)
                if body and pointer.generation_of(3, first) == 1:
                    found.append(Commit.parse(body.body, chain, first))
        if found and self.calm | (self.rng.random() < 0.05):
            self.replayed = {each.first: each for each in found if self.rng.random() < 0.6 or each is found[0]}
            stored = {offset for each in found for file in each.files for offset in offsets_of(self.store, file.key)}
            self.archive = sorted(stored | set(self.log.read(0, self.log.end)))
            change_pointer(self.store, TOPIC, lambda now: now.reserve("backfill", "backfill", least=7))
        return bool(found)

    def _take_over(self, generation: int, heads: dict[int, int]) -> None:
        def change(pointer: ReadersPointer) -> ReadersPointer:
            reserved = pointer.reserve(f"release {generation}", "live")
            return reserved.upgrade(generation, heads)

        change_pointer(self.store, TOPIC, change)

    def start_of(self, generation: int) -> int | None:
        """Where its chain begins; None before it has taken over."""
        entries = {entry.generation: entry for entry in read_pointer(self.store, TOPIC).entries}
        return entries[generation].start(3) if generation in entries else None

    def run(self, chaos: int = 250, most: int = 20_000) -> LakeSimulation:
        """Chaos for a while, then calm until all live workers are at the end of the log."""
        while self.step < chaos or self.records_left:
            self._weather()
            self._one()
        self.calm = True
        while not self.finished and self.step < most:
            self._one()
        return self

    @property
    def finished(self) -> bool:
        return not self.later and all(
            worker.done or worker.dead for worker in self.workers if worker in self.live or worker.generation == 7
        )

    def _one(self) -> None:
        self.step += 1
        due = [put for put in self.later if put[0] <= self.step]
        for put in due:
            self.later.remove(put)
            put[1]()
        able = [worker for worker in self.workers if not worker.dead and worker.asleep_until <= self.step]
        if able:
            self.rng.choice(able).move()

    def _weather(self) -> None:
        luck = self.rng.random()
        if luck < 0.15 and self.records_left:
            count = min(self.records_left, self.rng.randint(1, 6))
            self.records_left -= count
            self.log.grow(self.rng, count)
        elif luck > 1 - self.compacting:
            self.log.compact(self.rng)
        elif luck > 1 - self.compacting - self.expiring:
            self.log.expire(self.rng)


def world_of(seed: int, without: str = "") -> LakeSimulation:
    """The world of a schedule: every other one has an upgrade, every third a backfill."""
    return LakeSimulation(seed, without=without, generations=1 + seed % 2, backfill=seed % 3 == 0)
