"""A delivery under a random schedule of faults, crashes and other writers, and what must hold of it.

1. When all is settled, the index holds the newest state of each key, and nothing else.
2. What was answered as done, stale or refused is not sent again, but by a process that never heard the answer.
3. Each line ends in exactly one way, and the ones set aside are those that no index could take.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from include.clock import ManualClock
from include.index.bulk.request import BulkLine
from include.index.bulk.scheduler import Concurrency
from include.index.bulk.sender import Delivery, DeliveryResult
from include.index.server.memory import MemoryIndex
from include.index.server.port import BulkAnswer, ItemAnswer
from tests.support.faults.elasticsearch.fate import RandomFates
from tests.support.faults.elasticsearch.node import FaultyNode, in_memory

__all__ = ["NAME", "Send", "Simulation", "Stage"]

Send = Callable[[bytes], BulkAnswer]
Stage = Callable[[DeliveryResult], int | None]
"""How many lines a stage takes for settled, by what it was told; None: as many as it gave."""

NAME: Final = "orders-v1"
_MAPPING: Final = {"properties": {"order": {"properties": {"v": {"type": "long"}, "note": {"type": "integer"}}}}}


class _CrashError(BaseException):
    """The process ends."""


@dataclass(frozen=True, slots=True)
class _State:
    """One line of the log. `bad`: no index takes it."""

    key: str
    version: int
    line: BulkLine
    bad: bool


class Simulation:
    """One schedule: `run` once. `wrong` lists what did not hold."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.fates = RandomFates(seed + 1)
        self.index = MemoryIndex()
        self.index.create(NAME, {"mappings": _MAPPING})
        self.node = FaultyNode(self.index, self.fates, self._seen)
        self.clock = ManualClock()
        self.wrong: list[str] = []
        self.crashes = 0
        self._states = _states(self.random, self.fates.most_bytes)
        self._settled: set[int] = set()
        self._crashes_left = self.random.choice((0, 0, 1, 3))
        # How many requests may be under way at once. Of a process that ends, none is then.
        self._abreast = 1 if self._crashes_left else self.random.choice((1, 1, 1, 3))

    def run(self, send: Send | None = None, stage: Stage | None = None) -> None:
        """Deliver the whole log by `send` (None: in memory); `stage` None: a line is passed when it is settled."""
        with ThreadPoolExecutor(self._abreast) as pool:
            self._run(send, stage, pool if self._abreast > 1 else None)

    def _run(self, send: Send | None, stage: Stage | None, pool: Executor | None) -> None:
        send = self._interrupted(send or in_memory(self.node, NAME, self.clock))
        acked, window = 0, self.random.randint(1, 12)
        dead: set[int] = set()
        while acked < len(self._states):
            batch = [each.line for each in self._states[acked : acked + window]]
            try:
                passed, refused = self._batch(batch, send, stage, pool)
            except _CrashError:
                # Nobody remembers what was answered.
                self.crashes += 1
                self._settled.clear()
                continue
            acked += passed
            dead |= refused
        self.node.settle()
        self._compare(dead)

    def _batch(
        self, batch: list[BulkLine], send: Send, stage: Stage | None, pool: Executor | None
    ) -> tuple[int, set[int]]:
        waiting, dead = batch, set[int]()
        concurrency = Concurrency(self._abreast)
        while waiting:
            delivery = Delivery(
                send,
                self.clock,
                index=NAME,
                bulk_bytes=self.random.randint(200, 3000),
                patience_s=self.random.choice((2, 20, 10_000)),
                jitter=self.random,
                pool=pool,
                concurrency=concurrency,
            )
            out = delivery.deliver(waiting)
            refs = [line.ref for line in (*out.done, *out.stale, *(line for line, _ in out.dead), *out.waiting)]
            if sorted(refs) != sorted(line.ref for line in waiting):
                self.wrong.append(f"conservation: {len(waiting)} given, {len(refs)} accounted for")
            dead |= {line.ref for line, _ in out.dead}
            passed = stage(out) if stage else None
            if passed is not None:
                return passed, dead
            waiting = out.waiting
        return len(batch), dead

    def _interrupted(self, send: Send) -> Send:
        """`send`, between whose calls another writer is at work, and the process may end."""

        def call(lines: bytes) -> BulkAnswer:
            if self.random.random() < 0.2:
                # A process that was taken for dead.
                other = self.random.choice(self._states)
                if not other.bad:
                    self.index.bulk(NAME, other.line.data)
            if self._crashes_left and self.random.random() < 0.1:
                self._crashes_left -= 1
                if self.random.random() < 0.5:
                    send(lines)
                raise _CrashError
            return send(lines)

        return call

    def _seen(self, lines: bytes, answers: Sequence[ItemAnswer] | None) -> None:
        refs = [json.loads(row)["metadata"]["offset"] for row in lines.split(b"\n")[1::2]]
        for ref in refs:
            if ref in self._settled:
                self.wrong.append(f"line {ref} was settled and is sent again")
        for ref, answer in zip(refs, answers or (), strict=False):
            refused = answer.status == 400 and answer.type == "document_parsing_exception"
            if answer.status in (200, 201, 409) or refused:
                self._settled.add(ref)

    def _compare(self, dead: set[int]) -> None:
        bad = {each.line.ref for each in self._states if each.bad}
        if dead != bad:
            self.wrong.append(f"set aside: {sorted(dead)}, not to be taken: {sorted(bad)}")
        newest: dict[str, _State] = {}
        for each in self._states:
            if not each.bad and each.version >= newest.get(each.key, each).version:
                newest[each.key] = each
        for key in {each.key for each in self._states}:
            found, wanted = self.index.get(NAME, key), newest.get(key)
            got = _told(found.source) if found else None
            if got != (_told(json.loads(wanted.line.data.split(b"\n")[1])) if wanted else None):
                self.wrong.append(f"{key[:20]}: index has {got}, the newest is {wanted and wanted.version}")


