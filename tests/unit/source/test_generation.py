"""A table whose key columns change goes into a new generation of its topic, when somebody asks for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import SecretStr

from include.clock import ManualClock
from include.errors import Terminal
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.topics import change, source_resolved
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.binlog.transaction import RowsEvent
from include.source.catalog.catalog import TableCatalog
from include.source.database.server import Server
from include.source.database.table_info import TableInfo
from include.source.definition import SourceDefinition
from include.source.generation import outgrown, renew
from include.source.log.direct_log import memory_log
from include.source.replicator import Replicator
from include.source.rows.encode import TableEncoders
from include.source.state.capture_state import CaptureState
from include.source.state.job import Job
from tests.support.binlog.recorded_mariadb import MAP, SCHEMA, rows, transaction

TOPIC = change("s", "shop", "t")
START = SourcePosition("mariadb", MariadbGtidSet(), BinlogPosition("bin.000001", 4), 0)
SERVER = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True)
REQUEST = Job("r", ("shop.t",), gap=True, asked=True)


class Harness:
    """One capture on a log in memory, of a table whose key may be altered."""

    def __init__(self) -> None:
        self.source = SourceDefinition(host="db", port=1, user="u", password=SecretStr("p"), databases=["shop"])
        self.memory, self.clock = MemoryLog(), ManualClock()
        self.registry = MemoryRegistry()
        self.info: TableInfo | None = TableInfo("shop", "t")
        self.info.columns, self.info.key = list(SCHEMA.columns), SCHEMA.key
        self.begin()

    def begin(self) -> None:
        """Another session, from what the last one committed."""
        self.log = memory_log("s", self.memory, self.registry, self.clock)
        found = self.log.open()
        state = found.state if found else CaptureState(tables={"shop.t": 0}, snapshot="done")
        self.encoders = TableEncoders("s", self.source, self.log)
        self.catalog = TableCatalog(dict, SERVER, self.source.policy, describe=lambda *_: self.info)
        position = found.position if found else START
        self.core = Replicator("s", self.source, self.catalog, self.encoders, self.clock, position, state)

    def alter(self, *key: str) -> None:
        assert self.info is not None
        columns, self.info = self.info.columns, TableInfo("shop", "t")
        self.info.columns, self.info.key = columns, key
        self.catalog.forget()

    def take(self, number: int, *steps: RowsEvent | str) -> None:
        self.core.on_transaction(transaction(number, *steps))
        self.log.commit(self.core.flush())

    def ask(self) -> None:
        """Somebody asks for the table, as the desk takes it."""
        self.core.state = replace(self.core.state.without_aside(["shop.t"]), jobs=(REQUEST,))
        self.log.commit(self.core.flush())

    def renew(self) -> list[str]:
        found = outgrown(self.core.state, self.catalog, self.encoders)
        renew(self.core, self.encoders, found)
        self.log.commit(self.core.flush())
        return [schema.full_name for schema in found]

    def keys(self) -> list[bytes]:
        reader = self.memory.reader()
        ends = reader.end_offsets(TOPIC)
        return sorted({r.key or b"" for partition, end in ends.items() for r in reader.read(TOPIC, partition, 0, end)})


def by_part(step: RowsEvent) -> RowsEvent:
    """The rows under the map of a table with the key (id, part)."""
    return RowsEvent(replace(MAP, key=(0, 1)), step.op, step.body)


@pytest.fixture
def world() -> Harness:
    """A table with rows in its topic, whose key was altered, and which was set aside for that."""
    made = Harness()
    made.take(1, rows("c", (1, 5, "a")))
    made.alter("id", "part")
    made.take(2, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, part)", by_part(rows("c", (2, 5, "b"))))
    return made


def test_a_table_with_another_key_is_set_aside_with_what_to_do(world: Harness) -> None:
    cause = world.core.state.aside["shop.t"].cause
    assert "key columns" in cause
    assert "lyrebird capture resume-table" in cause
    assert len(world.keys()) == 1


def test_no_topic_is_made_anew_that_nobody_asked_for(world: Harness) -> None:
    topic = world.memory.admin().describe(TOPIC)
    assert world.renew() == []
    world.core.state = replace(world.core.state, jobs=(replace(REQUEST, asked=False),))
    assert world.renew() == []
    assert world.memory.admin().describe(TOPIC) == topic


def test_a_topic_that_is_asked_for_is_made_anew_and_takes_the_rows_that_follow(world: Harness) -> None:
    before, old_key = world.memory.admin().describe(TOPIC), world.keys()
    world.ask()
    assert world.renew() == ["shop.t"]
    after = world.memory.admin().describe(TOPIC)
    assert before is not None
    assert after is not None
    assert after.topic_id != before.topic_id
    assert world.keys() == []
    assert world.renew() == []
    world.take(3, by_part(rows("u", (1, 5, "a"), (1, 6, "a"))))
    assert world.core.state.aside == {}
    assert len(world.keys()) == 2
    assert not set(world.keys()) & set(old_key)


def test_a_crash_before_the_new_key_is_committed_makes_the_topic_anew_once_more(world: Harness) -> None:
    world.ask()
    found = outgrown(world.core.state, world.catalog, world.encoders)
    renew(world.core, world.encoders, found)
    # Nothing of that was committed.
    world.begin()
    assert world.renew() == ["shop.t"]
    world.begin()
    assert world.renew() == []
    world.take(3, by_part(rows("c", (3, 5, "c"))))
    assert len(world.keys()) == 1


def test_the_old_key_is_not_taken_for_the_new_one_when_it_comes_back(world: Harness) -> None:
    world.ask()
    world.renew()
    world.alter("id")
    world.take(3, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)", rows("c", (3, 5, "c")))
    assert "key columns" in world.core.state.aside["shop.t"].cause
    assert world.keys() == []


def test_rows_that_were_written_under_the_old_key_are_read_by_their_own_map(world: Harness) -> None:
    early = Harness()
    early.take(1, rows("c", (1, 5, "a")))
    # The server has altered the table, capture has not come there.
    early.alter("id", "part")
    early.take(2, rows("c", (2, 5, "b")))
    assert early.core.state.aside == {}
    assert len(early.keys()) == 2


def test_a_table_that_is_gone_or_cannot_be_read_is_left_to_its_snapshot(world: Harness) -> None:
    world.ask()
    info = world.info
    world.info = None
    assert outgrown(world.core.state, world.catalog, world.encoders) == []
    world.info = info
    assert info is not None
    info.columns[0] = replace(info.columns[0], type="unheard")
    assert outgrown(world.core.state, world.catalog, world.encoders) == []


def test_resolved_records_of_a_new_generation_begin_at_its_beginning(world: Harness) -> None:
    world.ask()
    world.renew()
    reader = world.memory.reader()
    end = reader.end_offsets(source_resolved("s"))[0]
    last = [record.value for record in reader.read(source_resolved("s"), 0, 0, end) if record.value][-1]
    assert last is not None
    assert TOPIC.encode() in last


def test_a_snapshot_of_a_table_with_another_key_is_refused_before_anything_is_written(world: Harness) -> None:
    assert world.info is not None
    schema = world.catalog.shape(world.info).schema
    with pytest.raises(Terminal, match="key columns of a table changed"):
        world.core.on_snapshot_rows(schema, [])
    assert not world.core.pending
