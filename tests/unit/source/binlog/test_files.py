"""Binlogs out of files and archives of every kind, and where one ends too early."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from include.source.binlog.files import BinlogFileError, binlog_files, read_events
from include.source.binlog.unpack import BinlogInput, unpacked
from tests.support.binlog.builder import description, query_body, raw
from tests.support.zstd_bomb import zstd_bomb

EVENTS = [description(end=120), *(raw(2, query_body(f"statement {n}" * n)) for n in range(30)), raw(3, b"")]
BINLOG = b"\xfebin" + b"".join(EVENTS)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


def tar(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        folder = tarfile.TarInfo("binlogs")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("binlogs/", b"")
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def file(tmp_path: Path, data: bytes, name: str = "bin.000001") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_file_is_read_however_it_is_packed_and_whatever_it_is_called(tmp_path: Path, suffix: str) -> None:
    data = PACKERS[suffix](BINLOG)
    assert list(read_events(file(tmp_path, data))) == EVENTS
    assert list(read_events(io.BytesIO(data))) == EVENTS
    (found,) = binlog_files(file(tmp_path, data, "mysql-bin.000042" + suffix))
    assert found.name == "mysql-bin.000042"


def test_a_file_packed_in_several_frames_is_one() -> None:
    for packer in PACKERS.values():
        halves = packer(BINLOG[:100]) + packer(BINLOG[100:])
        assert list(read_events(io.BytesIO(halves))) == EVENTS


def members() -> list[tuple[str, bytes]]:
    """Ten files in the wrong order, packed in all ways, with what else lies in a server's folder."""
    packers = list(PACKERS.items())
    names = [(f"binlogs/bin.{n:06}", *packers[n % 5]) for n in (999_999, 3, 1_000_000, 2, 7)]
    return [(name + suffix, packer(b"\xfebin" + raw(2, name.encode()))) for name, suffix, packer in names] + [
        ("binlogs/bin.index", b"./bin.000002\n")
    ]


@pytest.mark.parametrize("packer", PACKERS.values())
def test_an_archives_files_come_in_the_order_of_their_numbers(tmp_path: Path, packer: Callable[[bytes], bytes]) -> None:
    order = ["bin.000002", "bin.000003", "bin.000007", "bin.999999", "bin.1000000"]
    path = file(tmp_path, packer(tar(*members())))
    found = [(each.name, [data[19:-4] for data in each.events()]) for each in binlog_files(path)]
    assert found == [(name, [f"binlogs/{name}".encode()]) for name in order]
    assert len(list(read_events(path))) == 5


def test_a_zip_is_read_too(tmp_path: Path) -> None:
    found = [each.place for each in binlog_files(file(tmp_path, zipped(*members()), "all.zip"))]
    assert [Path(place).name.split(".")[1] for place in found] == ["000002", "000003", "000007", "999999", "1000000"]
    with pytest.raises(BinlogFileError, match="zip is read from a file only"):
        list(read_events(io.BytesIO(zipped(*members()))))
    with pytest.raises(BinlogFileError, match="not packed again"):
        list(read_events(file(tmp_path, gzip.compress(zipped(*members())), "all.zip.gz")))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_whose_files_cannot_be_unpacked_in_small_pieces_is_refused(tmp_path: Path, method: int) -> None:
    bomb = file(tmp_path, zipped(("bin.000001", BINLOG + bytes(1 << 20)), method=method), "all.zip")
    with pytest.raises(BinlogFileError, match="a method that is not read"):
        next(iter(binlog_files(bomb)))


def test_a_streamed_archive_must_be_in_order() -> None:
    in_order = [("bin.000001", BINLOG), ("bin.000002.gz", gzip.compress(BINLOG))]
    assert list(read_events(io.BytesIO(gzip.compress(tar(*in_order))))) == EVENTS * 2
    with pytest.raises(BinlogFileError, match=r"do not stand in the order.*bin\.000001.*as a file"):
        list(read_events(io.BytesIO(tar(*reversed(in_order)))))


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BinlogFileError, match="two files of one name"):
        list(read_events(file(tmp_path, tar(("bin.000001", BINLOG), ("bin.000001", BINLOG)))))


def test_whatever_else_lies_in_an_archive_is_an_error(tmp_path: Path) -> None:
    path = file(tmp_path, tar(("bin.000001", BINLOG), ("notes.txt", b"hello")))
    with pytest.raises(BinlogFileError, match=r"not a binlog \(file='.*/notes\.txt', byte=0\)"):
        list(read_events(path))


