"""A small shop in memory: its tables, what capture writes of them, and an assembler process over ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from include.clock import ManualClock
from include.document.batch import BatchRunner
from include.document.definition import DocumentDefinition
from include.document.making import MakeRest
from include.document.reading.tables import MemoryTables, SourceTables
from include.document.signals import Inputs, SignalFold, Signals
from include.log import topics
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.planning.plan import BatchPlan, StreamSpec
from include.log.planning.planner import BatchPlanner
from include.log.planning.survey import PortSurvey
from include.log.planning.tail import PortTail, ResolvedTail
from include.log.ports import LogWriter, Record, TopicSpec
from include.log.publishing.publisher import Publisher
from include.log.requests.records import Answer, Request
from include.metrics.exporter import Metrics
from include.record.codec import Decoder
from include.record.schema import Column, TableSchema
from include.record.version import from_headers
from tests.support.source.captured_changes import CapturedChanges

TOPIC = "assembled_order"
APPLICATION = "assemble_orders"

DEFINITION = DocumentDefinition.model_validate(
    {
        "application": APPLICATION,
        "source": "shop",
        "database": "shop",
        "entity": "order",
        "partitions": 2,
        "fact": {
            "table": "orders",
            "key": ["order_id"],
            "newest_by": "id",
            "state": "state",
            "final": ["completed", "cancelled"],
        },
        "fields": {"order_id": "order_id", "row": "id", "state": "state"},
        "lookups": {
            "partner": {"table": "partners", "where": {"id": "partner_id"}, "fields": {"name": "name"}},
            "region": {
                "via": [{"table": "partners", "where": {"id": "partner_id"}}],
                "table": "regions",
                "where": {"id": "region_id"},
                "value": "name",
            },
            "policy": {
                "table": "policies",
                "where": {"id": "policy_id"},
                "required": False,
                "fields": {"name": "name"},
            },
            "lines": {
                "table": "lines",
                "where": {"order_row": "id"},
                "many": True,
                "order_by": ["number"],
                "fields": {"number": "number", "quantity": "quantity", "price": "price"},
            },
        },
        "computed": {"total": {"hook": "include.document.hooks.lines_total", "type": "decimal(14,2)"}},
        "signals": ["partners", "regions"],
        "rebuild_keys": 2,
        "dead_run": 10,
    }
)


def _columns(**kinds: str) -> tuple[Column, ...]:
    return tuple(
        Column(name, kind, precision=12 if kind == "decimal" else None, scale=2 if kind == "decimal" else None)
        for name, kind in kinds.items()
    )


COLUMNS = {
    "orders": _columns(id="bigint", order_id="bigint", state="enum", partner_id="int", policy_id="int"),
    "partners": _columns(id="int", name="varchar", secret="varchar", region_id="int"),
    "regions": _columns(id="int", name="varchar"),
    "policies": _columns(id="int", name="varchar"),
    "lines": _columns(id="bigint", order_row="bigint", number="int", quantity="int", price="decimal"),
}
SCHEMAS = [TableSchema("shop", table, columns, ("id",)) for table, columns in COLUMNS.items()]

Row = dict[str, Any]


class OrderHarness:
    """The database, the log, and what was done to both. A change is in the database before it is in the log."""

    def __init__(self, definition: DocumentDefinition = DEFINITION) -> None:
        self.definition = definition
        self.clock = ManualClock(1_000_000)
        self.log = MemoryLog(self.clock)
        self.registry = MemoryRegistry()
        self.inputs = Inputs(TOPIC, definition)
        self.tables = MemoryTables({name: [] for name in COLUMNS}, COLUMNS)
        self.capture = CapturedChanges(
            self.log.writer("capture"), self.log.admin(), self.registry, SCHEMAS, partition_by={"orders": "order_id"}
        )
        self._ids: Counter[str] = Counter()

    def insert(self, table: str, **values: Any) -> Row:
        """A row, in the database and in the log."""
        return self.transaction((table, values))[0]

    def transaction(self, *rows: tuple[str, dict[str, Any]]) -> list[Row]:
        """Rows of one transaction."""
        made = []
        for table, values in rows:
            self._ids[table] += 1
            row = {"id": self._ids[table], **values}
            self.tables.tables[table].append(row)
            made.append((table, row))
        self.capture.commit(*(("c", table, None, row) for table, row in made))
        return [row for _, row in made]

    def update(self, table: str, row_id: int, **values: Any) -> None:
        """Change a row in place."""
        rows = self.tables.tables[table]
        place = next(n for n, row in enumerate(rows) if row["id"] == row_id)
        before, after = rows[place], {**rows[place], **values}
        rows[place] = after
        self.capture.commit(("u", table, before, after))

    def delete(self, table: str, row_id: int) -> None:
        """Remove a row."""
        rows = self.tables.tables[table]
        (row,) = [row for row in rows if row["id"] == row_id]
        rows.remove(row)
        self.capture.commit(("d", table, row, None))

    def furnish(self) -> None:
        """Two regions, two partners, a policy."""
        self.insert("regions", name="north")
        self.insert("regions", name="south")
        self.insert("partners", name="Ada", secret="x", region_id=1)
        self.insert("partners", name="Bob", secret="y", region_id=2)
        self.insert("policies", name="strict")

    def order(self, order_id: int, state: str = "completed", partner_id: int = 1, policy_id: int | None = None) -> Row:
        """A row version of an order with one line, in one transaction."""
        row_id = self._ids["orders"] + 1
        line = {"order_row": row_id, "number": 1, "quantity": 2, "price": Decimal("1.50")}
        order = {"order_id": order_id, "state": state, "partner_id": partner_id, "policy_id": policy_id}
        return self.transaction(("lines", line), ("orders", order))[1]

    def ask(self, request: Request) -> None:
        """Append a request."""
        name = topics.requests(TOPIC)
        self.log.admin().ensure(TopicSpec(name, 1, topics.policy(name)))
        writer = self.log.writer("asker")
        writer.begin()
        writer.append(name, request.key(), request.value())
        writer.commit()

    # What came out

    def records(self, topic: str = TOPIC) -> list[Record]:
        """Committed records of a topic, partition by partition."""
        reader = self.log.reader()
        if self.log.admin().describe(topic) is None:
            return []
        return [r for p, end in reader.end_offsets(topic).items() for r in reader.read(topic, p, 0, end)]

    def documents(self) -> dict[int, dict[str, Any] | None]:
        """Newest document of each order id; None is a tombstone. Fails when a (key, version) stands twice."""
        decode = Decoder(self.registry.schema)
        seen = Counter((r.key, from_headers(r.headers)) for r in self.records())
        assert not [twice for twice, times in seen.items() if times > 1]
        newest: dict[bytes, tuple[int, Record]] = {}
        for record in self.records():
            version = from_headers(record.headers)
            assert record.key is not None
            assert version > newest.get(record.key, (0, record))[0], "versions of a key grow"
            newest[record.key] = version, record
        return {decode(key)["order_id"]: decode(r.value) if r.value else None for key, (_, r) in newest.items()}

    def living(self, order_id: int) -> dict[str, Any]:
        """The newest document of an order that has one."""
        document = self.documents()[order_id]
        assert document is not None
        return document

    def versions(self, order_id: int) -> list[int]:
        """Versions of an order's documents, in order."""
        decode = Decoder(self.registry.schema)
        return [
            from_headers(r.headers)
            for r in self.records()
            if r.key is not None and decode(r.key)["order_id"] == order_id
        ]

    def answers(self) -> dict[str, Answer]:
        """Newest answer of each request."""
        return {a.id: a for a in (Answer.parse(r.value) for r in self.records(topics.answers(TOPIC)) if r.value)}

    def expected(self) -> dict[int, dict[str, Any]]:
        """What search should answer: computed here by plain loops."""
        tables = self.tables.tables
        named = {table: {row["id"]: row for row in tables[table]} for table in ("partners", "regions", "policies")}
        out: dict[int, dict[str, Any]] = {}
        for row in sorted(tables["orders"], key=lambda row: row["id"]):
            if row["state"] == "pending":
                continue
            partner = named["partners"][row["partner_id"]]
            policy = named["policies"].get(row["policy_id"])
            lines = [each for each in tables["lines"] if each["order_row"] == row["id"]]
            out[row["order_id"]] = {
                "order_id": row["order_id"],
                "row": row["id"],
                "state": row["state"],
                "partner": {"name": partner["name"]},
                "region": named["regions"][partner["region_id"]]["name"],
                "policy": policy and {"name": policy["name"]},
                "lines": [{name: each[name] for name in ("number", "quantity", "price")} for each in lines],
                "total": sum((each["quantity"] * each["price"] for each in lines), Decimal("0.00")),
            }
        return out


