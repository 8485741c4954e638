"""A job's driver over a log in memory, with its workers' steps without Spark."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import orjson

from include.clock import ManualClock
from include.eventtime.algorithm.calls import Calls
from include.eventtime.algorithm.watermark import TopicPartition
from include.eventtime.config.definition import DeployedJob, JobEntry
from include.eventtime.gathering import ElementGathering, ElementWork
from include.eventtime.opening import opened_job
from include.eventtime.outputs import EVENT_TIME, OutputWriter
from include.eventtime.reading import ElementReader
from include.eventtime.task import advanced
from include.eventtime.work import JobBatch, JobBucketResult
from include.log import topics
from include.log.memory import MemoryLog
from include.log.planning.plan import StreamSpec
from include.log.planning.planner import BatchPlanner
from include.log.planning.slices import Slice, spread
from include.log.planning.survey import PortSurvey
from include.log.planning.tail import PortTail, ResolvedTail
from include.log.ports import LogWriter, Record, TopicSpec
from include.log.registry.memory import MemoryRegistry
from include.record import version as versions
from include.record.codec import Decoder
from include.state.pointer import BucketPointer
from include.state.reading import MemoryRows
from tests.support.eventtime.histories import Everything, History, Item, Output
from tests.support.log.memory_access import memory_access

__all__ = ["APPLICATION", "JobDriverHarness", "Process", "States", "work_done"]

APPLICATION = "app"
BUCKETS = 3
TOLD, ODD = "out.told", "out.odd"


class Logged(History):
    """What a log has, as a history: with the verdicts that were written down."""

    def __init__(self, history: History, partitions: Mapping[TopicPartition, list[Item]], end: int) -> None:
        self.bound, self.topics, self.places = history.bound, history.topics, [*partitions]
        self.partitions, self._end = dict(partitions), end

    @property
    def end(self) -> int:
        return self._end


class States:
    """Buckets in memory, each version of them under its pointer."""

    def __init__(self) -> None:
        self.versions: dict[bytes, dict[bytes, bytes]] = {}

    def open(self, pointer: bytes | None) -> Bucket:
        counts = BucketPointer.from_bytes(pointer).counts if pointer else {}
        return Bucket(self.versions[pointer] if pointer else {}, counts, self)


class Bucket(MemoryRows):
    """One version of a bucket, and how the next one is made."""

    opened = "ready"

    def __init__(self, rows: Mapping[bytes, bytes], counts: Mapping[str, int], states: States) -> None:
        super().__init__()
        self.take(rows)
        self._rows, self._counts, self._states = rows, Counter(counts), states

    def commit(self, rows: Mapping[bytes, bytes | None], *, more: Mapping[str, int], due: int | None) -> bytes:
        made = {key: value for key, value in {**self._rows, **rows}.items() if value is not None}
        counts = Counter(self._counts)
        counts.update(more)
        pointer = BucketPointer(str(len(self._states.versions)), counts=counts, due=due).to_bytes()
        self._states.versions[pointer] = made
        return pointer


class JobDriverHarness:
    """Topics with the elements of a history, and the states of a job that reads them."""

    def __init__(self, seed: int, *, elements: int = 40, idle_after_s: float = 1e-6) -> None:
        self.history, self.draw = History(seed, elements), random.Random(seed)
        self.clock = ManualClock()
        self.log, self.registry, self.states = MemoryLog(self.clock), MemoryRegistry(), States()
        self.admin = self.log.admin()
        for topic in self.history.topics:
            self.admin.ensure(TopicSpec(topic, max(p for t, p in self.history.places if t == topic) + 1))
        self.writer = self.log.writer("devices")
        self.waiting = {
            place: [item for item in reversed(items) if item.value is not None]
            for place, items in self.history.partitions.items()
        }
        time = {"field": "time", "unit": "us"}
        sources = [
            {
                "topic": topic,
                "key": "key",
                "time": time,
                "disorder_s": self.history.bound / 1e6,
                "idle_after_s": idle_after_s,
            }
            for topic in self.history.topics
        ]
        outputs = {"told": {"topic": TOLD, "compacted": True}, "odd": {"topic": ODD}}
        entry = {"application": APPLICATION, "process": "tests.x.Everything", "sources": sources, "outputs": outputs}
        self.job = DeployedJob("job", JobEntry.model_validate({**entry, "buckets": BUCKETS}), Everything(None))

    def write(self, most: int | None = None) -> None:
        """What is left of the history, or so many of its elements, from partitions that come as they like."""
        left = most if most is not None else 1 << 30
        while left and any(self.waiting.values()):
            place = self.draw.choice([place for place, items in sorted(self.waiting.items()) if items])
            self.writer.begin()
            for _ in range(min(left, self.draw.choice((1, 1, 4)))):
                if self.waiting[place]:
                    item, left = self.waiting[place].pop(), left - 1
                    value = orjson.dumps({"key": item.key, "time": item.time, **(item.value or {})})
                    self.writer.append(place[0], None, value, partition=place[1])
            self.writer.commit()

    def records(self, topic: str) -> Iterator[Record]:
        reader = self.log.reader()
        for partition, end in reader.end_offsets(topic).items():
            yield from reader.read(topic, partition, 0, end)

    def logged(self, end: int) -> Logged:
        """What is in the log, with the verdicts that the job has written down."""
        partitions: dict[TopicPartition, list[Item]] = {}
        for topic in self.history.topics:
            reader = self.log.reader()
            for partition in reader.end_offsets(topic):
                partitions[topic, partition] = []
            for record in self.records(topic):
                said = orjson.loads(record.value or b"")
                key, time = said.pop("key"), said.pop("time")
                place = (topic, record.partition)
                partitions[place].append(Item(place, record.offset, time, key, said))
            for record in self.records(topics.idle(topic, APPLICATION)):
                partition, offset = map(int, (record.key or b"").split(b"/"))
                partitions[topic, partition].append(Item((topic, partition), offset, int(record.value or b"")))
        for items in partitions.values():
            items.sort(key=lambda item: (item.offset, item.value is not None))
        return Logged(self.history, partitions, end)

    def outputs(self) -> dict[str, list[Output]]:
        """What the topics hold, by key in the order of versions."""
        found: dict[str, list[Output]] = {"a": [], "b": [], 'c"ü': []}
        decode = Decoder(self.registry.schema)
        for name, topic in (("told", TOLD), ("odd", ODD)):
            for record in self.records(topic):
                value = decode(record.value or b"")
                for field in ("at", "last"):
                    assert type(value[field]) is int
                assert int(dict(record.headers)[EVENT_TIME] or b"") == value["at"]
                number = versions.number_of(versions.from_headers(record.headers))
                found[decode(record.key or b"")["key"]].append((number, name, value))
        return {key: sorted(outputs, key=lambda output: output[0]) for key, outputs in found.items()}

    def late(self) -> set[tuple[TopicPartition, int]]:
        found: list[tuple[TopicPartition, int]] = []
        for topic in self.history.topics:
            for record in self.records(topics.late(topic, APPLICATION)):
                said = {name: (value or b"").decode() for name, value in record.headers}
                found.append(((said["late.topic"], int(said["late.partition"])), int(said["late.offset"])))
        assert len(set(found)) == len(found)
        return set(found)


def work_done(
    log: MemoryLog,
    states: States,
    buckets: int,
    readers: Mapping[str, ElementReader],
    bounds: Mapping[str, int | None],
    calls: Calls[Any],
    writer: OutputWriter,
    work: JobBatch,
) -> Iterator[tuple[int, JobBucketResult]]:
    """The steps of tasks, one after the other."""
    frames = defaultdict[int, list[bytes]](list)
    slices = [Slice(*place, start, end) for place, (start, end) in sorted(work.ranges.items())]
    for share in spread(slices, 2) or [[]]:
        ends = {(each.topic, each.partition): each.end for each in share}
        lows = {place: work.lows[place] for place in ends}
        gathering = ElementGathering(readers, lows, bounds, work.verdicts, buckets, lambda record: record)
        for each in share:
            for record in log.reader().read(each.topic, each.partition, each.start, each.end):
                place = record.topic, record.partition, record.offset
                gathering.take(*place, record.timestamp_ms, record.value, record)
        for bucket, frame in gathering.work(ends).items():
            frames[bucket].append(frame)
    for bucket in range(buckets):
        pointer = work.pointers.get(bucket)
        state = states.open(pointer)
        mine = ElementWork.unpack(frames[bucket])
        yield bucket, advanced(calls, writer, work, mine, pointer, opened(state))


def opened(bucket: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Gives one that is there, and leaves it open."""
    return lambda: nullcontext(bucket)


