"""Tables over a log in memory: their driver with tasks in this process, Delta logs in a local folder."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from include.clock import ManualClock
from include.errors import InvalidRecord
from include.lake.tables.bucket_file import RowColumns
from include.lake.tables.columns import KEY, VERSION
from include.lake.tables.definition import TableEntry
from include.lake.tables.delta_log import DeltaLog
from include.lake.tables.generation import generation_folder, generations_of
from include.lake.tables.rows import RowReader
from include.lake.tables.runner import TablesRunner
from include.lake.tables.task import apply_bucket, first_buckets, gather_records
from include.lake.tables.work import TableBucketResult, TableWork
from include.log import topics
from include.log.control import ControlRecord
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.planning.plan import BatchPlan, Cut
from include.log.ports import Record, TopicSpec
from include.log.publishing.letters import DeadLetterWriter
from include.record.codec import Decoder, Encoder
from include.record.gtid import parse_gtid_set
from include.record.key import partition_of
from include.record.position import BinlogPosition, SourcePosition
from include.record.version import from_headers, to_header
from include.store.memory import MemoryStore

SOURCE = "shop"
CHANGES = topics.change(SOURCE, "shop", "users")
PLAIN = "shop.joined"
PARTITIONS = 2
BUCKETS = 3
_KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}

ENTRY = TableEntry(application="tables", topics=("cdc.shop.shop.*", PLAIN), prefix="tables", buckets=BUCKETS)

Row = dict[str, Any]
Wrapped = Callable[[Any], Any]


class CrashError(Exception):
    """The process ends here."""


def row_schema(*more: Mapping[str, Any], amount: str = "int") -> dict[str, Any]:
    fields = [{"name": "id", "type": "int"}, {"name": "amount", "type": ["null", amount], "default": None}, *more]
    return {"type": "record", "name": "Value", "fields": fields}


def envelope(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ]
    return {"type": "record", "name": "Envelope", "fields": fields}


@dataclass
class Crashes:
    """Ends the process at a durable call: the n-th from now on, before or behind it."""

    left: int = -1
    behind: bool = False
    calls: int = 0

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def crashing(*args: Any, **named: Any) -> Any:
            self.calls += 1
            self.left -= 1
            if self.left == 0 and not self.behind:
                raise CrashError
            done = call(*args, **named)
            if self.left == 0:
                raise CrashError
            return done

        return crashing


class _Wrapped:
    """A port whose durable calls may crash."""

    def __init__(self, inner: Any, crashes: Crashes, names: Sequence[str]) -> None:
        self._inner, self._crashes, self._names = inner, crashes, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._crashes.wrap(found) if name in self._names else found


@dataclass
class TablesHarness:
    folder: Path
    random: random.Random = field(default_factory=lambda: random.Random(1))
    log: MemoryLog = field(default_factory=MemoryLog)
    registry: MemoryRegistry = field(default_factory=MemoryRegistry)
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: ManualClock = field(default_factory=ManualClock)
    crashes: Crashes = field(default_factory=Crashes)
    entry: TableEntry = field(default_factory=lambda: ENTRY)
    schema: dict[str, Any] = field(default_factory=row_schema)
    version: int = 0
    sequence: int = 0

    def __post_init__(self) -> None:
        admin = self.log.admin()
        for topic in (CHANGES, PLAIN):
            admin.ensure(topics.document_spec(topic, PARTITIONS))
        admin.ensure(TopicSpec(topics.control(SOURCE), 1))
        admin.ensure(TopicSpec(topics.dead(CHANGES, "tables"), 1))
        admin.ensure(TopicSpec(topics.dead(PLAIN, "tables"), 1))
        self.alter(self.schema)

    def alter(self, schema: dict[str, Any]) -> None:
        """The topics' rows have this schema from now on."""
        self.schema = schema
        self.key = Encoder(self.registry.register("key", _KEY, None), _KEY)
        self.of_topic = {
            topic: Encoder(self.registry.register(f"{topic}-value", made, "NONE"), made)
            for topic, made in ((CHANGES, envelope(schema)), (PLAIN, schema))
        }

    def write(self, topic: str, id_: int, row: Row | None, *, version: int | None = None) -> None:
        self.version += 1
        key = self.key({"id": id_})
        value = None
        if row is not None:
            full = {"id": id_, **row}
            value = self.of_topic[topic]({"before": None, "after": full, "op": "u"} if topic == CHANGES else full)
        self.raw(topic, key, value, self.version if version is None else version)

    def raw(
        self, topic: str, key: bytes | None, value: bytes | None, version: int, partition: int | None = None
    ) -> None:
        writer = self.log.writer("w")
        writer.begin()
        at = partition_of(key or b"", PARTITIONS) if partition is None else partition
        writer.append(topic, key, value, headers=(to_header(version),), partition=at)
        writer.commit()

    def truncate(self) -> None:
        self.version += 1
        control = ControlRecord("truncate", "shop", "users", self.version)
        self.raw(topics.control(SOURCE), control.key(), control.value(), self.version, 0)

    def some(self, count: int, keys: int = 12) -> None:
        for _ in range(count):
            topic, id_ = self.random.choice((CHANGES, PLAIN)), self.random.randrange(keys)
            gone = self.random.random() < 0.25
            if topic == CHANGES and gone and self.random.random() < 0.5:
                self.version += 1
                value = self.of_topic[topic]({"before": {"id": id_, "amount": 1}, "after": None, "op": "d"})
                self.raw(topic, self.key({"id": id_}), value, self.version)
                continue
            self.write(topic, id_, None if gone else {"amount": self.random.randrange(1000)})

    def records(self, topic: str) -> list[Record]:
        reader = self.log.reader()
        ends = reader.end_offsets(topic)
        return [record for p, end in ends.items() for record in reader.read(topic, p, 0, end)]

    def process(self) -> Process:
        return Process(self)

    def wanted(self, topic: str) -> dict[bytes, tuple[int, Row]]:
        """Key → version and row, by the records themselves."""
        decode = Decoder(self.registry.schema)
        floor = 0
        if topic == CHANGES:
            said = [ControlRecord.parse(each.value or b"") for each in self.records(topics.control(SOURCE))]
            floor = max((each.floor for each in said), default=0)
        newest: dict[bytes, tuple[int, Row | None]] = {}
        for record in self.records(topic):
            key, version = record.key or b"", from_headers(record.headers)
            try:
                value = None if record.value is None else decode(record.value)
            except InvalidRecord:
                continue
            if record.key is not None and version >= newest.get(key, (0, None))[0]:
                newest[key] = version, value["after"] if topic == CHANGES and value else value
        return {key: (v, row) for key, (v, row) in newest.items() if row is not None and v >= floor}

    def held(self, topic: str) -> dict[bytes, tuple[int, Row]]:
        """The same, by the table that is read."""
        numbers = generations_of(self.store, "tables", topic)
        assert numbers is not None
        folder = generation_folder("tables", topic, numbers.writing)
        state = DeltaLog(str(self.folder / folder), {}, self.clock).state()
        assert state is not None
        found: dict[bytes, tuple[int, Row]] = {}
        for bucket, files in state.files.items():
            for file in files:
                stored = self.store.get(f"{folder}/{file.path}")
                assert stored is not None
                assert stored.info.size_bytes == file.size_bytes
                for row in pq.read_table(pa.BufferReader(stored.body)).to_pylist():
                    key, version = row.pop(KEY), row.pop(VERSION)
                    assert partition_of(key, BUCKETS) == bucket
                    assert key not in found
                    found[key] = version, {name: row.get(name) for name in state.schema.names if name[0] != "_"}
        return found

    def equal(self, *topics_: str) -> bool:
        for topic in topics_ or (CHANGES, PLAIN):
            wanted, held = self.wanted(topic), self.held(topic)
            names = {name for _, row in held.values() for name in row}
            whole = {k: (v, {**dict.fromkeys(names), **row}) for k, (v, row) in wanted.items()}
            assert held == whole, topic
        return True


