"""The embedded store's port: the double and RocksDB give the same answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from include.state.engine import BrokenStore, Engine
from include.state.memory import MemoryEngine
from include.state.rocks import RocksEngine

pytestmark = pytest.mark.contract

Opener = Callable[[str], Engine]


@pytest.fixture(params=[MemoryEngine.open, RocksEngine.open], ids=["memory", "rocks"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the store in a folder of this name, and closes the one that was open in it."""
    opened: dict[str, Engine] = {}

    def at(name: str) -> Engine:
        if name in opened:
            opened.pop(name).close()
        opened[name] = request.param(tmp_path / name)
        return opened[name]

    yield at
    for each in opened.values():
        each.close()


def test_rows_come_back_in_the_order_of_their_bytes(opener: Opener) -> None:
    store = opener("a")
    rows = {b"r\x00": b"0", b"r\xff\xff": b"2", b"r\x00\x00": b"", b"s": b"3", b"q": b"4"}
    store.write(rows.items())
    assert store.get([b"s", b"none", b"r\x00\x00"]) == [b"3", None, b""]
    assert list(store.scan(b"r")) == [(b"r\x00", b"0"), (b"r\x00\x00", b""), (b"r\xff\xff", b"2")]
    assert list(store.scan(b"")) == sorted(rows.items())
    assert list(store.scan(b"x")) == []
    assert list(store.scan(b"r", b"r\x00\x00")) == [(b"r\x00\x00", b""), (b"r\xff\xff", b"2")]
    assert store.get([]) == []


def test_a_scan_shows_what_stood_when_it_began(opener: Opener) -> None:
    store = opener("a")
    store.write([(b"r1", b"old"), (b"r2", b"old")])
    scan, other = store.scan(b"r"), store.scan(b"r2")
    assert next(scan) == (b"r1", b"old")
    assert list(other) == [(b"r2", b"old")]
    store.write([(b"r2", b"new"), (b"r1", None)])
    assert list(scan) == [(b"r2", b"old")]
    assert list(store.scan(b"r")) == [(b"r2", b"new")]
    begun_late = store.scan(b"r")
    store.write([(b"r3", b"new")])
    assert list(begun_late) == [(b"r2", b"new")]
    assert list(store.scan(b"r")) == [(b"r2", b"new"), (b"r3", b"new")]


def test_what_was_written_is_there_for_the_next_who_opens(opener: Opener) -> None:
    store = opener("a")
    store.write([(b"k", b"v"), (b"gone", b"v")])
    store.write([(b"gone", None), (b"k", b"newer")])
    assert list(opener("a").scan(b"")) == [(b"k", b"newer")]


def test_a_scan_that_an_error_broke_off_does_not_hold_the_folder(opener: Opener) -> None:
    store = opener("a")
    store.write([(b"r1", b"one"), (b"r2", b"two")])

    def reader() -> None:
        for key, _ in store.scan(b"r"):
            raise LookupError(key)

    # The traceback refers to the frames of the scan for as long as the error is held.
    with pytest.raises(LookupError) as broken_off:
        reader()
    begun = store.scan(b"r")
    assert next(begun) == (b"r1", b"one")
    assert list(opener("a").scan(b"r")) == [(b"r1", b"one"), (b"r2", b"two")]
    assert broken_off.value.args == (b"r1",)


def test_a_snapshot_opens_as_it_was_and_names_the_files_that_stay(opener: Opener, tmp_path: Path) -> None:
    store = opener("a")
    store.write([(b"%06d" % number, b"v" * 100) for number in range(1000)])
    first = store.snapshot(tmp_path / "one")
    store.write([(b"later", b"v")])
    second = store.snapshot(tmp_path / "two")
    assert first
    assert set(first) < set(second)
    for name in first:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert len(list(opener("one").scan(b""))) == 1000
    assert opener("two").get([b"later"]) == [b"v"]


def test_random_writes_and_openings_equal_a_dict(opener: Opener) -> None:
    draw = random.Random(7)
    store, model = opener("a"), dict[bytes, bytes]()
    for _ in range(30):
        rows = {b"%d" % draw.randrange(200): draw.randbytes(20) if draw.random() < 0.7 else None for _ in range(50)}
        store.write(rows.items())
        model |= {key: value for key, value in rows.items() if value is not None}
        model = {key: value for key, value in model.items() if rows.get(key, value) is not None}
        if draw.random() < 0.2:
            store = opener("a")
        prefix = b"%d" % draw.randrange(20)
        assert list(store.scan(prefix)) == sorted(each for each in model.items() if each[0].startswith(prefix))
    assert list(store.scan(b"")) == sorted(model.items())


def test_damaged_files_are_told(opener: Opener, tmp_path: Path) -> None:
    store = opener("a")
    store.write([(b"%06d" % number, random.Random(number).randbytes(100)) for number in range(1000)])
    store.close()
    for file in (tmp_path / "a").iterdir():
        if file.suffix in (".sst", ".rows"):
            body = bytearray(file.read_bytes())
            body[: len(body) // 2] = bytes(len(body) // 2)
            file.write_bytes(body)
    with pytest.raises(BrokenStore, match="folder="):
        list(opener("a").scan(b""))


def test_stores_that_take_a_batch_at_each_opening_stay_few_files(tmp_path: Path) -> None:
    # Closing broke merges off, so that each opening began with the same one, and files heaped up to twenty.
    draw, rows = random.Random(3), 40_000
    most = 0
    for opening in range(40):
        store = RocksEngine.open(tmp_path / "a")
        some = range(rows) if not opening else draw.sample(range(rows), 300)
        store.write([(b"%08d" % number, draw.randbytes(200)) for number in some])
        store.close()
        most = max(most, len(list((tmp_path / "a").glob("*.sst"))))
    assert most <= 14


def test_a_store_that_was_filed_by_levels_is_read_and_written_on(tmp_path: Path) -> None:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(1 << 16)
    options.set_target_file_size_base(1 << 16)
    options.set_max_bytes_for_level_base(1 << 18)
    older = Rdict(str(tmp_path / "a"), options)
    rows = {b"%06d" % number: random.Random(number).randbytes(100) for number in range(20_000)}
    for key, value in rows.items():
        older[key] = value
    older.close()
    for number in range(20):
        store = RocksEngine.open(tmp_path / "a")
        more = {b"%06d" % key: b"%d" % number for key in range(number, 20_000, 500)}
        store.write(more.items())
        rows |= more
        store.close()
    store = RocksEngine.open(tmp_path / "a")
    assert dict(store.scan(b"")) == rows
    store.close()
