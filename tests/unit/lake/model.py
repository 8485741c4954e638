"""A world in which the real protocol runs: a log that changes, a store that loses answers, workers that crash.

One seed is one schedule. Between any two steps of a worker any other may run, time may stop for it, it may die. A
store's answer may be lost, with its write done, not done, or done later. The log grows, is compacted, loses its
beginning; ranges are read in two halves. Workers differ in library, in size limit and in how far they want to go.
`without` names a safeguard that is taken away (SAFEGUARDS), to see that the checks of `model_check` then find it.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from include.errors import Terminal
from include.lake import steps
from include.lake.chain_key import ChainKey, TopicKey
from include.lake.object_key import QUARANTINE
from include.lake.pointer import Pointer, change_pointer, read_pointer
from include.lake.protocol import Plan, advance, find_head, write_cut
from include.lake.standing import gap_at
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


def body_of(build: int, offsets: list[int]) -> str:
    """What the file of these records is like, by this build of the library."""
    return json.dumps({"build": build, "offsets": offsets})


class World:
    """One schedule."""

    def __init__(self, seed: int, *, without: str = "", generations: int = 1) -> None:
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
        names = "abc"[: self.rng.choice((2, 3, 3))]
        self.workers = [Worker(self, name, 1) for name in names]
        if generations == 2:
            self.workers += [Worker(self, name, 2) for name in "xy"]

    def chain(self, generation: int) -> ChainKey:
        return ChainKey(TOPIC, generation, 3)

    def _take_over(self, generation: int, heads: dict[int, int]) -> None:
        def change(pointer: Pointer) -> Pointer:
            reserved = pointer.reserve(f"release {generation}", "live")
            return reserved.upgrade(generation, heads)

        change_pointer(self.store, TOPIC, change)

    def start_of(self, generation: int) -> int | None:
        """Where its chain begins; None before it has taken over."""
        entries = {entry.generation: entry for entry in read_pointer(self.store, TOPIC).entries}
        return entries[generation].start(3) if generation in entries else None

    def run(self, chaos: int = 250, most: int = 20_000) -> World:
        """Chaos for a while, then calm until all live workers are at the end of the log."""
        while self.step < chaos or self.records_left:
            self._weather()
            self._one()
        self.calm = True
        while not self.finished and self.step < most:
            self._one()
        return self

    @property
    def live(self) -> list[Worker]:
        newest = max(worker.generation for worker in self.workers)
        return [worker for worker in self.workers if worker.generation == newest]

    @property
    def finished(self) -> bool:
        return not self.later and all(worker.done or worker.dead for worker in self.live)

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


class Worker:
    """One process that works at the partition in one generation."""

    def __init__(self, world: World, name: str, generation: int) -> None:
        self.world, self.name, self.generation = world, name, generation
        rng = world.rng
        self.chain = world.chain(generation)
        self.build = rng.randint(1, 2)
        self.parser = rng.randrange(world.parsers)
        self.limit = rng.randint(3, 20)
        self.asleep_until = 0 if generation == 1 else rng.randint(20, 200)
        self.dead = self.done = False
        self.checkpoint = 0
        self.begin()

    def begin(self) -> None:
        self.program: Iterator[steps.Action] = self._program()
        self.outcome: Any = None
        self.action: Any = None
        self.half: list[int] | None = None
        self.answers: dict[int, steps.PutOutcome] = {}

    def move(self) -> None:
        """One step, or a mishap."""
        rng, calm = self.world.rng, self.world.calm
        if not calm and rng.random() < 0.02:
            self.begin()
            return
        if not calm and rng.random() < 0.04:
            self.asleep_until = self.world.step + rng.randint(1, 120)
            return
        if self.action is None:
            try:
                self.action = self.program.send(self.outcome)  # type: ignore[attr-defined]
            except StopIteration:
                self.begin()
                self.done = False
            except (Terminal, LookupError, ValueError) as error:
                self.dead = True
                self.world.stopped.append(f"{self.name}: {error}")
            return
        outcome = self._perform(self.action)
        if outcome is not ...:
            self.action, self.outcome = None, outcome

    def _program(self) -> Any:
        world = self.world
        start = world.start_of(self.generation)
        if start is None:
            old = yield from find_head(world.chain(self.generation - 1), 0, None)
            world._take_over(self.generation, {3: old.next})
            start = world.start_of(self.generation)
            assert start is not None
        end = world.log.end
        until = end if world.calm or world.rng.random() < 0.6 else world.rng.randint(0, end)
        plan = Plan(until, "age", "size 10 or age 3600 s", self.name)
        folder = f"{self.chain}/"
        commits = [key for key in world.store.writes if key.startswith(folder) and key.endswith(".commit")]
        hints = [int(key[len(folder) : -7]) for key in commits]
        hint = world.rng.choice([None, *hints, *hints[-2:]])
        if world.without == "head" and start < self.checkpoint < until:
            yield from write_cut(self.chain, self.checkpoint, plan)
        self.checkpoint = until
        head = yield from advance(self.chain, start, hint, plan)
        self.done = world.calm and head.next >= world.log.end
        while self.done:
            yield steps.ListAfter("nothing", "")

    def _perform(self, action: steps.Action) -> Any:
        store, without = self.world.store, self.world.without
        match action:
            case steps.ListAfter(prefix, after):
                return tuple(info.key for info in store.list(prefix, start_after=after))
            case steps.Get(key):
                found = store.get(key)
                return found.body if found else None
            case steps.Heads(keys):
                return tuple(map(self._seen, keys))
            case steps.PutBody(key, body):
                if without == "intent" and key.endswith(".intent"):
                    return "created"
                if without == "closed names" and key.endswith(".commit"):
                    body = self._without_empty(body)
                answer = self._put(key, body, {}, over=without == "commit condition" and key.endswith(".commit"))
                keeps = without == "adopted end" and key.endswith(".intent") and answer == "exists"
                return "created" if keeps else answer
            case steps.PutFiles(puts):
                self.puts = {put.file.key: put for put in puts}
                left = [index for index in range(len(puts)) if index not in self.answers]
                index = self.world.rng.choice(left)
                self.answers[index] = self._put_file(puts[index])
                if len(left) > 1:
                    return ...
                answers, self.answers = self.answers, {}
                return tuple(answers[index] for index in range(len(puts)))
            case steps.ReadRange():
                return self._read(action)
            case steps.Committed():
                return None

    def _seen(self, key: str) -> steps.Seen | None:
        info = self.world.store.head(key)
        if info is None:
            return None
        if self.world.without == "comparison":
            own = self.puts[key]
            return steps.Seen(own.file.bytes, own.metadata)
        metadata = dict(info.metadata or {})
        if self.world.without == "gaps":
            metadata.pop("gaps", None)
        return steps.Seen(info.size_bytes, metadata)

    def _put_file(self, put: steps.PutFile) -> steps.PutOutcome:
        if self.world.without == "closed names" and put.file.records == 0:
            return "exists" if self.world.store.head(put.file.key) else "created"
        over = self.world.without == "data condition"
        return self._put(put.file.key, put.file.path.encode(), dict(put.metadata), over=over)

    def _put(self, key: str, body: bytes, metadata: dict[str, str], *, over: bool) -> steps.PutOutcome:
        store, rng = self.world.store, self.world.rng

        def write() -> steps.PutOutcome:
            if over:
                store.put(key, body, metadata=metadata)
                return "created"
            return "created" if store.put_if_absent(key, body, metadata=metadata) else "exists"

        if self.world.calm or rng.random() > 0.08:
            return write()
        luck = rng.random()
        if luck < 0.4:
            write()
        elif luck < 0.7:
            self.world.later.append((self.world.step + rng.randint(1, 60), write))
        return "created" if self.world.without == "lost answers" else "unknown"

    def _without_empty(self, body: bytes) -> bytes:
        value = json.loads(body)
        value["files"] = [each for each in value["files"] if each[3] or self.world.store.head(each[0])]
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    def _read(self, wanted: steps.ReadRange) -> Any:
        log = self.world.log
        middle = (wanted.first + wanted.until) // 2
        if self.half is None:
            self.half = log.read(wanted.first, middle)
            self.gap_begin = log.begin
            return ...
        offsets, self.half = self.half + log.read(middle, wanted.until), None
        parser = self.parser if self.world.without == "parser" or not wanted.config else int(wanted.config)
        files: dict[str, list[int]] = {key: [] for key in wanted.keys}
        end, size, filtered = wanted.until, 0, 0
        for offset in offsets:
            record = log.records[offset]
            folder = record.folders[parser]
            if folder is None:
                filtered += 1
            else:
                files.setdefault(str(self.chain.data((folder,), wanted.first, ".seq")), []).append(offset)
            size += record.size
            if size >= self.limit and not wanted.exact:
                end = offset + 1
                break
        # The beginning moved while the range was read: what is missing may be anywhere below it.
        begin = max(self.gap_begin, log.begin)
        gap = gap_at(wanted.first, wanted.first, end, begin)
        return steps.LocalCut(
            end,
            tuple(self._file(key, held) for key, held in files.items()),
            filtered,
            wanted.config or str(parser),
            {"zlib": str(self.build)},
            (gap,) if gap else (),
            7,
            min(offsets, default=None),
            max((offset for offset in offsets if offset < end), default=None),
        )

    def _file(self, key: str, held: list[int]) -> steps.LocalFile:
        body = body_of(self.build, held)
        least, most = (held[0], held[-1]) if held else (None, None)
        return steps.LocalFile(
            key, body, len(body), hashlib.sha256(body.encode()).hexdigest(), len(held), least, most, least, most
        )
