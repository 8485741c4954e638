"""A log, a bucket and a pool in memory, for whoever drives a group of the lake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from include.clock import ManualClock
from include.errors import LyrebirdError, Transient
from include.lake.definition import LakeGroup
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.reading.group_log import TopicIdPartition
from include.lake.reading.log_ranges import MessageBatch, PortRanges
from include.lake.writing.cut_files import whole
from include.lake.writing.driver import Driver, GroupWatcher
from include.lake.writing.log_cuts import CutLogic
from include.lake.writing.planner import TopicRecreated
from include.lake.writing.task import Outcome, Task, TaskContext, run_task
from include.log.memory import MemoryLog
from include.log.planning.survey import HiddenOffsets, PortSurvey
from include.log.ports import TopicInfo, TopicSpec
from include.store.memory import MemoryStore

__all__ = ["GROUP", "LakeHarness"]

VERBATIM = SequenceFile(layout="verbatim")
GROUP = LakeGroup.model_validate(
    {
        "kind": "backup",
        "application": "lake",
        "topics": ["e*"],
        "prefix": "raw",
        "policy": {"max_bytes": 20_000, "max_age_s": 60, "record_bytes": 100},
        "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
    }
)


class OnePipeline:
    """The only logic that there is."""

    logic = CutLogic("c", lambda _first: whole(("offset=0",)), VERBATIM, VERBATIM)

    def holding(self, partition: int, first: int, timestamp_ms: int) -> CutLogic:
        return self.logic

    def border(self, partition: int, first: int) -> int | None:
        return None

    def of(self, config: str) -> CutLogic:
        return self.logic


class LeaderEpochs(PortRanges):
    """A log whose records have leaders: from which offset on the leader of which epoch took them."""

    def __init__(self, log: MemoryLog, leaders: dict[int, int]) -> None:
        super().__init__(log.reader(), log.admin())
        self._leaders = sorted(leaders.items())

    def _epoch(self, offset: int) -> int | None:
        return max((epoch for since, epoch in self._leaders if since <= offset), default=None)

    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        for messages, _ in super().batches(topic, partition, start, end):
            yield MessageBatch(messages, self._epoch(messages[-1].offset))

    def epoch_before(self, topic: str, partition: int, offset: int) -> int | None:
        begin, _ = self.edges(topic, partition)
        found = [each for batch in self.batches(topic, partition, begin, offset) for each in batch.messages]
        return self._epoch(found[-1].offset) if found else None


class LakeHarness:
    """Log, bucket, and a pool that works when it is asked what is finished. Hears as a watcher."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(1_000_000_000)
        self.memory, self.store = MemoryLog(self.clock), MemoryStore()
        self.folder = folder
        self.slots, self.together = 4, 1
        self.jobs = 0
        self.submitted: list[Task] = []
        self.fails: dict[TopicIdPartition, LyrebirdError] = {}
        self.outcomes: list[Outcome] = []
        self.lost: list[TopicRecreated] = []
        self.unread: list[tuple[TopicIdPartition, int, int]] = []
        self.refused: list[tuple[TopicIdPartition, LyrebirdError]] = []
        self.away: list[LyrebirdError] = []
        self.dead = False
        # Since which offset leaders of which epochs have taken records; empty: the log does not tell.
        self.leaders: dict[int, int] = {}
        self.back = 0
        # The timestamp of records that are hidden yet: the port does not show them.
        self.begun = -1
        self.watcher: GroupWatcher | None = None
        self.driver = self.started()

    @property
    def ranges(self) -> LeaderEpochs:
        return LeaderEpochs(self.memory, self.leaders)

    def started(self, group: LakeGroup = GROUP) -> Driver:
        return Driver("raw", group, self, self.store, self, self.clock, self, "here")

    def topics(self) -> list[TopicInfo]:
        if self.dead:
            raise Transient("the log is away")
        found = [self.memory.admin().describe(name) for name in self.memory.admin().names()]
        return [info for info in found if info]

    def edges(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, tuple[int, int]]:
        return {tp: self.ranges.edges(tp.topic, tp.partition) for tp in tps}

    def hidden(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, HiddenOffsets]:
        places = {(tp.topic, tp.partition): tp for tp in tps}
        survey = PortSurvey(self.memory.reader(), self.memory.admin())
        return {places[at]: hidden for at, hidden in survey.hidden(places).items()}

    def begun_ms(self, tp: TopicIdPartition, offset: int) -> int:
        return self.begun

    def timestamps_ms(self, offsets: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        return {tp: self._timestamp_ms(tp, offset) for tp, offset in offsets.items()}

    def _timestamp_ms(self, tp: TopicIdPartition, offset: int) -> int:
        begin, end = self.ranges.edges(tp.topic, tp.partition)
        records = self.memory.reader().read(tp.topic, tp.partition, max(begin, offset), end)
        return next((record.timestamp_ms for record in records), -1)

    def epoch_before(self, tp: TopicIdPartition, offset: int) -> int | None:
        return self.ranges.epoch_before(tp.topic, tp.partition, offset)

    def submit(self, *tasks: Task) -> None:
        self.jobs += 1
        self.submitted += tasks

    def finished(self) -> list[Outcome]:
        tasks, self.submitted = self.submitted, []
        return [self.run(task) for task in tasks]

    def run(self, task: Task) -> Outcome:
        if task.range.tp in self.fails:
            return Outcome(task, None, (), self.fails[task.range.tp])
        context = TaskContext(self.store, self.ranges, OnePipeline(), self.folder, self.clock)
        return run_task(task, context)

    def on_outcome(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if self.watcher is not None:
            self.watcher.on_outcome(outcome)

    def on_lost(self, remade: TopicRecreated) -> None:
        self.lost.append(remade)

    def on_gone(self, tp: TopicIdPartition, first: int, until: int) -> None:
        self.unread.append((tp, first, until))

    def on_refused(self, tp: TopicIdPartition, error: LyrebirdError) -> None:
        self.refused.append((tp, error))

    def on_away(self, error: LyrebirdError) -> None:
        self.away.append(error)

    def on_back(self) -> None:
        self.back += 1

    def make(self, name: str, partitions: int = 1) -> None:
        self.memory.admin().ensure(TopicSpec(name, partitions))

    def write(self, topic: str, count: int, partition: int = 0) -> None:
        writer = self.memory.writer("w")
        writer.begin()
        for number in range(count):
            writer.append(topic, b"k", b"%090d" % number, partition=partition)
        writer.commit()

    def run_for(self, seconds: float, asked: str = "") -> None:
        for _ in range(int(seconds * 2)):
            self.driver.step(asked)  # type: ignore[arg-type]
            self.clock.advance(0.5)

    def stored(self, topic: str, partition: int = 0, generation: int = 1) -> list[tuple[int, int]]:
        info = self.memory.admin().describe(topic)
        assert info is not None
        chain = ChainKey(TopicKey("raw", topic, info.named_id), generation, partition)
        return [(commit.first, commit.next) for commit in Chain(self.store, chain).commits(contiguous=False)]
