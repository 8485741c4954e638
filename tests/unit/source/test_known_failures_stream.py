"""What loses or doubles rows in other capture tools, or ends them: resumes, altered tables, failover, memory."""

from __future__ import annotations

import io
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from include.clock import ManualClock
from include.errors import Terminal
from include.log.memory import MemoryLog, MemoryRegistry
from include.policy.policy import Policy
from include.record.gtid import MariadbGtidSet, MysqlGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.record.schema import Column
from include.source.binlog.files import BinlogFile
from include.source.binlog.reader import Event, EventReader
from include.source.binlog.step import RowsEvent, SourceTransaction
from include.source.binlog.unpack import BinlogInput
from include.source.catalog.catalog import TableCatalog
from include.source.database.server import Server
from include.source.database.table_info import TableInfo
from include.source.definition import SourceDefinition
from include.source.log.direct_log import memory_log
from include.source.replicator import Replicator
from include.source.rows.encode import TableEncoders
from include.source.rows.images import RowImages
from include.source.rows.render import json_row
from include.source.state.capture_state import CaptureState
from tests.support.binlog.builder import SID, Log, builder, transactions
from tests.support.binlog.recorded_mariadb import MAP, SCHEMA, rows, transaction
from tests.support.golden.recording import load

MARIADB = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True)
NAMELESS = type(MAP)(0, "shop", "t", MAP.types, MAP.metas, MAP.nullable, signs_known=False)
SOURCE = SourceDefinition(host="db", port=1, user="u", password=SecretStr("p"), databases=["shop"], partitions=1)


def catalog(*columns: Column) -> TableCatalog:
    """Of a server on which `shop.t` has these columns today."""
    info = TableInfo("shop", "t")
    info.columns, info.key = list(columns), ("id",)
    return TableCatalog(lambda: {("shop", "t"): info}, MARIADB, Policy.declared("accept", {}, ["shop"]))


def raw_events(server: str, case: str) -> list[bytes]:
    data = load(server, case).data
    return list(BinlogFile("bin.000001", case, BinlogInput(io.BytesIO(data))).events())


def read(events: list[bytes]) -> Iterator[tuple[int, SourceTransaction]]:
    """Whole transactions, each with the number of the event that ended it."""
    reader, made = EventReader("bin.000001"), builder(database="golden")
    for number, data in enumerate(events):
        found = made.on_event(reader.parse(data))
        if isinstance(found, SourceTransaction):
            yield number, found


def told(transaction: SourceTransaction) -> tuple[str, str, list[tuple[str, str, bytes]]]:
    steps = [step for step in transaction.steps if isinstance(step, RowsEvent)]
    return transaction.gtid, str(transaction.end), [(step.table.table, step.op, step.body) for step in steps]


@pytest.mark.parametrize("server", ["mariadb-11.4", "mysql-9.7"])
@pytest.mark.parametrize("case", ["triggers", "multi-table", "sessions-at-once", "savepoints-mixed", "upserts"])
def test_whatever_a_stream_is_cut_at_each_row_comes_once(server: str, case: str) -> None:
    """python-mysql-replication #44 #252 #314, ghostferry #156, DBZ-8755: a resume inside of a transaction."""
    events = raw_events(server, case)
    whole = list(read(events))
    expected = [told(each) for _, each in whole]
    assert len(expected) > 2
    for cut in range(1, len(events) + 1):
        before = [each for number, each in whole if number < cut]
        resumed = next((number + 1 for number, each in whole if before and each is before[-1]), 1)
        after = [each for _, each in read([events[0], *events[resumed:]])]
        assert [*map(told, before), *map(told, after)] == expected


def test_positions_are_those_of_transactions_though_mariadb_states_none_inside_of_them() -> None:
    """go-mysql #901 #1052 #1153, dbtrail #1117: log_pos 0 since MariaDB 11.4 was stored, and rows were deleted."""
    events = raw_events("mariadb-11.4", "triggers")
    stated = [struct.unpack_from("<I", data, 13)[0] for data in events]
    assert stated.count(0) > 10
    ends = {sum(map(len, events[: number + 1])) + 4: stated[number] for number in range(len(events))}
    for _, each in read(events):
        assert ends[each.end.pos] == each.end.pos


