"""A raw copy and a partition group over a log in memory, and backfills of it: each step as its commands do it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from include.lake.backfill.configuration import narrowed
from include.lake.backfill.plan import BackfillPlan
from include.lake.backfill.planning import LakeStore, make_plan
from include.lake.backfill.rewrite import carry_out, rewrite, tasks_of
from include.lake.backfill.run_registry import Run, begin
from include.lake.backfill.selection import BackfillSelection, Days
from include.lake.definition import LakeGroup
from include.lake.parsing.definition import ParserContext
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.object_key import ObjectKey
from include.lake.protocol.pointer import ReadersPointer, read_pointer
from include.lake.reading.log_ranges import PortRanges
from include.lake.writing.driver import Driver
from include.lake.writing.task import Outcome, Task, TaskContext, run_task
from include.lake.writing.topic_pipelines import logics_of
from include.store.object_store import ObjectStore
from tests.support.lake.harness import GROUP, LakeHarness

__all__ = [
    "ALL_DAYS",
    "CONTEXT",
    "DAY_MS",
    "NOON",
    "RIGHT",
    "WRONG",
    "BackfillHarness",
    "RewritePool",
    "asked",
    "days",
    "filled",
    "group",
    "kept",
    "version",
]

CONTEXT = ParserContext(Path("/nowhere"))
DAY_MS = 86_400_000
NOON = 1_714_564_800_000  # 2024-05-01T12:00Z


def version(number: int, field: str, **more: Any) -> dict[str, Any]:
    """A parser that takes the event time from `field`."""
    parser = {"format": "json", "time": {"field": [field], "unit": "ms"}}
    return {"version": number, "added": f"2026-01-0{number}T00:00:00Z", "parser": parser, **more}


def group(*versions: dict[str, Any], **more: Any) -> LakeGroup:
    """The partition group with these parsers."""
    return LakeGroup.model_validate(
        {
            "kind": "partition",
            "application": "lake",
            "topics": ["e*"],
            "prefix": "by_date",
            "policy": {"max_bytes": 1_000_000, "max_age_s": 60},
            "rules": [{"topics": "*", "format": {"json_lines": {}}, "versions": list(versions)}],
            **more,
        }
    )


class BackfillHarness(LakeHarness):
    """`driver` writes the raw copy, `by_date` the partition group; messages have two times, of which one is right."""

    def __init__(self, folder: Path, *versions: dict[str, Any]) -> None:
        super().__init__(folder)
        # Event times are not believed where they lie behind that of their record.
        self.clock.advance(NOON // 1000 + 10 * 86_400)
        self.group = group(*versions)
        self.groups = {"raw": GROUP, "by_date": self.group}
        self.by_date = self.partitioned(self.group)
        self.numbers = 0

    def partitioned(self, declared: LakeGroup) -> Driver:
        self.group = self.groups["by_date"] = declared
        return Driver("by_date", declared, self, self.store, self, self.clock, self, "here")

    def run(self, task: Task) -> Outcome:
        tp = task.range.tp
        declared = self.groups[task.group]
        logics = logics_of(task.group, declared, tp.topic, CONTEXT)
        context = TaskContext(
            self.store, PortRanges(self.memory.reader(), self.memory.admin()), logics, self.folder, self.clock
        )
        return run_task(task, context)

    def send(self, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
        writer = self.memory.writer("w")
        writer.begin()
        for value in values:
            writer.append(topic, b"k", value, partition=partition)
        writer.commit()

    def events(self, topic: str, count: int, day: int, partition: int = 0) -> None:
        """So many messages of the `day`-th day; the wrong time says the day after."""
        values = []
        for _ in range(count):
            self.numbers += 1
            right = NOON + day * DAY_MS + self.numbers
            values.append(json.dumps({"n": self.numbers, "made": right, "at": right + DAY_MS}).encode())
        self.send(topic, values, partition)

    def store_all(self, *drivers: Driver) -> None:
        """Flush what the log has into the groups of these drivers: a cut for each partition."""
        for driver in drivers or (self.driver, self.by_date):
            self.clock.advance(6)
            for _ in range(6):
                driver.step("flush")
                self.clock.advance(0.5)
        assert not [each.error for each in self.outcomes if each.error]

    def topic_key(self, topic: str = "events", prefix: str = "by_date") -> TopicKey:
        info = self.memory.admin().describe(topic)
        assert info is not None
        return TopicKey(prefix, topic, info.named_id)

    def pointer(self, topic: str = "events") -> ReadersPointer:
        return read_pointer(self.store, self.topic_key(topic))

    def plan(self, asked: BackfillSelection, log: bool = False) -> BackfillPlan:
        ranges = PortRanges(self.memory.reader(), self.memory.admin()) if log else None
        return make_plan(LakeStore(self.store), asked, self.group, CONTEXT, raw_prefix="raw", log=ranges)

    def rewrite(self, run: Run, store: ObjectStore | None = None, most_bytes: int = 1) -> list[Outcome]:
        """Carry a run out, as an application does."""
        pool = RewritePool(self, store or self.store, narrowed(self.group, run.plan.asked))
        outcomes: list[Outcome] = []
        carry_out(tasks_of(run.plan, run.generations, "w", most_bytes), pool, self.clock, outcomes.append)
        return outcomes

    def backfilled(self, asked: BackfillSelection) -> Run:
        """Plan, begin, write."""
        run = begin(self.store, self.plan(asked))
        self.rewrite(run)
        return run

    def objects(self, generation: int, topic: str = "events") -> dict[str, bytes]:
        """Data objects of a generation, by their names without it."""
        found = {}
        for info in self.store.list(f"by_date/{topic}/"):
            key = ObjectKey.parse(info.key, "by_date")
            stored = self.store.get(info.key)
            if key.generation == generation and stored is not None:
                found[f"{'/'.join(key.names)}/{key.partition}_{key.first}{key.extension}"] = stored.body
        return found

    def read(self, topic: str = "events") -> list[bytes]:
        """Lines of all objects that readers read."""
        pointer = self.pointer(topic)
        lines: list[bytes] = []
        for info in self.store.list(f"by_date/{topic}/"):
            if pointer.reads(ObjectKey.parse(info.key, "by_date")):
                stored = self.store.get(info.key)
                assert stored is not None
                lines += [b"%s %s" % (info.key.split("/")[2].encode(), line) for line in stored.body.splitlines()]
        return sorted(lines)


class RewritePool:
    """`TaskPool` of backfills, over any store."""

    def __init__(self, world: BackfillHarness, store: ObjectStore, wanted: LakeGroup) -> None:
        self._world, self._store, self._wanted = world, store, wanted
        self._submitted: list[Task] = []
        self.slots, self.together = 2, 1
        self.wrap: Callable[[Outcome], Outcome] = lambda outcome: outcome

    def submit(self, *tasks: Task) -> None:
        self._submitted += tasks

    def finished(self) -> list[Outcome]:
        tasks, self._submitted = self._submitted, []
        world = self._world
        found = []
        for task in tasks:
            log = PortRanges(world.memory.reader(), world.memory.admin())
            logics = logics_of(task.group, self._wanted, task.range.tp.topic, CONTEXT)
            found.append(self.wrap(rewrite(task, TaskContext(self._store, log, logics, world.folder, world.clock))))
        return found


def days(first: str, last: str = "") -> Days:
    """Days as written."""
    return Days(dt.date.fromisoformat(first), dt.date.fromisoformat(last or first))


WRONG, RIGHT = version(1, "at"), version(2, "made", from_offsets={0: 10**6, 1: 10**6})
ALL_DAYS = days("2024-04-01", "2024-06-30")


def asked(**more: Any) -> BackfillSelection:
    """All days by the second version, from the raw copy, unless told otherwise."""
    return BackfillSelection("by_date", "events", **{"days": ALL_DAYS, "version": 2, "raw": "raw", **more})


def filled(folder: Path, *versions: dict[str, Any]) -> BackfillHarness:
    """Four cuts of two partitions, over three days, with a message that no parser understands and a null value."""
    world = BackfillHarness(folder, *versions)
    world.make("events", 2)
    for day in range(3):
        world.events("events", 20, day)
        world.events("events", 5, day, partition=1)
        world.send("events", [b"no json", None])
        world.store_all()
    return world


def kept(objects: dict[str, bytes]) -> dict[str, bytes]:
    """Those that are the same in every world: markers in what is set aside come of the topic's id."""
    return {name: body for name, body in objects.items() if not name.startswith("_quarantine")}
