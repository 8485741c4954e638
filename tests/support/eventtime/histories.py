"""Random histories of partitions, what any way of reading them has to give, and ways of reading them."""

from __future__ import annotations

import heapq
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson

from include.eventtime.algorithm.bucket import drain
from include.eventtime.algorithm.calls import Calls, Emitted
from include.eventtime.algorithm.kept import KeptState
from include.eventtime.algorithm.order import ArrivedElement, key_of, key_text
from include.eventtime.algorithm.watermark import NEVER, IdleVerdict, PartitionWatermark, TopicPartition, least
from include.eventtime.model.process import Context, Element, Process
from include.eventtime.model.typed import DataclassFields
from include.state.reading import MemoryRows

__all__ = ["Everything", "History", "Output", "Run", "Told", "expected"]

_KEYS = ("a", "b", 'c"ü')
_STEP = 4
_TOPICS = ("t0", "t1")

Output = tuple[int, str, dict[str, Any]]
"""(version, output, value)."""


@dataclass
class Told:
    """What a call saw."""

    at: int
    by: str
    count: int
    last: int
    trace: list[int]


@dataclass
class Log:
    """Whatever came before, so that nothing can be out of order unseen."""

    count: int = 0
    last: int = -1
    trace: list[int] = field(default_factory=list)


class Everything(Process[Log]):
    """Sets, moves and cancels timers, in the past too, keeps state, and tells of each call."""

    state = Log
    outputs: ClassVar = {"told": Told, "odd": Told}

    def on_element(self, element: Element, ctx: Context[Log]) -> None:
        name, after = element.value["timer"], element.value["after"]
        self._tell(ctx, f"{element.topic}/{element.partition}/{element.offset}")
        if after is None:
            ctx.cancel_timer(name)
        else:
            ctx.set_timer(name, element.time + after)
        if element.value["fails"]:
            raise ValueError(element.value["fails"])

    def on_timer(self, name: str, time: int, ctx: Context[Log]) -> None:
        self._tell(ctx, f"{name} {ctx.timer('x')}")
        if ctx.state.count % 3 == 0:
            ctx.set_timer("y", time + 2)
        if ctx.state.count % 4 == 0:
            ctx.cancel_timer("x")

    def _tell(self, ctx: Context[Log], by: str) -> None:
        log = ctx.state
        log.count, log.last = log.count + 1, ctx.time
        log.trace = [*log.trace[-3:], ctx.time]
        ctx.emit("odd" if log.count % 2 else "told", Told(ctx.time, by, log.count, log.last, log.trace))


@dataclass(frozen=True)
class Item:
    """What stands in a partition: an element, or (value None) a verdict before `offset`."""

    place: TopicPartition
    offset: int
    time: int
    key: str = ""
    value: dict[str, Any] | None = None


class History:
    """The partitions of one or two topics, with elements out of order, late ones, equal times, and verdicts."""

    def __init__(self, seed: int, elements: int = 40) -> None:
        self.draw = draw = random.Random(seed)
        self.bound = draw.choice((0, 1, 4))
        self.topics = _TOPICS[: draw.choice((1, 1, 2))]
        self.places = [(topic, p) for topic in self.topics for p in range(draw.randrange(1, 4))]
        self.partitions: dict[TopicPartition, list[Item]] = {place: [] for place in self.places}
        now = dict.fromkeys(self.places, 0)
        speeds = {place: draw.choice((1, 1, 3)) for place in self.places}
        offsets = dict.fromkeys(self.places, 0)
        for _ in range(elements):
            place = draw.choice(self.places)
            now[place] += draw.randrange(_STEP) * speeds[place]
            if draw.random() < 0.06:
                verdict = Item(place, offsets[place], now[place] - draw.randrange(3))
                self.partitions[place].append(verdict)
                continue
            early = draw.randrange(self.bound + 1) if draw.random() < 0.9 else draw.randrange(12)
            value = {
                "timer": draw.choice("xyz"),
                "after": draw.choice((None, -2, 0, 1, 3, 6, 9)),
                "fails": "now" if draw.random() < 0.04 else "",
            }
            key = draw.choice(_KEYS)
            self.partitions[place].append(Item(place, offsets[place], now[place] - early, key, value))
            offsets[place] += draw.choice((1, 1, 2))

    @property
    def end(self) -> int:
        """After everything."""
        return max((item.time for items in self.partitions.values() for item in items), default=0) + 100


def expected(history: History) -> tuple[dict[str, list[Output]], set[tuple[TopicPartition, int]]]:
    """Outputs by key, and which elements are late: by sorting all that is not late, with a heap for timers."""
    late, on_time = set(), []
    for place, items in history.partitions.items():
        for number, item in enumerate(items):
            before = items[:number]
            # A late element moves nothing, and would not either: its time is no greater than what made it late.
            lows = [each.time - history.bound - 1 if each.value is not None else each.time for each in before]
            if item.value is None:
                continue
            if any(low >= item.time for low in lows):
                late.add((place, item.offset))
            else:
                on_time.append((item.time, history.topics.index(place[0]), place[1], item.offset, item))
    outputs = {}
    for key in _KEYS:
        queue: list[tuple[Any, ...]] = []
        for time, source, partition, offset, item in on_time:
            if item.key == key:
                heapq.heappush(queue, (time, 0, source, partition, offset, item))
        outputs[key] = _simulated(key, queue, history)
    return outputs, late


