"""A run of plain transactions leaves what its transactions leave one by one."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from include.clock import ManualClock
from include.errors import LyrebirdError, Terminal
from include.log.memory import MemoryLog, MemoryRegistry
from include.record.gtid import Flavour, parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.record.schema import TableSchema
from include.source.binlog.events import QueryEvent
from include.source.binlog.files import BinlogFile
from include.source.binlog.reader import EventReader
from include.source.binlog.step import Heartbeat, PlainRun, SourceTransaction
from include.source.binlog.table_map import TableMap
from include.source.binlog.transaction import TransactionBuilder
from include.source.binlog.unpack import BinlogInput
from include.source.definition import SourceDefinition
from include.source.log.direct_log import memory_log
from include.source.ports import Group
from include.source.replicator import Replicator
from include.source.rows.columns import mapped
from include.source.rows.encode import TableEncoders
from include.source.rows.layout import Layout, layout
from include.source.rows.shape import TableShape
from include.source.snapshot.watermark_window import WatermarkWindow
from include.source.state.capture_state import CaptureState, TableSetAside
from tests.support.binlog.mutations import flipped, recordings

pytestmark = pytest.mark.compiled

FOLDER = Path(gettempdir())
DATABASES = ["golden", "lyregold", "shop"]
Item = PlainRun | SourceTransaction


class Described:
    """Tables as their maps describe them, keyed by their first column."""

    def __init__(self, flavour: Flavour) -> None:
        self._flavour = flavour

    def layout(self, table: TableMap) -> Layout:
        columns = mapped(
            replace(table, names=table.names or tuple(f"c{i}" for i in range(len(table.types)))), self._flavour
        )
        schema = TableSchema(table.database, table.table, columns, (columns[0].name,))
        return layout(table, TableShape(columns, schema), self._flavour)

    def cascades_into(self, _name: tuple[str, str]) -> bool:
        return False


def flavour_of(name: str) -> Flavour:
    return "mysql" if "mysql" in name else "mariadb"


def capture(
    name: str, items: list[Item], run_by_run: bool, change: Callable[[Replicator], None] = lambda _: None, **more: Any
) -> tuple[list[object], int]:
    """What a capture of these items leaves, by groups, its refusal last; how many transactions went in whole runs."""
    source = SourceDefinition(
        host="db", port=1, user="u", password=SecretStr("p"), databases=DATABASES, partitions=4, **more
    )
    clock, flavour = ManualClock(7_000_000), flavour_of(name)
    log = memory_log("s", MemoryLog(), MemoryRegistry(), clock)
    log.open()
    start = SourcePosition(flavour, parse_gtid_set("", flavour), BinlogPosition("bin.000001", 0), 0)
    state = CaptureState(snapshot="done")
    catalog: Any = Described(flavour)
    core = Replicator("s", source, catalog, TableEncoders("s", source, log), clock, start, state)
    change(core)
    slow = 0
    one = core.on_transaction

    def counted(transaction: SourceTransaction) -> None:
        nonlocal slow
        slow += 1
        one(transaction)

    core.on_transaction = counted  # type: ignore[method-assign]
    found: list[object] = []
    try:
        for item in items:
            if not isinstance(item, PlainRun):
                counted(item)
            elif run_by_run:
                core.on_run(item)
            else:
                for each in item.transactions():
                    counted(each)
            found.append(told(core.flush()))
    except LyrebirdError as refusal:
        found.append(str(refusal))
    if not run_by_run:
        return found, 0
    return found, sum(item.count if isinstance(item, PlainRun) else 1 for item in items) - slow


def told(group: Group) -> object:
    return replace(group, ops=dict(group.ops), skipped=dict(group.skipped))


def items_of(name: str, events: Sequence[bytes]) -> list[Item]:
    """What the compiled loop makes of a recording up to what it refuses, without transactions of statements."""
    return list(_items(events))


def _items(events: Sequence[bytes]) -> Iterator[Item]:
    builder = TransactionBuilder(lambda database, _: database in DATABASES, lambda *_: False, 1 << 24, FOLDER)
    file = BinlogFile("bin.000001", "bin.000001", BinlogInput(io.BytesIO(b"\xfebin" + b"".join(events))))
    try:
        for item in file.items(EventReader("bin.000001"), builder):
            if isinstance(item, PlainRun) or (
                not isinstance(item, Heartbeat) and not any(isinstance(step, QueryEvent) for step in item.steps)
            ):
                yield item
    except Terminal:
        return


def as_known(items: list[Item]) -> Callable[[Replicator], None]:
    """Makes the tables of all runs known beforehand, as they are once a transaction of each went by."""

    def change(core: Replicator) -> None:
        for table in {table for item in items if isinstance(item, PlainRun) for table in item.tables}:
            try:
                records = core._known(table)
            except LyrebirdError:
                continue
            core.state = core.state.with_table(f"{table.database}.{table.table}", records.encoder.key_id)

    return change


@pytest.mark.parametrize("name", sorted(recordings()))
def test_a_recording_leaves_the_same_by_runs_and_one_by_one(name: str) -> None:
    items = items_of(name, recordings()[name])
    for change in (lambda _: None, as_known(items)):
        assert capture(name, items, True, change)[0] == capture(name, items, False, change)[0]


def test_runs_of_known_tables_go_as_a_whole_in_most_recordings() -> None:
    went = 0
    for name, events in recordings().items():
        items = items_of(name, events)
        went += capture(name, items, True, as_known(items))[1]
    assert went > 100


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(recordings())), st.data())
def test_a_recording_whose_rows_were_changed_leaves_the_same(name: str, data: st.DataObject) -> None:
    runs = [item for item in items_of(name, recordings()[name]) if isinstance(item, PlainRun)]
    if not runs:
        return
    run = data.draw(st.sampled_from(runs))
    groups, steps, raw = run.parts
    for _ in range(data.draw(st.integers(1, 4))):
        raw = flipped(raw, data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(1, 255)))
    broken = replace(run, parts=(groups, steps, raw))
    change = as_known([broken])
    assert capture(name, [broken], True, change)[0] == capture(name, [broken], False, change)[0]


def a_run() -> PlainRun:
    return max(
        (item for name in recordings() for item in items_of(name, recordings()[name]) if isinstance(item, PlainRun)
         and capture(name, [item], True, as_known([item]))[1]),
        key=lambda run: run.count,
    )  # fmt: skip


@pytest.mark.parametrize("doubled", [True, False])
def test_a_run_that_capture_has_already_is_refused(doubled: bool) -> None:
    run = a_run()
    items: list[Item] = [run, run] if doubled else [run, replace(run, first=run.first + run.count - 1)]
    found, _ = capture(name_of(run), items, True, as_known(items))
    assert len(found) == 2
    assert "a transaction that capture has already" in str(found[1])
    assert found == capture(name_of(run), items, False, as_known(items))[0]


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_a_run_without_gtids_is_held_against_the_place_where_it_begins(server: str) -> None:
    run = replace(a_run(), prefix="", first=0)
    found, went = capture(server, [run, run], True, as_known([run]))
    assert went == 2 * run.count - 1
    assert "a transaction that capture has already" in str(found[1])
    assert found == capture(server, [run, run], False, as_known([run]))[0]


def test_runs_go_one_by_one_where_each_transaction_needs_a_look_of_its_own() -> None:
    run = a_run()
    table = f"{run.tables[0].database}.{run.tables[0].table}"

    def aside(core: Replicator) -> None:
        as_known([run])(core)
        core.state = core.state.with_aside(table, TableSetAside("", "", "cause", 0))

    def window(core: Replicator) -> None:
        as_known([run])(core)
        core.window = WatermarkWindow([table])

    def small(core: Replicator) -> None:
        as_known([run])(core)
        for records in core._tables.values():
            records.encoder.most = 10

    for change in (aside, window, small, lambda _: None):
        found, went = capture(name_of(run), [run], True, change)
        assert went == 0
        assert found == capture(name_of(run), [run], False, change)[0]
    asked = capture(name_of(run), [run], True, as_known([run]), queries=True)
    assert asked[1] == 0
    assert asked[0] == capture(name_of(run), [run], False, as_known([run]), queries=True)[0]


@pytest.mark.parametrize("at", range(3))
def test_parts_of_a_run_that_do_not_fit_together_are_refused(at: int) -> None:
    run = a_run()
    parts = list(run.parts)
    parts[at] = b"\xff" * len(parts[at]) if at < 2 else parts[at][: len(parts[at]) // 2]
    with pytest.raises(ValueError, match="a run"):
        replace(run, parts=(parts[0], parts[1], parts[2])).transactions()


def name_of(run: PlainRun) -> str:
    return "mysql" if ":" in run.prefix else "mariadb"
