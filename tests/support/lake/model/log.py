"""The log and the store of the model, and what the model is told to do without."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.object_key import QUARANTINE
from include.store.memory import MemoryStore

TOPIC = TopicKey("lake", "shop.orders", "AAAAAAAAAAAAAAAAAAAAAA")
SAFEGUARDS = {
    "intent": "no intent is written: everyone keeps to the end of its own plan",
    "adopted end": "who loses the race for the intent keeps to its own",
    "comparison": "an object that is there is taken to be one's own file",
    "data condition": "files are written over what is there",
    "commit condition": "commits are written over what is there",
    "lost answers": "a put without an answer is taken as done",
    "closed names": "no empty object where compaction left nothing of a promised file",
    "head": "who starts again goes on where its own checkpoint says",
    "parser": "who takes a cut over parses with its own configuration",
    "whole cuts": "a backfill is promoted although live has other cuts there by now",
    "gaps": "who adopts an object does not ask what the log had lost when it was made",
}
FOLDERS: tuple[str | None, ...] = ("dt=2026-11-20", "dt=2026-11-21", "dt=2026-11-22", QUARANTINE, None)


class Rec(NamedTuple):
    """A record: its folder (None: filtered) by each parser, how big it is."""

    folders: tuple[str | None, str | None]
    size: int


@dataclass
class Log:
    """Offsets without a record are holes; `compacted` and what is below `begin` are gone."""

    records: dict[int, Rec] = field(default_factory=dict)
    begin: int = 0
    end: int = 0
    compacted: set[int] = field(default_factory=set)

    def grow(self, rng: random.Random, count: int) -> None:
        for _ in range(count):
            self.end += 1 if rng.random() < 0.85 else rng.randint(2, 4)
            # Late data: mostly today's folder, at times another.
            weights = (2, 8, 2, 1, 1)
            one, two = rng.choices(FOLDERS, weights, k=2)
            self.records[self.end - 1] = Rec((one, two if rng.random() < 0.3 else one), rng.randint(1, 3))
        if rng.random() < 0.2:
            self.end += 1

    def compact(self, rng: random.Random) -> None:
        here = [offset for offset in self.records if offset >= self.begin and offset not in self.compacted]
        self.compacted |= {offset for offset in here if rng.random() < 0.25}

    def expire(self, rng: random.Random) -> None:
        self.begin = min(self.end, self.begin + rng.randint(1, 5))

    def read(self, first: int, until: int) -> list[int]:
        span = range(max(first, self.begin), until)
        return [offset for offset in span if offset in self.records and offset not in self.compacted]


class Witness(MemoryStore):
    """Keeps how often each key was written, and which ones then had other bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: dict[str, int] = {}
        self.changed: set[str] = set()

    def _write(self, key: str, body: bytes, metadata: Any) -> Any:
        self.writes[key] = self.writes.get(key, 0) + 1
        if key in self._objects and self._objects[key].body != body:
            self.changed.add(key)
        return super()._write(key, body, metadata)
