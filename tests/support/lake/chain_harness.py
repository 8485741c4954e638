"""Two groups of the lake over one log and one bucket in memory: a backup, and one that files, filters and refuses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from include.audit.chain.audit import ChainAuditOptions, audit_chain
from include.audit.chain.finding import ChainFinding
from include.audit.chain.report import ChainReport
from include.errors import InvalidRecord
from include.lake.definition import LakeGroup
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.message import Message
from include.lake.parsing.port import Batch
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.reading.group_log import TopicIdPartition
from include.lake.reading.log_ranges import PortRanges
from include.lake.writing.driver import Driver
from include.lake.writing.log_cuts import CutLogic
from include.lake.writing.task import Outcome, Task, TaskContext, run_task
from include.store.memory import MemoryStore
from tests.support.lake.harness import GROUP, VERBATIM, LakeHarness, OnePipeline

__all__ = ["BACKUP", "GROUPS", "PARTED", "ChainHarness", "faults"]

BACKUP = GROUP
PARTED = LakeGroup.model_validate(
    {
        "kind": "partition",
        "application": "lake",
        "topics": ["e*"],
        "prefix": "parted",
        "policy": {"max_bytes": 7_000, "max_age_s": 60, "record_bytes": 100},
        "rules": [
            {
                "topics": "*",
                "format": {"sequence": {"layout": "message_pack"}},
                "versions": [
                    {
                        "version": 1,
                        "added": "2026-11-01T00:00:00Z",
                        "parser": {"format": "json", "time": {"field": "at", "unit": "ms"}},
                    }
                ],
            }
        ],
    }
)
GROUPS = {"raw": BACKUP, "by_date": PARTED}


def sort_apart(messages: Sequence[Message]) -> Batch:
    """By their offsets: of ten one is filtered, one refused, and the others go to two days."""
    batch = Batch()
    for message in messages:
        if message.offset % 10 == 7:
            batch.filtered += 1
        elif message.offset % 10 == 8:
            batch.refused.append((message, InvalidRecord("cannot be understood", reason="it ends in 8")))
        else:
            batch.kept.setdefault((f"dt=2026-11-0{1 + message.offset % 2}",), []).append(message)
    return batch


class Apart(OnePipeline):
    """Its only logic."""

    logic = CutLogic("c", lambda _first: sort_apart, SequenceFile(layout="message_pack"), VERBATIM)


class ChainHarness(LakeHarness):
    """`run_for` runs both groups; the topic `e` has two partitions."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = MemoryStore(self.clock)
        self.drivers: list[Driver] = [self.started(), self.started_parted()]
        self.make("e", 2)

    def started_parted(self, group: LakeGroup = PARTED) -> Driver:
        return Driver("by_date", group, self, self.store, self, self.clock, self, "here")

    def edges(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, tuple[int, int]]:
        return super().edges(tp for tp in tps if self.memory.admin().describe(tp.topic))

    def run(self, task: Task) -> Outcome:
        ranges = PortRanges(self.memory.reader(), self.memory.admin())
        logics = Apart() if task.group == "by_date" else OnePipeline()
        return run_task(task, TaskContext(self.store, ranges, logics, self.folder, self.clock))

    def run_for(self, seconds: float, asked: str = "") -> None:
        # One after the other: outcomes belong to the driver that asks for them.
        for driver in self.drivers:
            self.driver = driver
            super().run_for(seconds, asked)

    def fill(self, rounds: int = 4, records: int = 60) -> None:
        for _ in range(rounds):
            for partition in (0, 1):
                self.write("e", records, partition)
            self.run_for(5, "flush")

    def chain(self, group: str = "by_date", partition: int = 0, generation: int = 1, topic: str = "e") -> ChainKey:
        info = self.memory.admin().describe(topic)
        assert info is not None
        return ChainKey(TopicKey(GROUPS[group].prefix, topic, info.named_id), generation, partition)

    def commits(self, group: str = "by_date", partition: int = 0, generation: int = 1) -> list[Commit]:
        return list(Chain(self.store, self.chain(group, partition, generation)).commits(contiguous=False))

    def body(self, key: str) -> bytes:
        found = self.store.get(key)
        assert found is not None
        return found.body

    def audit(self, options: ChainAuditOptions | None = None, topic: str = "e") -> ChainReport:
        return audit_chain(self.store, GROUPS, topic, self.clock.now_us(), options)


def faults(report: ChainReport) -> list[str]:
    """Just what was found."""
    found: list[ChainFinding] = list(report.findings)
    return [finding.fault for finding in found]