def test_rows_of_before_an_alter_are_read_by_the_map_of_their_time() -> None:
    """dbz#2047, DBZ-8562, airbyte #74002, Altinity #507, risingwave #14394: a schema history that was lost."""
    today = catalog(Column("v", "varchar", charset="utf8mb4", length=9), Column("id", "bigint"))
    found = RowImages(today.layout(MAP))
    ((_, after),) = found.rows("c", rows("c", (1, 2, "three")).body)
    assert after is not None
    assert json_row(found.shape, after.row) == {"id": 1, "part": 2, "v": "three"}


def test_names_of_today_are_not_given_to_columns_of_yesterday() -> None:
    """python-mysql-replication: without names in the map it takes those of today, whatever the columns are."""
    today = catalog(Column("id", "int"), Column("v", "varchar", charset="utf8mb4", length=5), Column("part", "int"))
    with pytest.raises(Terminal, match=r"altered since its rows were written.*resume") as refused:
        today.layout(NAMELESS)
    assert (refused.value.details["table"], refused.value.details["column"]) == ("shop.t", "v")


def test_a_restart_needs_nothing_but_the_last_resolved_record_however_often_tables_were_altered() -> None:
    """Debezium, Maxwell: each ALTER adds to a history without bound, which is replayed at every start."""
    log = memory_log("s", MemoryLog(), MemoryRegistry(), ManualClock())
    log.open()
    encoders = TableEncoders("s", SOURCE, log)
    start = SourcePosition("mariadb", MariadbGtidSet(), BinlogPosition("bin.000001", 4), 0)
    state = CaptureState(tables={"shop.t": 0}, snapshot="done")
    core = Replicator("s", SOURCE, catalog(*SCHEMA.columns), encoders, ManualClock(), start, state)
    sizes = set()
    for number in range(100, 200):
        core.on_transaction(transaction(number, f"ALTER TABLE t ADD c{number} int", rows("c", (number, 1, "a"))))
        sizes.add(len(str({**core.flush().state.to_json(), "version": 0})))
    assert len(sizes) == 1


def test_a_set_with_holes_and_a_server_that_is_new_lose_no_transaction() -> None:
    """DBZ-923 -9682, dbz#2266, flink-cdc #271 #845, python #367: sets were compared by their ends."""
    holes = MysqlGtidSet.parse(f"{SID}:5-7:9")
    assert holes.add(f"{SID}:8") == MysqlGtidSet.parse(f"{SID}:5-9") != holes
    assert not holes.contains(MysqlGtidSet.parse(f"{SID}:8"))
    other = str(SID).replace("0", "9")
    after = holes.add(f"{other}:1")
    assert after.contains(holes)
    assert after.subtract(holes) == MysqlGtidSet.parse(f"{other}:1")
    server = Server("mysql", (9, 7, 4), "9.7.4", gtids=True)
    server.require(lambda _: [(f"{SID}:1-9,{other}:1",)], after, "db:1")
    with pytest.raises(Exception, match="lacks transactions"):
        server.require(lambda _: [(f"{SID}:1-99",)], after, "db:1")


def test_a_transaction_of_any_size_takes_a_few_megabytes(tmp_path: Path) -> None:
    """airbyte #26454, maxwell #1711 #1027, flink-cdc #865 #1375, seatunnel #12361, go-mysql PR #913."""
    made, found = builder(memory_bytes=1 << 18, folder=tmp_path), []
    event, rows_of_it = Log().gtid().map(1, "t").write(1, *range(20_000), end=False).events[-1], 0

    def events() -> Iterator[Event]:
        yield from Log().gtid().map(1, "t").events
        for _ in range(400):
            # A body of its own, as the socket gives them.
            yield event._replace(body=bytes(bytearray(event.body)))
        yield from Log().xid().events

    tracemalloc.start()
    try:
        found = transactions(events(), made)
        rows_of_it = sum((len(step.body) - 2) // 5 for step in found[0].steps if isinstance(step, RowsEvent))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(found), rows_of_it) == (1, 400 * 20_000)
    # Twice what it takes, as the tool that measures coverage needs memory of its own.
    assert found[0].size_bytes > 40_000_000 > 5 * peak