@pytest.mark.parametrize("cut", [*range(0, 200, 7), len(BINLOG) - 1])
def test_a_file_cut_short_gives_what_was_whole_and_says_at_which_byte(cut: int) -> None:
    ends = [4 + sum(map(len, EVENTS[:n])) for n in range(len(EVENTS) + 1)]
    whole = sum(end <= cut for end in ends) - 1
    if cut in ends:
        assert list(read_events(io.BytesIO(BINLOG[:cut]))) == EVENTS[:whole]
        return
    with pytest.raises(BinlogFileError) as raised:
        list(read_events(io.BytesIO(BINLOG[:cut])))
    assert raised.value.details["byte"] == (ends[whole] if whole >= 0 else 0)
    reading = read_events(io.BytesIO(BINLOG[:cut]))
    for event in EVENTS[: max(whole, 0)]:
        assert next(reading) == event


@pytest.mark.parametrize("suffix", [suffix for suffix in PACKERS if suffix])
def test_a_packed_file_cut_at_any_byte_is_never_taken_for_a_whole_one(suffix: str) -> None:
    data = PACKERS[suffix](BINLOG)
    for cut in range(len(data) - 1):
        seen: list[bytes] = []
        with pytest.raises(BinlogFileError):
            seen.extend(read_events(io.BytesIO(data[:cut])))
        assert seen == EVENTS[: len(seen)]


def test_a_tar_cut_at_any_block_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    data = tar(("bin.000001", BINLOG), ("bin.000002", BINLOG))
    used = len(data.rstrip(b"\0"))
    for cut in range(0, used, 512):
        with pytest.raises(BinlogFileError):
            list(read_events(file(tmp_path, data[:cut])))
        with pytest.raises(BinlogFileError):
            list(read_events(io.BytesIO(data[:cut])))


def test_an_encrypted_binlog_says_what_to_do() -> None:
    with pytest.raises(BinlogFileError, match=r"not a binlog.*binlog_encryption = OFF"):
        list(read_events(io.BytesIO(b"\xfdbin" + BINLOG[4:])))


def test_a_size_that_cannot_be_is_refused_at_its_byte() -> None:
    with pytest.raises(BinlogFileError, match=r"without room for its header \(file='stream', byte=4\)"):
        list(read_events(io.BytesIO(b"\xfebin" + bytes(19))))
    huge = b"\xfebin" + bytes(9) + b"\xff\xff\xff\xff" + bytes(6) + b"x" * 100
    with pytest.raises(BinlogFileError, match=r"ends inside of an event \(file='stream', byte=4\)"):
        list(read_events(io.BytesIO(huge)))


def test_a_zstd_file_that_unpacks_to_gigabytes_takes_the_memory_of_a_block() -> None:
    tracemalloc.start()
    try:
        whole = unpacked(BinlogInput(io.BytesIO(zstd_bomb(1 << 29))), "bin.000001.zst")
        size = sum(len(whole.read(1 << 20)) for _ in range(100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == 100 << 20
    assert peak < 8 << 20


def test_an_xz_file_that_asks_for_gigabytes_is_refused_by_name() -> None:
    asking = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 25}]
    packed = bytearray(lzma.compress(BINLOG, filters=asking))
    # 4 GiB, as the byte of a dictionary's size has it; the block's header is summed.
    at = packed.index(b"\x21\x01", 12) + 2
    packed[at] = 40
    begin, end = 12, 12 + 4 * (packed[12] + 1)
    packed[end - 4 : end] = zlib.crc32(packed[begin : end - 4]).to_bytes(4, "little")
    with pytest.raises(BinlogFileError) as refused:
        list(read_events(io.BytesIO(bytes(packed))))
    assert (refused.value.details["allowed"], refused.value.details["file"]) == (1 << 28, "stream")


def test_what_xz_packs_best_is_read_and_zeros_behind_it_too() -> None:
    packed = lzma.compress(BINLOG, preset=9 | lzma.PRESET_EXTREME)
    assert list(read_events(io.BytesIO(packed + bytes(8)))) == EVENTS
    assert list(read_events(io.BytesIO(lzma.compress(BINLOG[:99]) + bytes(4) + lzma.compress(BINLOG[99:])))) == EVENTS


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BinlogFileError, match=r"file='.*nothing', byte=0, answer=.*No such file"):
        list(read_events(tmp_path / "nothing"))
