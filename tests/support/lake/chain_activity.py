"""A lake in which something happens between any two requests of whoever looks at it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from include.audit.chain import commits as chain_commits
from include.audit.chain import objects as chain_objects
from include.audit.chain.audit import ChainAuditOptions
from include.errors import Transient
from include.lake.backfill.expiry import expire, plan_expiry
from include.lake.protocol import chain as chain_module
from include.lake.protocol.chain import Chain
from include.lake.protocol.commit_protocol import PlannedEnd
from include.lake.protocol.pointer import change_pointer, ranges_of, read_pointer
from include.lake.reading.log_ranges import PortRanges
from include.lake.writing.log_cuts import LogCuts
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo, StoredObject
from tests.support.lake.chain_harness import PARTED, Apart, ChainHarness

__all__ = ["audited_beside"]


class Busy(MemoryStore):
    """Something happens before a request, now and then, while it is `watched`; pages of listings are short."""

    def __init__(self, *clock: Any) -> None:
        super().__init__(*clock)
        self.happen: Callable[[], None] = lambda: None
        self.watched = False
        self.puts_left = 10**9

    def _between(self) -> None:
        if not self.puts_left:
            raise Transient("the store does not answer", system="s3")
        if self.watched:
            self.watched = False
            self.happen()
            self.watched = True

    def put_if_absent(self, key: str, body: bytes, **more: Any) -> ObjectInfo | None:
        self._between()
        self.puts_left -= 1
        return super().put_if_absent(key, body, **more)

    def get(self, key: str) -> StoredObject | None:
        self._between()
        return super().get(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        while True:
            self._between()
            page = [each for each, _ in zip(super().list(prefix, start_after=start_after), range(7), strict=False)]
            yield from page
            if len(page) < 7:
                return
            start_after = page[-1].key


class Serial:
    """A pool whose calls are made one after the other: what happens between two of them happens to nobody else."""

    def __init__(self, _at_once: int) -> None:
        pass

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    map = staticmethod(map)


class Life:
    """What may happen to the lake, in an order drawn by `draw`."""

    def __init__(self, world: ChainHarness, draw: random.Random) -> None:
        self.world, self.draw = world, draw
        self.happened: list[str] = []
        self.revision = self.backfills = 1

    def __call__(self) -> None:
        if self.draw.random() < 0.15 and len(self.happened) < 12:
            name = self.draw.choice(["store", "store", "upgrade", "backfill", "expire", "remake", "grow", "half"])
            self.happened.append(name)
            getattr(self, name)()

    def store(self) -> None:
        self.world.fill(1, self.draw.randint(1, 40))

    def upgrade(self) -> None:
        self.revision += 1
        self.world.drivers[-1] = self.world.started_parted(PARTED.model_copy(update={"revision": self.revision}))
        self.store()

    def backfill(self) -> None:
        world = self.world
        topic = world.chain().of
        self.backfills += 1
        by = f"backfill {self.backfills}"
        pointer = change_pointer(world.store, topic, lambda now: now.reserve(by, "backfill"))
        reserved = pointer.reservation(by)
        live = pointer.live
        if reserved is None or live is None:
            return
        cuts = [
            each
            for each in world.commits(generation=live.generation)
            if each.first >= (live.start(0) or 0) and self.draw.random() < 0.5
        ]
        chain = world.chain(generation=reserved.generation)
        ranges = PortRanges(world.memory.reader(), world.memory.admin())
        reader = LogCuts(ranges, chain, Apart(), world.folder / "backfill", 10**9, 1000)
        made = [
            Chain(world.store, chain).write_cut(
                each.first, PlannedEnd(each.next, "backfill", "", "w", exact=True), reader
            )
            for each in cuts
        ]
        if made and self.draw.random() < 0.8:
            held = {0: ranges_of(made)}
            change_pointer(
                world.store,
                topic,
                lambda now: now.promote(reserved.generation, held, replaces=live.generation),
            )

    def expire(self) -> None:
        topic = self.world.chain().of
        for reserved in read_pointer(self.world.store, topic).reserved:
            expire(self.world.store, self.world.store, plan_expiry(self.world.store, topic, reserved.generation))

    def remake(self) -> None:
        self.world.memory.admin().delete("e")
        self.world.run_for(6)
        self.world.make("e", 2)
        self.world.run_for(6)
        self.store()

    def half(self) -> None:
        """Writers go away in the middle of what they do."""
        bucket = self.world.store
        assert isinstance(bucket, Busy)
        bucket.puts_left = self.draw.randint(0, 9)
        self.world.fill(1, 20)
        bucket.puts_left = 10**9

    def grow(self) -> None:
        self.world.write("e", self.draw.randint(1, 40), self.draw.randint(0, 1))
        self.world.run_for(self.draw.randint(1, 70))


def audited_beside(folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """What an audit of each depth finds while all that happens, and one after it; and what happened."""
    monkeypatch.setattr(chain_module, "SUMMARY_COMMITS", 3)
    for module in (chain_commits, chain_objects):
        monkeypatch.setattr(module, "ThreadPoolExecutor", Serial)
    world = ChainHarness(folder)
    store = Busy(world.clock)
    world.store = store
    world.drivers = [world.started(), world.started_parted()]
    world.fill(3)
    life = Life(world, random.Random(seed))
    store.happen = life
    found: list[str] = []
    for depth in ("names", "bytes", "labels"):
        store.watched = True
        report = world.audit(ChainAuditOptions(depth=depth))
        store.watched = False
        found += [finding.line() for finding in report.findings]
    after = world.audit(ChainAuditOptions(depth="bytes"))
    return [*found, *(finding.line() for finding in after.findings)], life.happened