class Process:
    """One run of the application."""

    def __init__(
        self,
        world: JobDriverHarness,
        wrap: Callable[[LogWriter], LogWriter] = lambda writer: writer,
        total_limit: int | None = None,
        slice_s: float | None = None,
    ) -> None:
        self.world = world
        reader, admin = world.log.reader(), world.log.admin()
        access = memory_access(world.log, world.registry, world.clock, wrap)
        opened = opened_job(world.job, APPLICATION, access)
        self.runner = opened.runner
        sources = world.job.entry.sources
        self.calls = Calls[Any](world.job.process, [source.topic for source in sources])
        self.output_writer = OutputWriter(world.job.process, sources[0].key, opened.ids)
        kind = world.job.process.key
        self.readers = {
            each.topic: ElementReader(rank, each, kind, world.registry) for rank, each in enumerate(sources)
        }
        self.bounds: dict[str, int | None] = {source.topic: source.bound_us for source in sources}
        spec = StreamSpec(
            "-", tuple(self.runner.topics), opened.start, opened.cut_at, total_limit=total_limit, slice_s=slice_s
        )
        tails = [ResolvedTail(PortTail(reader, name), name) for name in opened.cut_at]
        self.planner = BatchPlanner(spec, PortSurvey(reader, admin), tails, world.clock)
        self.at = spec.initial()

    def carry_out(self, work: JobBatch) -> Iterator[tuple[int, JobBucketResult]]:
        """The work of a batch without Spark, in the same steps."""
        world = self.world
        return work_done(
            world.log, world.states, BUCKETS, self.readers, self.bounds, self.calls, self.output_writer, work
        )

    def to_the_end(self) -> None:
        while (found := self.planner.latest(self.at)) != self.at:
            self.at = found
            self.runner.run(self.carry_out, found.plan())
