"""A topic stored by a backup and by groups that parse it, through the real tasks, over a log and a bucket in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from include.clock import ManualClock
from include.lake.definition import LakeGroup
from include.lake.parsing.definition import ParserContext
from include.lake.protocol.chain_key import TopicKey
from include.lake.reading.group_log import TopicIdPartition
from include.lake.reading.log_ranges import PortRanges
from include.lake.writing.driver import Driver
from include.lake.writing.log_cuts import CutLogics
from include.lake.writing.report import GroupReport
from include.lake.writing.task import Outcome, Task, TaskContext, run_task
from include.lake.writing.topic_pipelines import logics_of
from include.log.memory import MemoryLog
from include.log.ports import TopicInfo, TopicSpec
from include.store.memory import MemoryStore
from tests.support.lake.harness import LakeHarness

__all__ = ["NOW_US", "StoredTopic", "backup_group", "event", "parsing_group"]

NOW_US = 1_795_255_200_000_000
"""2026-11-21T10:00:00Z."""

_DAY_MS = 86_400_000
_PARSER = {
    "format": "json",
    "time": {"field": ["at"], "unit": "ms"},
    "drop": [{"field": ["type"], "one_of": ["ping"]}],
}


def event(number: int, *, days_ago: int = 0, **more: Any) -> bytes:
    """A JSON event of noon, so many days before NOW_US."""
    at = NOW_US // 1000 - days_ago * _DAY_MS
    return orjson.dumps({"n": number, "at": at, **more})


def backup_group(**changes: Any) -> LakeGroup:
    """The backup."""
    return _group("backup", "raw", {"sequence": {"layout": "verbatim"}}, None, changes)


def parsing_group(form: dict[str, Any] | None = None, **changes: Any) -> LakeGroup:
    """A group that parses JSON into dates; `form` is its format."""
    version = {"version": 1, "added": "2026-01-01T00:00:00Z", "parser": _PARSER}
    return _group("partition", "dates", form or {"sequence": {"layout": "verbatim"}}, [version], changes)


def _group(kind: str, prefix: str, form: dict[str, Any], versions: list[Any] | None, changes: Any) -> LakeGroup:
    rule = {"topics": "*", "format": form, **({"versions": versions} if versions else {})}
    return LakeGroup.model_validate(
        {
            "kind": kind,
            "application": f"lake_{kind}",
            "topics": ["e*"],
            "prefix": prefix,
            "policy": {"max_bytes": 1_000_000, "max_age_s": 60, "record_bytes": 100},
            "rules": [rule],
            **changes,
        }
    )


class _Pool:
    """Works when it is asked what is finished."""

    slots, together = 8, 1

    def __init__(self, world: StoredTopic, name: str, group: LakeGroup) -> None:
        self.world, self.name, self.group, self.tasks = world, name, group, list[Task]()

    def submit(self, *tasks: Task) -> None:
        self.tasks += tasks

    def finished(self) -> list[Outcome]:
        tasks, self.tasks = self.tasks, []
        return [self.world.run(task, self.name, self.group) for task in tasks]


class StoredTopic(LakeHarness):
    """Log and bucket; `store_all` lets a group store what there is."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clock = ManualClock(NOW_US)
        self.memory, self.store = MemoryLog(self.clock), MemoryStore(self.clock)

    def append(self, values: list[bytes | None], topic: str = "events", partition: int = 0) -> None:
        if self.memory.admin().describe(topic) is None:
            self.memory.admin().ensure(TopicSpec(topic, partition + 1))
        writer = self.memory.writer("w")
        writer.begin()
        for value in values:
            writer.append(topic, b"k", value, partition=partition)
        writer.commit()

    def info(self, topic: str = "events") -> TopicInfo:
        found = self.memory.admin().describe(topic)
        assert found is not None
        return found

    def key(self, group: LakeGroup, topic: str = "events") -> TopicKey:
        return TopicKey(group.prefix, topic, self.info(topic).named_id)

    def logics(self, name: str, group: LakeGroup, topic: str = "events") -> CutLogics:
        return logics_of(name, group, topic, ParserContext(self.folder))

    def begin(self, group: LakeGroup, name: str = "g") -> Driver:
        return Driver(name, group, self, self.store, _Pool(self, name, group), self.clock, GroupReport(name), "here")

    def store_all(self, group: LakeGroup, name: str = "g") -> None:
        driver = self.begin(group, name)
        driver.freeze()
        while driver.left("flush"):
            driver.step("flush")
            self.clock.advance(0.5)

    def run(self, task: Task, name: str = "g", group: LakeGroup | None = None) -> Outcome:
        ranges = PortRanges(self.memory.reader(), self.memory.admin())
        logics = self.logics(name, group or backup_group(), task.range.tp.topic)
        return run_task(task, TaskContext(self.store, ranges, logics, self.folder / "work", self.clock))

    def edge(self, topic: str = "events", partition: int = 0) -> tuple[int, int]:
        return self.edges([TopicIdPartition(topic, self.info(topic).named_id, partition)]).popitem()[1]
