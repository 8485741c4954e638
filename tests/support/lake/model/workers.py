"""The workers of the model: one that carries the live chain on, and one that makes cuts again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from include.errors import Terminal
from include.lake.protocol import steps
from include.lake.protocol.commit_protocol import PlannedEnd, advance, find_head, write_cut
from include.lake.protocol.cut import Commit
from include.lake.protocol.log_checks import gap_at
from include.lake.protocol.pointer import PointerEntry, ReadersPointer, change_pointer, ranges_of, read_pointer
from tests.support.lake.model.log import TOPIC

if TYPE_CHECKING:
    from tests.support.lake.model.simulation import LakeSimulation


def body_of(build: int, offsets: list[int]) -> str:
    """What the file of these records is like, by this build of the library."""
    return json.dumps({"build": build, "offsets": offsets})


class Worker:
    """One process that works at the partition in one generation."""

    def __init__(self, world: LakeSimulation, name: str, generation: int) -> None:
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
            # Anything may happen between looking and taking over.
            for _ in range(world.rng.choice((1, 1, 40))):
                yield steps.ListAfter("nothing", "")
            world._take_over(self.generation, {3: old.next})
            start = world.start_of(self.generation)
            assert start is not None
        end = world.log.end
        until = end if world.calm or world.rng.random() < 0.6 else world.rng.randint(0, end)
        plan = PlannedEnd(until, "age", "size 10 or age 3600 s", self.name)
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
            case steps.CutCommitted():
                return None

    def _seen(self, key: str) -> steps.ObjectSeen | None:
        info = self.world.store.head(key)
        if info is None:
            return None
        if self.world.without == "comparison":
            own = self.puts[key]
            return steps.ObjectSeen(own.file.bytes, own.metadata)
        metadata = dict(info.metadata or {})
        if self.world.without == "gaps":
            metadata.pop("gaps", None)
        return steps.ObjectSeen(info.size_bytes, metadata)

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


def pointer_of(world: LakeSimulation) -> ReadersPointer:
    return read_pointer(world.store, TOPIC)


class Backfill(Worker):
    """Makes cuts of the first generation again, from what of their records is kept elsewhere, and promotes them."""

    def _program(self) -> Any:
        world = self.world
        while not world.replayed:
            self.done = not world.take_archive() and world.calm
            yield steps.ListAfter("nothing", "")
        for commit in world.replayed.values():
            plan = PlannedEnd(commit.next, "backfill", "as before", self.name, exact=True)
            yield from write_cut(self.chain, commit.first, plan)
        cuts = {3: ranges_of(list(world.replayed.values()))}

        def promote(pointer: ReadersPointer) -> ReadersPointer:
            return pointer.promote(self.generation, cuts, replaces=1)

        if world.without == "whole cuts" and not any(each.generation == 7 for each in pointer_of(world).entries):
            change_pointer(world.store, TOPIC, lambda now: now._append(PointerEntry(self.generation, cuts)))
        try:
            change_pointer(world.store, TOPIC, promote)
        except Terminal:
            # Live has moved on under it: to be planned anew, nothing is read of it.
            world.refused += 1
        self.done = True
        while True:
            yield steps.ListAfter("nothing", "")

    def _read(self, wanted: steps.ReadRange) -> Any:
        commit: Commit = self.world.replayed[wanted.first]
        files: dict[str, list[int]] = {key: [] for key in wanted.keys}
        filtered = 0
        for offset in self.world.archive:
            if not wanted.first <= offset < wanted.until:
                continue
            folder = self.world.log.records[offset].folders[int(commit.config)]
            if folder is None:
                filtered += 1
            else:
                files.setdefault(str(self.chain.data((folder,), wanted.first, ".seq")), []).append(offset)
        made = tuple(self._file(key, held) for key, held in files.items())
        return steps.LocalCut(wanted.until, made, filtered, commit.config, {"zlib": str(self.build)}, commit.gaps)
