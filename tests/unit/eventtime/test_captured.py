"""A job over a captured table: what its source has resolved moves idle partitions, and no clock of the host does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from include.clock import ManualClock
from include.eventtime.algorithm.watermark import IdleVerdict, TopicPartition
from include.eventtime.committed import day_of
from include.eventtime.config.definition import DeployedJob, JobEntry
from include.eventtime.model.process import Context, Element, EventTime, Process
from include.eventtime.rerun.day import day_to_replay, replayed_day
from include.eventtime.verdicts import recorded
from include.log.memory import MemoryLog
from include.log.planning.survey import PortSurvey
from include.log.registry.memory import MemoryRegistry
from include.record.codec import Decoder
from include.record.key import partition_of
from include.record.schema import Column, TableSchema
from tests.support.faults.crash_points import CrashPoint, Killed, crashing
from tests.support.log.memory_access import memory_access
from tests.support.source.captured_changes import CapturedChanges
from tests.unit.eventtime import driver_harness
from tests.unit.eventtime.driver_harness import APPLICATION, BUCKETS, States

pytestmark = pytest.mark.unit
SECOND = 1_000_000
TABLE = TableSchema("d", "pings", (Column("id", "bigint"), Column("device", "bigint"), Column("at", "bigint")), ("id",))
TIMEOUT = 60 * SECOND


@dataclass
class Quiet:
    device: int
    at: EventTime


class Silence(Process[Any]):
    """Tells when a device was silent for a minute."""

    outputs: ClassVar = {"quiet": Quiet}
    key = int

    def on_element(self, element: Element, ctx: Context[Any]) -> None:
        ctx.set_timer("quiet", element.time + TIMEOUT)

    def on_timer(self, name: str, time: int, ctx: Context[Any]) -> None:
        ctx.emit("quiet", Quiet(int(ctx.key), time))


class Harness:
    """A captured table of two partitions; its source's time goes on with each transaction, the host's clock never."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log, self.registry, self.states = MemoryLog(self.clock), MemoryRegistry(), States()
        self.admin = self.log.admin()
        self.captured = CapturedChanges(self.log.writer("capture"), self.admin, self.registry, [TABLE])
        self.topic = self.captured.topic("pings")
        source = {
            "topic": self.topic,
            "key": "device",
            "time": {"field": "at", "unit": "us"},
            "disorder_s": 5,
            "idle": "resolved",
            "ahead_s": 1e9,
        }
        entry = {
            "application": APPLICATION,
            "process": "tests.x.Silence",
            "sources": [source],
            "outputs": {"quiet": {"topic": "out.quiet"}},
            "buckets": BUCKETS,
        }
        self.job = DeployedJob("job", JobEntry.model_validate(entry), Silence(None))
        self.pings = 0

    def at(self, second: int) -> None:
        """The source's time."""
        self.captured.transactions = second - 1

    def ping(self, second: int, device: int, partition: int, of: int = 2) -> None:
        """A row at this second whose key falls into the partition, of so many."""
        self.at(second)
        while True:
            self.pings += 1
            row = {"id": self.pings, "device": device, "at": second * SECOND}
            if partition_of(self.captured._encoders["pings", "key"]({"id": row["id"]}), of) == partition:
                break
        self.captured.commit(("c", "pings", None, row))

    def heartbeat(self, second: int) -> None:
        """The source says that up to this second there was nothing more."""
        self.at(second + 1)
        self.captured.heartbeat()

    def quiet(self) -> list[tuple[int, int]]:
        """(device, second) of each output."""
        decode = Decoder(self.registry.schema)
        reader = self.log.reader()
        records = [r for p, end in reader.end_offsets("out.quiet").items() for r in reader.read("out.quiet", p, 0, end)]
        values = [decode(record.value or b"") for record in records]
        return sorted((value["device"], round(value["at"].timestamp())) for value in values)

    def verdicts(self) -> dict[TopicPartition, list[IdleVerdict]]:
        found = recorded(self.log.reader(), [self.topic], APPLICATION)
        return {place: list(those) for place, those in found.items()}


def process(world: Harness, **more: Any) -> driver_harness.Process:
    return driver_harness.Process(world, **more)  # type: ignore[arg-type]


def test_two_heartbeats_move_a_table_at_rest_though_the_hosts_clock_stands() -> None:
    world = Harness()
    job = process(world)
    world.ping(100, 1, 0)
    world.ping(101, 2, 1)
    job.to_the_end()
    assert job.runner.committed.watermark == (101 - 5) * SECOND - 1
    world.heartbeat(166)
    job.to_the_end()
    assert job.runner.committed.watermark == (166 - 5) * SECOND - 1
    assert world.quiet() == [(1, 160)]
    world.heartbeat(167)
    job.to_the_end()
    assert world.quiet() == [(1, 160), (2, 161)]
    assert world.clock.now_us() == 0
    assert {place for place, those in world.verdicts().items() if len(those) > 1} == {
        (world.topic, 0), (world.topic, 1),
    }  # fmt: skip


def test_one_partition_without_rows_does_not_hold_the_table_back() -> None:
    world = Harness()
    job = process(world)
    world.ping(99, 2, 1)
    world.ping(100, 1, 0)
    for second in range(101, 180):
        world.ping(second, 3, 0)
    job.to_the_end()
    assert world.quiet() == [(1, 160), (2, 159)]
    assert job.runner.committed.lows[world.topic, 1] == (179 - 5) * SECOND - 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("calls", range(1, 22, 2))
def test_killed_at_any_call_around_a_verdicts_batch_it_goes_on_and_a_replay_repeats_it(calls: int, after: bool) -> None:
    world = Harness()
    world.ping(100, 1, 0)
    process(world).to_the_end()
    world.heartbeat(170)
    fuse = CrashPoint(calls, after=after)
    try:
        process(world, wrap=crashing(fuse)).to_the_end()
    except Killed:
        process(world).to_the_end()
    world.ping(171, 1, 0)
    world.heartbeat(300)
    job = process(world)
    job.to_the_end()
    assert world.quiet() == [(1, 160), (1, 231)]
    for those in world.verdicts().values():
        assert [each.time for each in those] == sorted({each.time for each in those})
    reader = world.log.reader()
    access = memory_access(world.log, world.registry, world.clock)
    report = replayed_day(
        world.job,
        day_to_replay(world.job, reader, day_of(0)),
        "again",
        access,
        PortSurvey(reader, world.admin),
        lambda _job, _opened: job.carry_out,
        lambda _watermark: None,
    )
    assert (report.clean, report.comparison.live) == (True, 2), report


def test_a_partition_that_is_added_joins_at_the_watermark_and_is_read() -> None:
    world = Harness()
    job = process(world)
    world.ping(100, 1, 0)
    world.ping(101, 2, 1)
    job.to_the_end()
    world.log.grow(world.topic, 3)
    world.captured._partitions = 3
    world.heartbeat(150)
    job = process(world)
    job.to_the_end()
    world.ping(151, 9, 2, of=3)
    world.heartbeat(300)
    job.to_the_end()
    assert world.verdicts()[world.topic, 2][0] == IdleVerdict((world.topic, 2), 0, (150 - 5) * SECOND - 1)
    assert world.quiet() == [(1, 160), (2, 161), (9, 211)]