class Process:
    """The application, from its start to its end."""

    def __init__(self, world: TablesHarness) -> None:
        self.world = world
        durable = ("commit", "create", "add_columns")
        store: Any = _Wrapped(world.store, world.crashes, ("put", "put_if_absent", "put_if_match"))
        self._store = store
        self.letters = DeadLetterWriter(world.log.writer("dead"), world.log.reader())
        letters: Any = _Wrapped(self.letters, world.crashes, ("write",))

        def log_of(folder: str) -> Any:
            path = world.folder / folder
            path.mkdir(parents=True, exist_ok=True)
            return _Wrapped(DeltaLog(str(path), {}, world.clock), world.crashes, durable)

        self.runner = TablesRunner(
            "shop",
            world.entry,
            store=store,
            log_of=log_of,
            registry=world.registry,
            reader=world.log.reader(),
            letters=letters,
            deletions_kept_ms=lambda topic: world.log.admin().deletions_kept_ms(topic),
            clock=world.clock,
            carry_out=self._carry_out,
        )
        admin = world.log.admin()
        infos = [info for info in map(admin.describe, (CHANGES, PLAIN)) if info is not None]
        self.runner.open(infos, [SOURCE], [topics.source_resolved(SOURCE)])
        self.at = {(topic, p): offset for topic, ends in self.runner.start().items() for p, offset in ends.items()}

    def batch(self, most: int | None = None) -> BatchPlan:
        """A batch of so many records a partition at most; of all that there are, it is complete to a record."""
        world = self.world
        start, ends = dict(self.at), dict(self.at)
        for topic in (CHANGES, PLAIN, topics.control(SOURCE)):
            for p, end in world.log.reader().end_offsets(topic).items():
                first = self.at.get((topic, p), 0)
                start[topic, p], ends[topic, p] = first, end if most is None else min(end, first + most)
        infos = {t: info.topic_id for t in (CHANGES, PLAIN) if (info := world.log.admin().describe(t)) is not None}
        cuts = {}
        if most is None:
            world.sequence += 1
            gtids = parse_gtid_set(f"0-1-{world.sequence}", "mariadb")
            position = SourcePosition("mariadb", gtids, BinlogPosition("bin.1", 4), world.sequence)
            cuts[topics.source_resolved(SOURCE), SOURCE] = Cut(
                SOURCE, world.sequence, world.version, position, (), world.sequence
            )
        return BatchPlan(start, ends, infos, cuts)

    def run(self, plan: BatchPlan) -> Mapping[str, int]:
        counts = self.runner.run(plan)
        self.at = dict(plan.ends)
        return counts

    def _carry_out(self, works: Sequence[TableWork]) -> Mapping[str, Sequence[TableBucketResult]]:
        world, reader = self.world, self.world.log.reader()
        readers = {w.topic: RowReader(w.topic, change=w.change, schema_of=world.registry.schema) for w in works}
        shares: list[list[Record]] = [[], []]
        for work in works:
            for number, each in enumerate(work.slices):
                shares[number % 2] += reader.read(each.topic, each.partition, each.start, each.end)
        frames: dict[int, list[bytes]] = {}
        for share in shares:
            for bucket, frame in gather_records(works, readers, share).items():
                frames.setdefault(bucket, []).append(frame)
        first, _ = first_buckets(works)
        out: dict[str, list[TableBucketResult]] = {}
        for work in works:
            rows = RowColumns(work.topic, readers[work.topic].row_schema)
            for bucket in range(work.buckets):
                mine = frames.get(first[work.topic] + bucket, [])
                if mine or work.whole or work.floor:
                    out.setdefault(work.topic, []).append(apply_bucket(work, bucket, mine, rows, self._store))
        return out
