"""A table whose events are malformed is set aside, and no other with it; or the source stops, as declared."""

from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.errors import Terminal
from include.log.memory import MemoryLog, MemoryRegistry
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.record.schema import Column
from include.source.binlog.reader import EventType
from include.source.catalog.catalog import TableCatalog
from include.source.database.server import Server
from include.source.database.table_info import TableInfo
from include.source.definition import SourceDefinition
from include.source.log.direct_log import memory_log
from include.source.replicator import Replicator
from include.source.rows.encode import TableEncoders
from include.source.state.capture_state import CaptureState
from tests.support.binlog.builder import Log, table_map_body, transactions

START = SourcePosition("mariadb", MariadbGtidSet(), BinlogPosition("bin.000001", 4), 0)
SERVER = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True)
# Signs, names, primary key of the one column.
FIELDS = b"\x01\x01\x00" + b"\x04\x03\x02id" + b"\x08\x01\x00"
WHOLE = table_map_body(1, "t", fields=FIELDS)
NAMED = len(table_map_body(1, "t", types=b"")) - 2


def capture(unreadable: str = "table") -> Replicator:
    given = {"host": "db", "port": 1, "user": "u", "password": "p", "databases": ["shop"], "unreadable": unreadable}
    source = SourceDefinition.model_validate(given)
    log = memory_log("s", MemoryLog(), MemoryRegistry(), ManualClock())
    log.open()
    infos = {}
    for name in ("t", "u"):
        infos["shop", name] = info = TableInfo("shop", name)
        info.columns, info.key = [Column("id", "int")], ("id",)
    catalog = TableCatalog(lambda: infos, SERVER, source.policy)
    state = CaptureState(tables={"shop.t": 0, "shop.u": 0}, snapshot="done")
    return Replicator("s", source, catalog, TableEncoders("s", source, log), ManualClock(), START, state)


def streamed(body: bytes, core: Replicator) -> list[str]:
    """Topics of the records that come of a row of `t` under that map, and one of `u`, in two transactions."""
    log = Log().gtid().add(EventType.TABLE_MAP, body).write(1, 5).insert("u", 3).xid().gtid().insert("u", 4).xid()
    for each in transactions(log.events):
        core.on_transaction(each)
    return [output.topic.rpartition(".")[2] for output in core.flush().outputs]


def test_a_map_that_says_what_the_table_is_is_read() -> None:
    core = capture()
    assert streamed(WHOLE, core) == ["t", "u", "u"]
    assert core.state.aside == {}


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (table_map_body(1, "t", fields=FIELDS + b"\x04\x01\x09"), "comes twice"),
        (table_map_body(1, "t", fields=b"\x04\x09"), "cut short or malformed"),
        (table_map_body(1, "t", types=b"\x4d", fields=FIELDS), "type code is not known"),
        (table_map_body(1, "t", metas=b"\x01", fields=FIELDS), "metadata of shop.t"),
    ],
)
def test_a_malformed_map_sets_its_table_aside_or_stops_the_source(body: bytes, cause: str) -> None:
    core = capture()
    assert streamed(body, core) == ["u", "u"]
    assert list(core.state.aside) == ["shop.t"]
    assert cause in core.state.aside["shop.t"].cause
    with pytest.raises(Terminal) as refused:
        streamed(body, capture("source"))
    assert refused.value.details["table"] == "shop.t"


def test_a_map_with_any_byte_other_or_cut_anywhere_costs_its_own_table_alone() -> None:
    aside = 0
    for place in range(NAMED, len(WHOLE)):
        broken = [WHOLE[:place] + bytes((WHOLE[place] ^ 1 << bit,)) + WHOLE[place + 1 :] for bit in range(8)]
        for body in (*broken, WHOLE[:place]):
            core = capture()
            topics = streamed(body, core)
            # Read as what the table is, or not at all.
            assert topics == (["u", "u"] if core.state.aside else ["t", "u", "u"])
            assert set(core.state.aside) <= {"shop.t"}
            aside += len(core.state.aside)
    assert aside > 80
