"""A state goes to files and back, into any number of buckets, with the same rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from include.errors import SettingsError, Terminal
from include.join.algorithm.row import incomplete_key, row_key
from include.join.homes import home_of
from include.record.key import partition_of
from include.state.memory import MemoryEngine
from include.state.opening import StatePlace, open_bucket
from include.state.pointer import BucketPointer
from include.state.transfer import BucketId, TransferResult, exported, imported
from include.store.memory import MemoryStore

pytestmark = pytest.mark.unit


class Harness:
    """A store and one host."""

    def __init__(self, folder: Path) -> None:
        self.store, self.place = MemoryStore(), StatePlace(str(folder / "host"), "state/t/")
        self.folder = folder

    def fill(self, buckets: int, rows: int) -> dict[BucketId, bytes]:
        """A join's state with rows of two inputs, a mark and whereabouts."""
        draw, home = random.Random(1), home_of(buckets)
        made: dict[BucketId, dict[bytes, bytes | None]] = {}
        for number in range(rows):
            join_key = b"\x01%d" % draw.randrange(rows // 3 + 1)
            for stage, key in (
                ("rows", row_key(join_key, number % 2, b"%d" % number)),
                ("whereabouts", b"k\x00%d" % number),
            ):
                made.setdefault((stage, home(stage, key)[0]), {})[key] = draw.randbytes(30)
        mark = incomplete_key(b"\x011")
        made.setdefault(("rows", home("rows", mark)[0]), {})[mark] = b""
        return {each: self.commit(each, changes) for each, changes in made.items()}

    def commit(self, each: BucketId, rows: dict[bytes, bytes | None]) -> bytes:
        with open_bucket(self.place, self.store, *each, None, engine=MemoryEngine.open) as bucket:
            return bucket.commit(rows)

    def rows(self, pointers: dict[BucketId, bytes]) -> dict[BucketId, dict[bytes, bytes]]:
        found = {}
        for each, pointer in pointers.items():
            with open_bucket(self.place, self.store, *each, pointer, engine=MemoryEngine.open) as bucket:
                found[each] = dict(bucket.scan(b""))
        return found

    def out(self, pointers: dict[BucketId, bytes], name: str, of: str = "t") -> TransferResult:
        return exported(self.place, self.store, pointers, self.folder / name, of=of, engine=MemoryEngine.open)

    def back(self, name: str, buckets: int, of: str = "t") -> tuple[dict[BucketId, bytes], TransferResult]:
        return imported(self.place, self.store, self.folder / name, home_of(buckets), of=of, engine=MemoryEngine.open)


def test_rows_are_the_same_in_more_buckets_and_in_as_many_as_before(tmp_path: Path) -> None:
    world = Harness(tmp_path)
    first = world.fill(4, 300)
    before = world.rows(first)
    out = world.out(first, "one")
    assert out.rows == 601
    more, moved = world.back("one", 16)
    assert moved == out
    assert sum(map(len, world.rows(more).values())) == sum(map(len, before.values()))
    for (stage, bucket), rows in world.rows(more).items():
        assert all(home_of(16)(stage, key)[0] == bucket for key in rows)
    counts = [BucketPointer.from_bytes(pointer).counts for (stage, _), pointer in more.items() if stage == "rows"]
    assert sum(each.get("input_0", 0) for each in counts) == 150
    assert sum(each.get("incomplete", 0) for each in counts) == 1
    assert world.out(more, "two") == out
    again, _ = world.back("two", 4)
    assert world.rows(again) == before


def test_whereabouts_are_spread_by_the_primary_key() -> None:
    assert home_of(16)("whereabouts", b"d\x01key") == (partition_of(b"key", 16), "")
    with pytest.raises(Terminal, match="no join has such a stage"):
        home_of(16)("others", b"k")


def test_what_is_no_whole_export_of_this_state_is_refused(tmp_path: Path) -> None:
    world = Harness(tmp_path)
    pointers = world.fill(2, 20)
    world.out(pointers, "one")
    with pytest.raises(SettingsError, match="not empty"):
        world.out(pointers, "one")
    with pytest.raises(SettingsError, match=r"another state.*other"):
        world.back("one", 2, of="other")
    with pytest.raises(SettingsError, match="no whole export"):
        world.back("none", 2)
    files = sorted((tmp_path / "one").glob("*.rows"))
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[:-5])
    with pytest.raises(Terminal, match=r"damaged|cut short"):
        world.back("one", 2)
    files[0].unlink()
    with pytest.raises(Terminal, match="does not hold"):
        world.back("one", 2)
