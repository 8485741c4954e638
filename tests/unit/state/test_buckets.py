"""A bucket on several hosts, with attempts that are never committed and crashes at every durable step."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Terminal
from include.state import bucket as module
from include.state.bucket import Bucket
from include.state.engine import Engine
from include.state.housekeeping import remove_unnamed
from include.state.memory import MemoryEngine
from include.state.opening import StatePlace, open_bucket
from include.state.pointer import BucketPointer
from include.state.rocks import RocksEngine
from include.store.memory import MemoryStore
from include.store.object_store import ObjectStore
from tests.support.faults.crash_points import CrashPoint, Killed

pytestmark = pytest.mark.unit

Open = Callable[[Path], Engine]
Rows = dict[bytes, bytes | None]


class FusedStore:
    """An object store whose writes burn the fuse."""

    def __init__(self, inner: ObjectStore, fuse: CrashPoint | None) -> None:
        self._inner, self._fuse = inner, fuse

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if self._fuse is None or name not in ("put", "upload"):
            return call
        return lambda *args, **named: self._fuse.around(f"store {name}", lambda: call(*args, **named))


class FusedEngine:
    """An embedded store whose writes burn the fuse."""

    def __init__(self, inner: Engine, fuse: CrashPoint | None) -> None:
        self._inner, self._fuse = inner, fuse
        self.get, self.scan, self.close = inner.get, inner.scan, inner.close

    def write(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        if self._fuse is None:
            self._inner.write(rows)
        else:
            self._fuse.around("engine write", lambda: self._inner.write(rows))

    def snapshot(self, folder: Path) -> list[str]:
        return self._inner.snapshot(folder)


class Turns(Executor):
    """Sends when it is told to, or not before the result is wanted: both orders that threads may come to."""

    def __init__(self, *, late: bool) -> None:
        self._late = late

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        sent = _Late(lambda: call(*args, **named))
        if not self._late:
            sent.set_result(sent.result())
        return sent


class _Late(Future[Any]):
    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self._call = call

    def result(self, timeout: float | None = None) -> Any:
        return super().result(timeout) if self.done() else self._call()


@dataclass
class Harness:
    """Hosts with folders of their own, one object store, and what is committed."""

    folder: Path
    engine: Open = MemoryEngine.open
    clock: ManualClock = field(default_factory=ManualClock)
    pointer: bytes | None = None
    rows: dict[bytes, bytes] = field(default_factory=dict)
    how: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock)

    def place(self, host: int) -> StatePlace:
        return StatePlace(str(self.folder / f"host{host}"), "state/joined/")

    def open(self, host: int = 0, *, fuse: CrashPoint | None = None, pointer: bytes | None = None) -> Any:
        return open_bucket(
            self.place(host),
            FusedStore(self.store, fuse),
            "rows",
            3,
            pointer or self.pointer,
            engine=lambda folder: FusedEngine(self.engine(folder), fuse),
        )

    def attempt(self, rows: Rows, host: int = 0, *, fuse: CrashPoint | None = None) -> bytes:
        """What a task does; it reads some of what it writes, as joins do."""
        with self.open(host, fuse=fuse) as bucket:
            self.how.append(bucket.opened)
            self.require_equal(bucket)
            bucket.get(sorted(rows)[::2])
            pointer: bytes = bucket.commit(rows)
            return pointer

    def take(self, rows: Rows, pointer: bytes) -> None:
        """The transaction is committed."""
        self.pointer = pointer
        for key, value in rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def require_equal(self, bucket: Bucket) -> None:
        assert list(bucket.scan(b"")) == sorted(self.rows.items())
        if self.pointer is not None:
            size = sum(len(key) + len(value) for key, value in self.rows.items())
            assert bucket.counts == {"rows": len(self.rows), "bytes": size}

    def remove(self, host: int = 0) -> int:
        pointers = {("rows", 3): self.pointer} if self.pointer else {}
        before_us = self.clock.now_us() - 1_000_000
        return remove_unnamed(self.store, self.place(host), lambda: pointers.items(), before_us=before_us).objects


@pytest.fixture(params=[MemoryEngine.open, RocksEngine.open], ids=["memory", "rocks"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    return Harness(tmp_path, request.param)


def changes(draw: random.Random) -> Rows:
    return {
        b"k%d" % draw.randrange(30): draw.randbytes(draw.randrange(40)) if draw.random() < 0.7 else None
        for _ in range(draw.randint(1, 12))
    }


def test_a_bucket_begins_empty_and_goes_on_from_what_was_committed(world: Harness) -> None:
    world.take({b"a": b"1", b"b": b"2"}, world.attempt({b"a": b"1", b"b": b"2"}))
    world.take({b"a": None, b"c": b""}, world.attempt({b"a": None, b"c": b""}))
    with world.open() as bucket:
        assert bucket.get([b"a", b"b", b"c"]) == [None, b"2", b""]
        assert list(bucket.scan(b"b")) == [(b"b", b"2")]
        assert bucket.opened == "ready"


def test_an_attempt_that_was_not_committed_leaves_no_trace(world: Harness) -> None:
    world.take({b"a": b"1"}, world.attempt({b"a": b"1"}))
    world.attempt({b"a": b"other", b"new": b"x"})
    world.attempt({b"a": None})
    world.take({b"a": b"2"}, world.attempt({b"a": b"2"}))
    assert world.how == ["ready", "ready", "undone", "undone"]


def test_the_first_attempt_of_all_is_undone_as_well(world: Harness) -> None:
    world.attempt({b"a": b"1"})
    world.attempt({b"b": b"1"})
    assert world.how == ["ready", "undone"]


def test_a_host_that_fell_behind_takes_the_logs_it_lacks(world: Harness) -> None:
    for number in range(4):
        rows: Rows = {b"a": b"%d" % number}
        world.take(rows, world.attempt(rows, host=number % 2))
    assert world.how == ["ready", "replayed", "replayed", "replayed"]
    world.attempt({b"a": b"never"}, host=0)
    world.take({b"b": b"5"}, world.attempt({b"b": b"5"}, host=1))
    with world.open(host=0) as bucket:
        world.require_equal(bucket)
        assert bucket.opened == "replayed"


def test_an_empty_host_fetches_the_snapshot_and_the_logs_behind_it(
    world: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_LOGS", 4)
    for number in range(9):
        rows: Rows = {b"a%d" % (number % 6): b"%d" % number}
        world.take(rows, world.attempt(rows))
    pointer = BucketPointer.from_bytes(world.pointer or b"")
    assert pointer.snapshot is not None
    assert pointer.logs
    with world.open(host=1) as bucket:
        world.require_equal(bucket)
        assert bucket.opened == "restored"


def test_a_snapshot_writes_only_files_that_the_store_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_LOGS", 2)
    world = Harness(tmp_path)
    for number in range(12):
        rows: Rows = {b"%d" % number: b"x"}
        world.take(rows, world.attempt(rows))
    stored = [info.key for info in world.store.list("")]
    snapshots = sum("/snapshot-" in key for key in stored)
    assert snapshots > 2
    # The double makes a file for each write, and a list of them for each snapshot.
    assert sum("/file-" in key for key in stored) <= 12 + snapshots
    assert world.remove() == 0
    world.clock.advance(3600)
    assert world.remove() > 0
    with world.open(host=1) as bucket:
        world.require_equal(bucket)


def test_a_store_that_is_damaged_is_fetched_again(world: Harness) -> None:
    world.take({b"a": b"1" * 500}, world.attempt({b"a": b"1" * 500}))
    for file in (world.folder / "host0" / "rows-0003").iterdir():
        if file.suffix in (".sst", ".rows") or file.name == "CURRENT":
            file.write_bytes(b"\x00" * 100)
    with world.open() as bucket:
        world.require_equal(bucket)
        assert bucket.opened == "restored"


def test_two_tasks_with_one_bucket_do_not_meet(world: Harness) -> None:
    world.take({b"a": b"1"}, world.attempt({b"a": b"1"}))
    with world.open() as first, world.open() as second:
        mine, other = first.commit({b"a": b"first"}), second.commit({b"a": b"second"})
    assert mine != other
    assert [path.name for path in (world.folder / "host0").iterdir() if "own" in path.name] == []
    world.take({b"a": b"second"}, other)
    with world.open() as bucket:
        world.require_equal(bucket)


def test_what_a_committed_version_lacks_is_told(world: Harness) -> None:
    world.take({b"a": b"1"}, world.attempt({b"a": b"1"}))
    for info in list(world.store.list("")):
        world.store.delete(info.key)
    held = []
    for _ in range(2):
        # The first one's store is closed, though its error is still held.
        with pytest.raises(Terminal, match=r"is gone.*state/joined/rows-0003/log-") as told, world.open(host=1):
            pass
        held.append(told)
    with world.open(host=0) as bucket:
        world.require_equal(bucket)


def test_the_keys_of_the_bucket_itself_are_refused(world: Harness) -> None:
    with world.open() as bucket, pytest.raises(ValueError, match="zero byte"):
        bucket.commit({b"\x00meta": b""})


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("late", [False, True], ids=["log-first", "store-first"])
@pytest.mark.parametrize("snapshots", [False, True], ids=["logs", "snapshots"])
def test_a_crash_at_any_durable_step_leaves_the_committed_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool, late: bool, snapshots: bool
) -> None:
    monkeypatch.setattr(module, "_MOST_LOGS", 2 if snapshots else 1000)
    monkeypatch.setattr(module, "_senders", lambda: Turns(late=late))
    burnt = set()
    for at in range(1, 12):
        world = Harness(tmp_path / str(at))
        for number in range(3):
            rows: Rows = {b"a": b"%d" % number, b"b%d" % number: b"x"}
            world.take(rows, world.attempt(rows))
        fuse = CrashPoint(at, after=after)
        try:
            world.attempt({b"a": b"crashed", b"b1": None}, fuse=fuse)
        except Killed:
            burnt.add(fuse.burnt)
        for host in (0, 1, 0):
            with world.open(host) as bucket:
                world.require_equal(bucket)
        rows = {b"a": b"on", b"b0": None}
        world.take(rows, world.attempt(rows))
        with world.open(host=2) as bucket:
            world.require_equal(bucket)
    assert burnt == {"store put", "engine write"}


@pytest.mark.parametrize("seed", range(60))
def test_random_hosts_crashes_and_removals_never_show_another_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(module, "_MOST_LOGS", draw.choice([2, 3, 8]))
    monkeypatch.setattr(module, "_senders", lambda: Turns(late=draw.random() < 0.5))
    world = Harness(tmp_path, RocksEngine.open if seed % 20 == 0 else MemoryEngine.open)
    for _ in range(40):
        host, rows = draw.randrange(3), changes(draw)
        fuse = CrashPoint(draw.randint(1, 8), after=draw.random() < 0.5) if draw.random() < 0.3 else None
        try:
            pointer = world.attempt(rows, host, fuse=fuse)
        except Killed:
            continue
        if draw.random() < 0.7:
            world.take(rows, pointer)
        world.clock.advance(draw.choice([0, 0.5, 2]))
        if draw.random() < 0.2:
            world.remove()
    world.clock.advance(10)
    world.remove()
    with world.open(host=9) as bucket:
        world.require_equal(bucket)
    last = BucketPointer.from_bytes(world.pointer or b"")
    living = world.place(0).objects(world.store, "rows", 3).named(last)
    assert {info.key for info in world.store.list("")} == living
