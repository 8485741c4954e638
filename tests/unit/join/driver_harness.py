"""A join's driver over a log in memory, with its workers' steps without Spark."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from include.clock import ManualClock
from include.join.algorithm.rework import BEGIN
from include.join.bucket import BucketKey, JoinBucketResult, JoinSuccession, apply_work, locate_work
from include.join.config.check import CheckedJoin
from include.join.config.inputs import Input
from include.join.gathering import RecordGathering, RecordWork
from include.join.rows.reading import InputReader
from include.join.runner import JoinRunner
from include.join.takeover import Edition, definition_of
from include.join.task import equipped
from include.join.work import CarryOutJoins, JoinBatch
from include.log import topics
from include.log.control import ControlRecord
from include.log.memory import MemoryLog
from include.log.planning.plan import StreamSpec
from include.log.planning.planner import BatchPlanner
from include.log.planning.survey import PortSurvey
from include.log.planning.tail import PortTail, ResolvedTail
from include.log.ports import LogWriter, TopicSpec
from include.log.publishing.dead_letter import DeadLetterLimit
from include.log.publishing.publisher import Publisher
from include.log.resolved import ResolvedWriter
from include.record import version as versions
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.state.pointer import BucketPointer
from tests.support.joins.histories import History, State
from tests.unit.join.test_avro_rows import AvroRun, Setup, set_up, shown

__all__ = ["BUCKETS", "OUT", "JoinDriverHarness", "Process", "change", "edition_of", "world_of"]

OUT = "joined"
SOURCE = "shop"
BUCKETS = 3
Wrap = Callable[[LogWriter], LogWriter]


def change(i: int) -> str:
    return topics.change(SOURCE, "shop", f"t{i}")


@dataclass
class Schemas:
    """What of a registry rows are read by."""

    by_id: dict[int, Any]

    def schema(self, schema_id: int) -> Any:
        return self.by_id[schema_id]


@dataclass
class States:
    """Buckets in memory, each version of them under its pointer."""

    versions: dict[bytes, State] = field(default_factory=dict)

    def open(self, pointer: bytes | None) -> Bucket:
        counts = BucketPointer.from_bytes(pointer).counts if pointer else {}
        return Bucket(State(self.versions[pointer]) if pointer else State(), self, counts)


class Bucket:
    """One version of a bucket, and how the next one is made."""

    def __init__(self, state: State, states: States, counts: Mapping[str, int]) -> None:
        self.get, self.scan, self._state, self._states = state.get, state.scan, state, states
        self._counts = Counter(counts)

    def commit(self, rows: Mapping[bytes, bytes | None], *, more: Mapping[str, int] | None = None) -> bytes:
        after = State(self._state)
        after.take(dict(rows))
        self._counts.update(more or {})
        pointer = BucketPointer(str(len(self._states.versions)), counts=self._counts).to_bytes()
        self._states.versions[pointer] = after
        return pointer


class JoinDriverHarness:
    """A source with the tables of a history, its log, and the states of the join."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.clock = setup, ManualClock()
        self.log, self.states = MemoryLog(self.clock), States()
        self.schemas = Schemas(setup.schemas)
        self.writer = self.log.writer("capture")
        self.resolver = ResolvedWriter(SOURCE, None, {})
        for i in setup.history.inputs:
            self.log.admin().ensure(TopicSpec(change(i), 2, {"cleanup.policy": "compact"}))
        self.log.admin().ensure(TopicSpec(topics.control(SOURCE), 1))
        self.log.admin().ensure(TopicSpec(topics.source_resolved(SOURCE), 1))
        self.sequence = 0
        self.order = list(setup.history.order)

    def write(self, most: int | None = None) -> None:
        """What is left of the history, or some of it, a transaction for some records, a resolved record in each."""
        run, draw = AvroRun(self.setup), random.Random(self.setup.history.seed)
        order, self.order = self.order[:most], self.order[most:] if most is not None else []
        while order:
            self.writer.begin()
            for i, partition, record in [order.pop(0) for _ in range(min(len(order), draw.randint(1, 4)))]:
                headers = (versions.to_header(record.version),)
                if partition < 0:
                    control = ControlRecord("truncate", "shop", f"t{i}", record.version)
                    self.writer.append(topics.control(SOURCE), control.key(), control.value(), headers=headers)
                else:
                    key, value = run.encoded(i, record)
                    self.writer.append(change(i), key, value, headers=headers, partition=partition)
            self._resolve()
            self.writer.commit()

    def written(self) -> int:
        """Records of the joined topic."""
        reader = self.log.reader()
        return sum(1 for p, end in reader.end_offsets(OUT).items() for _ in reader.read(OUT, p, 0, end))

    def keys(self) -> list[bytes]:
        """Of the outputs that stand in the topic."""
        reader, last = self.log.reader(), dict[bytes, bytes | None]()
        for partition, end in reader.end_offsets(OUT).items():
            last |= {record.key or b"": record.value for record in reader.read(OUT, partition, 0, end)}
        return sorted(key for key, value in last.items() if value is not None)

    def plant(self, key: bytes, value: bytes) -> None:
        """A record that no join wrote."""
        writer = self.log.writer("somebody else")
        writer.begin()
        writer.append(OUT, key, value, headers=(versions.to_header(versions.pack(1, 1)),))
        writer.commit()

    def held(self, pointers: Mapping[BucketKey, bytes]) -> list[tuple[BucketKey, State]]:
        """The buckets at these versions."""
        return [(bucket, self.states.versions[pointer]) for bucket, pointer in pointers.items()]

    def say(self, topic: str, value: bytes) -> None:
        """A record of these bytes in the one partition of a topic."""
        self.writer.begin()
        self.writer.append(topic, b"somebody", value, partition=0)
        self._resolve()
        self.writer.commit()

    def beat(self) -> None:
        """A resolved record without anything new."""
        self.writer.begin()
        self._resolve()
        self.writer.commit()

    def _resolve(self) -> None:
        ends = self.writer.next_offsets()
        self.sequence += 1
        at = SourcePosition("mariadb", MariadbGtidSet({0: (1, self.sequence)}), BinlogPosition("b.1", 4), 1)
        for key, told in self.resolver.records(ends, version=self.sequence, position=at, now_us=0)[1]:
            self.writer.append(topics.source_resolved(SOURCE), key, told, partition=0)

    def table(self) -> dict[bytes, bytes]:
        """What a sink has that keeps the newest version of each key; no (key, version) may stand there twice.

        Compaction keeps the last record of each key: that must be the newest.
        """
        last: dict[bytes, bytes | None] = {}
        newest: dict[bytes, tuple[int, bytes | None]] = {}
        reader = self.log.reader()
        seen = set()
        for partition, end in reader.end_offsets(OUT).items():
            for record in reader.read(OUT, partition, 0, end):
                key, version = record.key or b"", versions.from_headers(record.headers)
                assert (key, version) not in seen
                seen.add((key, version))
                last[key] = record.value
                if version > newest.get(key, (-1, None))[0]:
                    newest[key] = version, record.value
        assert {key: value for key, (_, value) in newest.items()} == last
        return dict(shown(self.setup, key, value) for key, (_, value) in newest.items() if value is not None)


