"""What is read from the source's database: counted, kept to a rate, and never waited for too long at a stretch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.clock import ManualClock
from include.document import batch, making
from include.document.reading.read_throttle import MOST_S, Metered, ReadLoad
from include.document.reading.tables import MemoryTables
from include.log.ports import LogWriter
from tests.support.documents.order_harness import COLUMNS, DEFINITION, OrderHarness, Process, live
from tests.unit.document.test_living import InSnapshot


@given(st.integers(1, 1000), st.lists(st.tuples(st.integers(0, 500), st.floats(0, 2)), max_size=30))
def test_no_second_sees_more_rows_than_declared_but_for_the_last_read_of_it(
    rate: int, reads: list[tuple[int, float]]
) -> None:
    clock = ManualClock()
    load = ReadLoad(rate, clock)
    load.begin()
    total = 0
    for rows, pause_s in reads:
        clock.sleep(pause_s)
        began_s, held_s = clock.monotonic_s(), load.held_back_s
        load.read(rows)
        load.wait()
        assert clock.monotonic_s() - began_s == pytest.approx(load.held_back_s - held_s, abs=1e-3)
        total += rows
        if load.held_back_s < MOST_S - 1:
            assert total <= rate * (clock.monotonic_s() + 1) + 1
    assert load.rows == total


def test_without_a_limit_nothing_waits() -> None:
    clock = ManualClock()
    load = ReadLoad(0, clock)
    load.read(10**9)
    load.begin()
    assert (clock.monotonic_s(), load.counts()) == (0, (10**9, 1, 0.0))


def test_a_batch_is_not_held_up_for_longer_than_its_bound_and_the_rest_is_paid_before_the_next() -> None:
    clock = ManualClock()
    load = ReadLoad(10, clock)
    load.begin()
    for _ in range(10):
        load.read(100)
        load.wait()
    assert clock.monotonic_s() == pytest.approx(MOST_S)
    load.begin()
    assert clock.monotonic_s() == pytest.approx(1000 / 10)
    load.begin()
    assert clock.monotonic_s() == pytest.approx(1000 / 10)


def test_rows_and_statements_of_every_read_are_counted() -> None:
    rows = [{"id": n, "name": str(n)} for n in range(2500)]
    load = ReadLoad(0, ManualClock())
    tables = Metered(MemoryTables({"regions": rows}, COLUMNS), load)
    with tables.snapshot() as now:
        now.rows("regions", ["id"], ["id"], [(n,) for n in range(2500)])
        now.keys_after("regions", ["id"], None, 7)
    assert load.counts() == (2507, 4, 0.0)


def test_an_assembler_keeps_to_its_rate_tells_it_and_counts_it() -> None:
    world = OrderHarness(DEFINITION.model_copy(update={"read_rows_per_s": 20}))
    world.furnish()
    process = Process(world)
    process.settle(2)
    for order_id in range(1, 30):
        world.order(order_id)
    began_s, before = world.clock.monotonic_s(), process.runner._load.rows
    process.batches()
    world.capture.heartbeat()
    process.batches()  # pays what the one before it owes
    rows = process.runner._load.rows - before
    assert live(world.documents()) == world.expected()
    assert rows > 60
    assert world.clock.monotonic_s() - began_s >= rows / 20 - 1.1
    text = process.metrics.text()
    assert f'source_rows_total{{application="assemble_orders",kind=""}} {process.runner._load.rows}.0' in text
    assert "lyrebird_source_held_back_seconds_total" in text


class Watched(ManualClock):
    """A clock that nobody sleeps by while a snapshot is open."""

    tables: InSnapshot

    def sleep(self, seconds: float) -> None:
        assert not self.tables.open
        super().sleep(seconds)


class Outside:
    """A writer that nobody writes with while a snapshot is open."""

    def __init__(self, inner: LogWriter, tables: InSnapshot) -> None:
        self._inner, self._tables = inner, tables

    def __getattr__(self, name: str) -> Any:
        assert not self._tables.open
        return getattr(self._inner, name)


def test_no_snapshot_is_open_while_documents_are_written_or_rows_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "CHUNK", 10)
    monkeypatch.setattr(batch, "CHUNK", 10)
    world = OrderHarness(DEFINITION.model_copy(update={"read_rows_per_s": 20, "rebuild_keys": 100}))
    world.clock = Watched(1_000_000)
    tables = InSnapshot(world)
    world.clock.tables = tables
    world.furnish()
    for order_id in range(1, 40):
        world.order(order_id)
    wrap: Any = lambda writer: Outside(writer, tables)  # noqa: E731
    process = Process(world, wrap=wrap, tables=tables)  # type: ignore[arg-type]
    process.settle(4)
    assert live(world.documents()) == world.expected()
    assert tables.opened > 4, "each ten keys one"
    assert process.runner._load.held_back_s > 1
    assert 'lyrebird_source_snapshot_seconds{application="assemble_orders",kind=""} 0.0' in process.metrics.text()
