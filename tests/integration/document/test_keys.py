"""Composite and text keys, FLOATs and a large dimension through the assembler, from a real server's tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from include.clock import ManualClock
from include.document import batch_keys as wanted
from include.document.batch import BatchRunner
from include.document.behind import Reach, page, values_of
from include.document.database import DatabaseAddress
from include.document.definition import DocumentDefinition
from include.document.reading.mysql import MysqlTables
from include.document.signals import Inputs, Signals
from include.log import topics
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.planning.plan import BatchPlan, Cut
from include.log.publishing.publisher import Publisher
from include.log.resolved import ResolvedWriter
from include.metrics.exporter import Metrics
from include.record.codec import Decoder
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition

TOPIC = "parcels"
DEFINITION = DocumentDefinition.model_validate(
    {
        "application": "assemble_parcels",
        "source": "depot",
        "database": "depot",
        "entity": "parcel",
        "partitions": 2,
        "fact": {"table": "parcels", "key": ["code", "leg"], "newest_by": "id", "state": "state", "final": ["done"]},
        "fields": {"code": "code", "leg": "leg", "kg": "kg"},
        "lookups": {
            "depot": {"table": "depots", "where": {"name": "depot"}, "value": "city"},
            "marks": {
                "via": [{"table": "marked", "where": {"code": "code", "leg": "leg"}}],
                "table": "marks",
                "where": {"id": "mark"},
                "many": True,
                "order_by": ["name"],
                "value": "name",
            },
        },
        "signals": ["depots"],
        "batch_keys": 700,
        "rebuild_keys": 300,
    }
)
TABLES = (
    """CREATE TABLE parcels (id int AUTO_INCREMENT PRIMARY KEY, code varchar(40) NOT NULL, leg bigint NOT NULL,
        state varchar(9), kg float, depot varchar(20), KEY (code, leg), KEY (depot)) COLLATE utf8mb4_general_ci""",
    "CREATE TABLE depots (name varchar(20) PRIMARY KEY, city varchar(20)) COLLATE utf8mb4_general_ci",
    "CREATE TABLE marked (code varchar(40), leg bigint, mark int, KEY (code, leg)) COLLATE utf8mb4_bin",
    "CREATE TABLE marks (id int PRIMARY KEY, name varchar(20)) COLLATE utf8mb4_general_ci",
    "INSERT INTO depots VALUES ('Nord', 'Kiel'), ('süd', 'Ulm')",
    "INSERT INTO marks VALUES (1, 'glass'), (2, 'late')",
)
ODD = ["a", "A", "a ", "日本 '%s'", '["a",1]', "007", "x" * 40, "é"]


class Depot:
    """Tables on the server, a log in memory, and batches that tests cut themselves."""

    def __init__(self, mariadb: Any, name: str) -> None:
        self.admin, self.name = mariadb.connect(), name
        self.run(f"CREATE DATABASE {name}", f"USE {name}", *TABLES)
        self.clock, self.registry = ManualClock(), MemoryRegistry()
        self.log = MemoryLog(self.clock)
        self.inputs = Inputs(TOPIC, DEFINITION)
        server = DatabaseAddress(host=mariadb.host, port=mariadb.port, user="root", password=mariadb.root_password)
        self.tables = MysqlTables(server, name)
        self.version = 0
        writer, admin = self.log.writer("capture"), self.log.admin()
        for topic in (*self.inputs.all(), self.inputs.cut_at):
            if topic != self.inputs.requests:
                admin.ensure(topics.document_spec(topic, 1))
        writer.begin()
        for key, value in ResolvedWriter("depot", None, {}).records({}, version=1, position=self.at(), now_us=1)[1]:
            writer.append(self.inputs.cut_at, key, value, partition=0)
        writer.commit()
        publisher = Publisher(
            TOPIC,
            DEFINITION.application,
            ("depot",),
            self.inputs.all(),
            open_writer=self.log.writer,
            finish=lambda id_, places, commit: self.log.finish(id_, places, commit=commit),
            reader=self.log.reader(),
            admin=admin,
            clock=self.clock,
        )
        self.runner = BatchRunner(
            self.inputs, publisher, self.tables, self.log.reader(), self.registry, self.clock, Metrics("parcels")
        )
        assert self.runner.start() is not None

    def at(self) -> SourcePosition:
        """Before all: the database is read as it is."""
        return SourcePosition("mariadb", parse_gtid_set("", "mariadb"), BinlogPosition("a.000001", 0), 0)

    def run(self, *statements: str, rows: Any = None) -> None:
        with self.admin.cursor() as cursor:
            for statement in statements:
                cursor.executemany(statement, rows) if rows else cursor.execute(statement)

    def batch(self, signals: Signals | None = None) -> None:
        self.version += 1_000
        place = (self.inputs.fact, 0)
        start, end = {place: self.version - 1_000}, {place: self.version}
        cut = Cut("depot", self.version, self.version, self.at(), (), self.version)
        plan = BatchPlan(start, end if signals else start, {}, {(self.inputs.cut_at, "depot"): cut})
        self.runner.run(plan, lambda: signals or Signals())

    def settle(self) -> int:
        """Batches until no request is open; their number."""
        for number in range(100):
            if not self.runner._rebuilds.open and number:
                return number
            self.batch()
        raise AssertionError("requests stay open")

    def written(self) -> int:
        """Documents that were written."""
        reader = self.log.reader()
        return sum(len(list(reader.read(TOPIC, p, 0, end))) for p, end in reader.end_offsets(TOPIC).items())

    def rows_read(self) -> int:
        """By the reading connection, as the server's engines count."""
        found = self.tables._execute("SHOW SESSION STATUS LIKE 'Handler_read%%'")
        return sum(int(count) for _, count in found)

    def documents(self) -> dict[tuple[str, int], Any]:
        reader, decode = self.log.reader(), Decoder(self.registry.schema)
        return {
            tuple(decode(r.key).values()): r.value and decode(r.value)
            for p, end in reader.end_offsets(TOPIC).items()
            for r in reader.read(TOPIC, p, 0, end)
            if r.key is not None
        }

    def close(self) -> None:
        self.tables.close()
        self.run(f"DROP DATABASE {self.name}")
        self.admin.close()


