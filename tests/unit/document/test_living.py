"""Documents of the output topic that are older than a version: found whole, taken a page at a time, over any kill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from include.document.topic_state import LivingPages, by_reader
from include.log.control import ControlRecord
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec
from include.log.requests.records import Request
from include.record import version as versions
from tests.support.documents.order_harness import DEFINITION, OrderHarness, Process, live
from tests.support.faults.crash_points import CrashPoint, Killed, crashing

SMALL = DEFINITION.model_copy(update={"batch_keys": 3, "rebuild_keys": 2})


def written(log: MemoryLog, *records: tuple[int, bytes, int, bytes | None]) -> None:
    writer = log.writer("w")
    writer.begin()
    for partition, key, version, value in records:
        writer.append("t", key, value, headers=(versions.to_header(version),), partition=partition)
    writer.commit()


def test_the_greatest_version_decides_and_not_the_partition_that_is_read_last() -> None:
    log = MemoryLog()
    log.admin().ensure(TopicSpec("t", 2))
    # A topic that grew: both keys moved from partition 1 to 0.
    written(log, (0, b"gone", 9, None), (1, b"gone", 3, b"old"), (0, b"lives", 4, b"new"), (1, b"lives", 2, None))
    assert list(by_reader(log.reader(), "t")(10, b"")) == [b"lives"]
    assert list(by_reader(log.reader(), "t")(4, b"")) == []


def test_pages_go_on_where_the_last_one_ended_and_one_that_is_asked_for_again_is_the_same() -> None:
    searches: list[bytes] = []

    def find(version: int, after: bytes) -> Iterator[bytes]:
        searches.append(after)
        return iter([key for key in (b"a", b"b", b"c", b"d", b"e") if key > after])

    living = LivingPages(find)
    assert [living.page(5, b"", 2), living.page(5, b"", 2)] == [[b"a", b"b"]] * 2
    assert [living.page(5, b"b", 2), living.page(5, b"d", 2)] == [[b"c", b"d"], [b"e"]]
    assert searches == [b""]
    assert living.page(5, b"b", 9) == [b"c", b"d", b"e"]
    assert searches == [b"", b"b"]


def test_a_search_that_failed_is_begun_again() -> None:
    def find(version: int, after: bytes) -> Iterator[bytes]:
        if not after:
            yield b"a"
        raise Killed

    living = LivingPages(find)
    assert living.page(5, b"", 1) == [b"a"]
    for _ in range(2):
        with pytest.raises(Killed):
            living.page(5, b"a", 2)


class InSnapshot:
    """The world's tables; says whether a snapshot of them is open."""

    def __init__(self, world: OrderHarness) -> None:
        self._tables = world.tables
        self.open = False
        self.opened = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._tables, name)

    def snapshot(self, after: object = None) -> InSnapshot:
        self._inner = self._tables.snapshot()
        return self

    def __enter__(self) -> object:
        self.open = True
        self.opened += 1
        return self._inner.__enter__()

    def __exit__(self, *error: object) -> None:
        self.open = False
        self._inner.__exit__(*error)  # type: ignore[arg-type]


@pytest.mark.parametrize("why", ["rebuild", "floor"])
def test_no_snapshot_is_open_while_the_topic_is_read(why: str) -> None:
    world = OrderHarness(SMALL)
    world.furnish()
    for order_id in range(1, 9):
        world.order(order_id)
    Process(world).settle(12)
    tables = InSnapshot(world)
    process = Process(world, tables=tables)  # type: ignore[arg-type]
    looked: list[bool] = []
    inner = by_reader(process.reader, "assembled_order")

    def find(version: int, after: bytes) -> Iterator[bytes]:
        looked.append(tables.open)
        return inner(version, after)

    process.runner._keys._living = LivingPages(find)
    assert process.start()
    world.tables.tables["orders"].clear()
    if why == "rebuild":
        world.ask(Request("r", "rebuild", "test", 5))
    else:
        world.capture.commit(control=ControlRecord("truncate", "shop", "orders", world.capture.version + 1))
    for _ in range(8):
        world.clock.advance(2)
        world.capture.heartbeat()
        process.batches()
    assert looked == [False], "one search, and outside"
    assert live(world.documents()) == {}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("why", ["rebuild", "floor"])
def test_a_kill_at_any_durable_call_of_a_search_in_pages_loses_no_key(why: str, after: bool) -> None:
    burnt: list[str] = []
    for at in range(1, 400):
        world = OrderHarness(SMALL)
        world.furnish()
        for order_id in range(1, 9):
            world.order(order_id)
        Process(world).settle(9)
        world.tables.tables["orders"].clear()
        if why == "rebuild":
            world.ask(Request("r", "rebuild", "test", 5))
        else:
            world.capture.commit(control=ControlRecord("truncate", "shop", "orders", world.capture.version + 1))
        fuse = CrashPoint(at, after=after)
        try:
            Process(world, wrap=crashing(fuse)).settle(8)
        except Killed:
            burnt.append(fuse.burnt or "")
            Process(world).settle(8)
        assert live(world.documents()) == {}
        assert len(world.documents()) == 8
        if fuse.burnt is None:
            break
    assert {"begin", "append", "next_offsets", "commit"} <= set(burnt)
    assert len(burnt) < 399, "a run got through"


def test_what_stands_of_a_floor_is_small_however_many_documents_it_takes_away() -> None:
    world = OrderHarness(SMALL)
    world.furnish()
    for order_id in range(1, 40):
        world.order(order_id)
    Process(world).settle(30)
    process = Process(world)
    assert process.start()
    world.tables.tables["orders"].clear()
    world.capture.commit(control=ControlRecord("truncate", "shop", "orders", world.capture.version + 1))
    process.batches()
    assert len(process.runner._rebuilds.open) == 1
    assert sum(len(each.request.keys) for each in process.runner._rebuilds.open.values()) == 0
    for _ in range(25):
        world.clock.advance(2)
        world.capture.heartbeat()
        process.batches()
    assert live(world.documents()) == {}