def _simulated(key: str, queue: list[tuple[Any, ...]], history: History) -> list[Output]:
    process = Everything(None)
    ctx: Context[Log] = Context({name: DataclassFields(kind) for name, kind in process.outputs.items()})
    state, timers = Log(), dict[Any, Any]()
    outputs: list[Output] = []
    while queue:
        time, is_timer, *rest = heapq.heappop(queue)
        if time > history.end or (is_timer and timers.get(rest[0]) != time):
            continue
        before, kept = dict(timers), Log(state.count, state.last, list(state.trace))
        ctx.begin(key, time, state, timers, by_timer=bool(is_timer))
        try:
            if is_timer:
                del timers[rest[0]]
                del before[rest[0]]
                process.on_timer(rest[0], time, ctx)
            else:
                item = rest[-1]
                element = Element(time, item.place[0], item.place[1], item.offset, key, orjson.dumps(item.value))
                process.on_element(element, ctx)
        except ValueError:
            state, timers = kept, before
            continue
        for name, value in ctx.emitted:
            outputs.append((len(outputs) + 1, name, value))
        for name, at in timers.items():
            if before.get(name) != at or (is_timer and name == rest[0]):
                heapq.heappush(queue, (at, 1, name))
    return outputs


class Run:
    """A history that is read in one of the orders and batches in which it may arrive.

    What a batch does is in methods of its own, so that tests can put wrong ways in their place.
    """

    def __init__(self, history: History, seed: int, *, buckets: int = 2) -> None:
        self.history, self.draw, self.buckets = history, random.Random(seed), buckets
        self.calls = Calls(Everything(None), history.topics)
        self.states = [MemoryRows() for _ in range(buckets)]
        self.due: list[int | None] = [None] * buckets
        self.lows = dict.fromkeys(history.places, NEVER)
        self.watermark = NEVER
        self.outputs: dict[str, list[Output]] = {key: [] for key in _KEYS}
        self.late: set[tuple[TopicPartition, int]] = set()
        self.opened = 0

    def batches(self) -> Iterator[list[Item]]:
        """All items, in an order that keeps that of each partition, cut anywhere."""
        waiting = {place: list(reversed(items)) for place, items in self.history.partitions.items() if items}
        batch: list[Item] = []
        many = self.draw.choice((1, 3, 10, 100))
        while waiting:
            place = self.draw.choice(sorted(waiting))
            for _ in range(self.draw.choice((1, 1, 5))):
                if place in waiting:
                    batch.append(waiting[place].pop())
                    if not waiting[place]:
                        del waiting[place]
            if self.draw.randrange(many) == 0:
                yield batch
                batch = []
        yield batch

    def to_the_end(self) -> None:
        for batch in self.batches():
            self.take(batch)
        self.advance([], self.history.end)

    def take(self, batch: Sequence[Item]) -> None:
        arrived = []
        for place in self.history.places:
            mine = [item for item in batch if item.place == place]
            arrived += self.read(place, mine)
        self.advance(arrived, max(self.watermark, self.together()))

    def read(self, place: TopicPartition, items: Sequence[Item]) -> list[ArrivedElement]:
        """One partition's share of a batch."""
        verdicts = [IdleVerdict(place, item.offset, item.time) for item in items if item.value is None]
        watermark = PartitionWatermark(self.lows[place], self.history.bound, verdicts)
        found = []
        for item in items:
            if item.value is None:
                continue
            if watermark.late(item.offset, item.time):
                self.late.add((place, item.offset))
            else:
                found.append(self.arrived(item))
        if items:
            watermark.reach(items[-1].offset + (items[-1].value is not None))
        self.lows[place] = watermark.low
        return found

    def arrived(self, item: Item) -> ArrivedElement:
        source = self.history.topics.index(item.place[0])
        value = orjson.dumps(item.value)
        return ArrivedElement(item.time, source, item.place[1], item.offset, key_text(item.key), value)

    def together(self) -> int:
        return least(self.lows.values())

    def advance(self, arrived: Sequence[ArrivedElement], until: int) -> None:
        self.watermark = until
        mixed = list(arrived)
        self.draw.shuffle(mixed)
        for bucket, state in enumerate(self.states):
            mine = [each for each in mixed if zlib.crc32(each.key) % self.buckets == bucket]
            due = self.due[bucket]
            if not mine and (due is None or due > until):
                continue
            self.opened += 1
            made = drain(self.calls, state, mine, until)
            # A batch that is done again, after a crash for instance.
            again = drain(self.calls, state, mine, until)
            assert (made.rows, made.emitted, made.due) == (again.rows, again.emitted, again.due)
            state.take(made.rows)
            self.due[bucket] = made.due
            self.tell(made.emitted)

    def tell(self, emitted: Sequence[Emitted]) -> None:
        for each in emitted:
            self.outputs[str(each.key)].append((each.version, each.output, each.value))

    def kept(self) -> Iterator[tuple[str, KeptState]]:
        """What stands of each key in the end."""
        for state in self.states:
            for key, value in state.scan(b"k"):
                yield str(key_of(key[1:])), KeptState.from_bytes(value)