@pytest.fixture
def depot(mariadb: Any, unique: str) -> Iterator[Depot]:
    made = Depot(mariadb, unique)
    yield made
    made.close()


def expected(key: tuple[str, int], kg: float, city: str, marks: list[str]) -> dict[str, Any]:
    return {"code": key[0], "leg": key[1], "kg": kg, "depot": city, "marks": marks}


def test_composite_and_text_keys_are_kept_apart_and_join_as_their_columns_compare(depot: Depot) -> None:
    keys = [(code, leg) for code in ODD for leg in (1, 2**53 + 1)]
    rows = [(code, leg, "done", 16777217 / 3, "NORD " if leg == 1 else "SÜD") for code, leg in keys]
    depot.run("INSERT INTO parcels (code, leg, state, kg, depot) VALUES (%s, %s, %s, %s, %s)", rows=rows)
    depot.run("INSERT INTO marked VALUES ('a', 1, 1), ('a', 1, 2), ('A', 1, 2)")
    depot.settle()
    kg = 5592405.5
    marks = {("a", 1): ["glass", "late"], ("a ", 1): ["glass", "late"], ("A", 1): ["late"]}
    assert depot.documents() == {
        key: expected(key, kg, "Kiel" if key[1] == 1 else "Ulm", marks.get(key, [])) for key in keys
    }
    # One of them goes, and one changes: the others that the column holds equal stay as they are.
    depot.run("DELETE FROM parcels WHERE BINARY code = 'A' AND leg = 1")
    depot.run("UPDATE parcels SET kg = 1 WHERE BINARY code = 'a ' AND leg = 1")
    depot.batch(Signals(keys={("A", 1): depot.version + 1, ("a ", 1): depot.version + 2}))
    found = depot.documents()
    assert (found["A", 1], found["a ", 1]["kg"], found["a", 1]["kg"]) == (None, 1.0, kg)
    depot.run("TRUNCATE parcels")
    depot.batch(Signals(floor=depot.version + 1))
    assert set(depot.documents().values()) == {None}


def test_a_dimension_of_more_keys_than_are_gathered_is_walked_by_its_index_and_no_other_document_is_read(
    depot: Depot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wanted, "MOST_KEYS", 100)
    places = ("nord", "NORD ", "Süd", "süd")
    rows = [(f"p{n // 2}", n % 2, "done", n, places[n % 4]) for n in range(8_000)]
    depot.run("INSERT INTO parcels (code, leg, state, kg, depot) VALUES (%s, %s, %s, %s, %s)", rows=rows)
    depot.settle()
    depot.run("ANALYZE TABLE parcels", "UPDATE depots SET city = 'Kiel-Nord' WHERE name = 'NORD'")
    path = next(n for n, path in enumerate(DEFINITION.paths()) if path.table == "depots")
    before = depot.written()
    depot.batch(Signals(rows={(path, ("Nord",)): depot.version + 1}))
    (work,) = depot.runner._rebuilds.open.values()
    reach = Reach(DEFINITION.paths()[path].hops, tuple(map(values_of, work.request.keys)))
    read, place, pages = depot.rows_read(), work.place, 0
    while True:
        with depot.tables.snapshot() as now:
            keys = page(now, DEFINITION.fact, depot.runner._encoders.order, reach, place, 300)
        pages, place = pages + 1, keys.next
        if keys.finished:
            break
    assert pages == 14
    # The table's rows, by the key or the dimension's index as the server likes, and each text key's own spellings.
    assert depot.rows_read() - read < 3 * 8_000, "not the table for each page, nor what is left of it"
    assert depot.settle() >= 13
    cities = {key: body["depot"] for key, body in depot.documents().items()}
    assert cities == {(f"p{n // 2}", n % 2): "Kiel-Nord" if n % 4 < 2 else "Ulm" for n in range(8_000)}
    assert depot.written() - before == 4_000


def test_a_dimension_of_thousands_of_documents_is_worked_off_in_parts_that_a_server_answers(depot: Depot) -> None:
    rows = [(f"p{n}", n, "done", n, "nord") for n in range(3_000)]
    depot.run("INSERT INTO parcels (code, leg, state, kg, depot) VALUES (%s, %s, %s, %s, %s)", rows=rows)
    depot.settle()
    assert {body["depot"] for body in depot.documents().values()} == {"Kiel"}
    depot.run("UPDATE depots SET city = 'Kiel-Nord' WHERE name = 'NORD'")
    path = next(n for n, path in enumerate(DEFINITION.paths()) if path.table == "depots")
    depot.batch(Signals(rows={(path, ("Nord",)): depot.version + 1}))
    cities = [body["depot"] for body in depot.documents().values()]
    assert cities.count("Kiel-Nord") == DEFINITION.batch_keys
    assert depot.settle() >= 8
    assert {body["depot"] for body in depot.documents().values()} == {"Kiel-Nord"}
    assert len(depot.documents()) == 3_000