class Process:
    """One run of the application."""

    def __init__(
        self,
        world: JoinDriverHarness,
        wrap: Wrap,
        total_limit: int | None,
        wanted: Edition | None = None,
        known: Sequence[Edition] = (),
    ) -> None:
        self.world, wanted = world, wanted or edition_of(world.setup)
        reader, admin = world.log.reader(), world.log.admin()
        inputs = [*dict.fromkeys(topic for each in (wanted, *known) for topic in each.topics)]
        publisher = Publisher(
            OUT,
            "joins",
            (SOURCE,),
            JoinRunner.topics_of(OUT, inputs),
            own=(JoinRunner.spec(OUT),),
            open_writer=lambda name: wrap(world.log.writer(name)),
            finish=lambda name, places, commit: world.log.finish(name, places, commit=commit),
            reader=reader,
            admin=admin,
            clock=world.clock,
        )
        publisher.ensure(2)
        self.runner = JoinRunner(
            wanted,
            known,
            publisher,
            epoch=1,
            buckets=BUCKETS,
            reader=reader,
            equip=self.equip,
            limit=DeadLetterLimit(),
            clock=world.clock,
            step_rows=1,
        )
        self.runner.open()
        start = defaultdict[str, dict[int, int]](dict)
        for (topic, partition), end in publisher.committed.items():
            start[topic][partition] = end
        cut_at = topics.source_resolved(SOURCE)
        spec = StreamSpec("-", tuple(self.runner.topics), start, (cut_at,), total_limit=total_limit)
        tails = [ResolvedTail(PortTail(reader, cut_at), cut_at)]
        self.planner = BatchPlanner(spec, PortSurvey(reader, admin), tails, world.clock)
        self.at = spec.initial()

    def equip(self, edition: Edition, later: Edition | None) -> CarryOutJoins:
        """The work of a batch without Spark, in the same steps."""
        shape, readers = equipped(edition, self.world.schemas, edition.slots)
        new, anew = None, dict[str, InputReader]()
        if later is not None:
            new, anew = equipped(later, self.world.schemas, {*later.slots} - {*edition.slots})
        reader, states = self.world.log.reader(), self.world.states

        def carry_out(work: JoinBatch) -> Iterator[tuple[int, JoinBucketResult]]:
            frames = defaultdict[int, list[bytes]](list)
            for (topic, partition), (start, end) in sorted(work.ranges.items()):
                gathering = RecordGathering(anew if work.anew else readers, work.bases, work.lives, BUCKETS)
                for record in reader.read(topic, partition, start, end):
                    gathering.take(record)
                for bucket, frame in gathering.work().items():
                    frames[bucket].append(frame)
            onward = defaultdict[int, list[bytes]](list)
            for bucket in range(BUCKETS) if work.wakes_all else sorted(frames):
                state = states.open(work.pointers.get(("whereabouts", bucket)))
                mine = RecordWork.unpack(frames[bucket])
                made = locate_work(bucket, mine, state, complete=work.complete, buckets=BUCKETS, only=work.only)
                for to, each in made.items():
                    onward[to].append(each.pack())
            for bucket in range(BUCKETS) if work.wakes_all else sorted(onward):
                state = states.open(work.pointers.get(("rows", bucket)))
                place, begin = work.shown.get(bucket, BEGIN), work.begins.get(bucket, BEGIN)
                succession = None if new is None else JoinSuccession(new, place, begin)
                mine = RecordWork.unpack(onward[bucket])
                yield bucket, apply_work(mine, work.floors, state, shape, succession, work.step)

        return carry_out

    def to_the_end(self) -> None:
        while (found := self.planner.latest(self.at)) != self.at:
            self.at = found
            plan = found.plan()
            self.runner.run(plan)
            if self.runner.committed.takeover is None:
                assert not self.runner.run(plan), "a batch that is run again writes nothing"


def edition_of(setup: Setup, ids: tuple[int, int] = (1, 2)) -> Edition:
    """A history's join over the topics of its tables."""
    places = range(len(setup.newest))
    inputs = tuple(Input(change(i), setup.newest[i], setup.readers[i].located) for i in places)
    join = setup.join.model_copy(update={"records_per_batch": 2})
    checked = CheckedJoin(join, inputs, setup.plan, setup.output, ())
    definition = definition_of(setup.join, [each.topic for each in inputs])
    return Edition(definition, checked, tuple(places), ids)


def world_of(seed: int, *, grouped: bool) -> JoinDriverHarness:
    return JoinDriverHarness(set_up(History(seed, grouped=grouped)))