def _told(source: Mapping[str, Any]) -> tuple[int, bool, int | None]:
    """Which state a document is, by what stands in it; equal lines are one state."""
    metadata = source["metadata"]
    return metadata["version"], metadata["deleted"], source.get("order", {}).get("v")


def _states(random: Random, most_bytes: int) -> list[_State]:
    keys = [f"k{n}" for n in range(random.randint(1, 6))]
    versions = random.sample(range(1, 1000), 40)
    out = []
    for ref in range(random.randint(1, 30)):
        key, version = random.choice(keys), versions[ref]
        draw = random.random()
        body: dict[str, object] | None = {"v": version}
        bad = False
        if draw < 0.03:
            # An id that makes the request of all invalid.
            key, bad = "x" * 513, True
        elif draw < 0.1:
            body, bad = {"v": version, "note": "no number"}, True
        elif draw < 0.2:
            body = {"v": version, "pad": "x" * random.randint(100, 2500)}
        elif draw < 0.3:
            body = None
        line = _line(ref, key, version, body)
        out.append(_State(key, version, line, bad or 0 < most_bytes < len(line.data)))
        if draw > 0.95:
            # The same once more, as a writer that was interrupted would.
            again = _line(ref + 1000, key, version, body)
            out.append(_State(key, version, again, out[-1].bad))
    return out


def _line(ref: int, key: str, version: int, body: dict[str, object] | None) -> BulkLine:
    action = json.dumps({"index": {"_id": key, "version": version, "version_type": "external"}})
    metadata = {"offset": ref, "version": version, "deleted": body is None}
    document = {"metadata": metadata} if body is None else {"order": body, "metadata": metadata}
    return BulkLine(ref, f"{action}\n{json.dumps(document)}\n".encode(), deleted=body is None)