class Process:
    """One run of the assembler: dies with its memory, leaves the log."""

    def __init__(
        self,
        world: OrderHarness,
        *,
        wrap: Callable[[LogWriter], LogWriter] = lambda writer: writer,
        tables: SourceTables | None = None,
        make: MakeRest | None = None,
    ) -> None:
        log = world.log
        self.world = world
        self.reader = log.reader()
        self.publisher = Publisher(
            TOPIC,
            APPLICATION,
            ("shop",),
            world.inputs.all(),
            open_writer=lambda name: wrap(log.writer(name)),
            finish=lambda name, places, commit: log.finish(name, places, commit=commit),
            reader=self.reader,
            admin=log.admin(),
            clock=world.clock,
        )
        self.metrics = Metrics(APPLICATION)
        self.runner = BatchRunner(
            world.inputs,
            self.publisher,
            tables or world.tables,
            self.reader,
            world.registry,
            world.clock,
            self.metrics,
            make=make,
        )
        self.signals: list[Signals] = []
        self.plans: list[BatchPlan] = []

    def start(self) -> bool:
        """False while there is no resolved record to begin at."""
        start = self.runner.start()
        if start is None:
            return False
        spec = StreamSpec(
            "memory",
            tuple(self.world.inputs.all()),
            start,
            (self.world.inputs.cut_at,),
            topic_ids=self.runner.topic_ids,
            cut_limit=self.world.definition.batch_changes,
        )
        tail = ResolvedTail(PortTail(self.reader, self.world.inputs.cut_at), self.world.inputs.cut_at)
        self.planner = BatchPlanner(spec, PortSurvey(self.reader, self.world.log.admin()), [tail], self.world.clock)
        self.at = spec.initial()
        return True

    def batches(self) -> int:
        """Run what there is; the number of batches."""
        done = 0
        while (after := self.planner.latest(self.at)) is not self.at:
            plan = after.plan()
            self.plans.append(plan)
            self.runner.run(plan, partial(self.collect, plan))
            self.at = after
            done += 1
        return done

    def collect(self, plan: BatchPlan) -> Signals:
        """What Spark's workers do, each partition a task of its own."""
        found = Signals()
        for (topic, partition), end in plan.ends.items():
            fold = SignalFold(self.world.inputs, Decoder(self.world.registry.schema))
            for record in self.reader.read(topic, partition, plan.start[topic, partition], end):
                fold.on_record(record)
            found.merge(fold.signals)
        self.signals.append(found)
        return self.signals[-1]

    def settle(self, beats: int = 8) -> None:
        """Start, then run with heartbeats until requests are worked off."""
        assert self.start()
        for _ in range(beats):
            self.world.clock.advance(2)
            self.world.capture.heartbeat()
            self.batches()


def live(documents: Mapping[int, Any]) -> dict[int, Any]:
    """Without tombstones."""
    return {key: body for key, body in documents.items() if body is not None}
