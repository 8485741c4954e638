"""Whole files: equal bytes for any pieces, readable by anyone, damage named."""

from __future__ import annotations

import gzip
import hashlib
import io
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from include.errors import Terminal
from include.lake.formats import compressed_file
from include.lake.formats.compressed_file import CompressedFile, Compression, read_lines
from tests.support.zstd_bomb import zstd_bomb

NONE, GZIP, ZSTD = Compression(), Compression(codec="gzip"), Compression(codec="zstd")
ALL = pytest.mark.parametrize("compression", [NONE, GZIP, ZSTD], ids=lambda c: c.codec)


def written(pieces: list[bytes], compression: Compression) -> bytes:
    stream = io.BytesIO()
    file = CompressedFile(stream, compression)
    sizes = [file.bytes_so_far]
    for piece in pieces:
        file.write(piece)
        sizes.append(file.bytes_so_far)
    closed = file.close(7)
    data = stream.getvalue()
    assert sizes == sorted(sizes)
    assert (closed.records, closed.bytes, closed.sha256) == (7, len(data), hashlib.sha256(data).hexdigest())
    return data


def plain(data: bytes, compression: Compression) -> bytes:
    if compression.codec == "gzip":
        return gzip.decompress(data)
    if compression.codec == "zstd":
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()
    return data


@ALL
@settings(max_examples=30)
@given(data=st.data())
def test_bytes_do_not_depend_on_the_pieces(compression: Compression, data: st.DataObject) -> None:
    text = data.draw(st.binary(max_size=50)) * data.draw(st.sampled_from([1, 3, 20_000]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = written([text], compression)
    assert written(pieces, compression) == whole
    assert plain(whole, compression) == text


def test_a_gzip_header_names_no_time_and_no_system() -> None:
    assert written([b"x\n"], GZIP)[:10] == bytes.fromhex("1f8b08000000000000ff")


def test_a_zstd_file_is_frames_of_pieces_with_their_checksums() -> None:
    data = written([b"%06d\n" % i for i in range(100_000)], ZSTD)
    sizes = []
    while data:
        frame = zstandard.get_frame_parameters(data)
        assert frame.has_checksum
        sizes.append(frame.content_size)
        reader = zstandard.ZstdDecompressor().decompressobj()
        reader.decompress(data)
        data = reader.unused_data
    assert sizes == [256 << 10, 256 << 10, 700_000 - (512 << 10)]


@ALL
def test_a_file_of_nothing_has_no_lines(compression: Compression) -> None:
    assert list(read_lines(io.BytesIO(written([], compression)), compression)) == []


@pytest.mark.parametrize("compression", [GZIP, ZSTD], ids=lambda c: c.codec)
def test_a_file_that_was_cut_to_nothing_is_damaged(compression: Compression) -> None:
    with pytest.raises(Terminal):
        list(read_lines(io.BytesIO(b""), compression))


@ALL
def test_lines_over_the_edges_of_pieces_come_whole(compression: Compression) -> None:
    lines = [b"%d" % i * (i % 50) for i in range(30_000)]
    stream = io.BytesIO(written([line + b"\n" for line in lines], compression))
    assert list(read_lines(stream, compression)) == lines


def lines_until_error(data: bytes, compression: Compression) -> tuple[list[bytes], Terminal]:
    lines: list[bytes] = []
    with pytest.raises(Terminal) as caught:
        lines.extend(read_lines(io.BytesIO(data), compression))
    return lines, caught.value


@ALL
def test_a_file_that_is_cut_off_gives_its_whole_lines_and_names_the_byte(compression: Compression) -> None:
    data = written([b"".join(hashlib.sha256(b"%d" % i).hexdigest().encode() + b"\n" for i in range(9000))], compression)
    lines, error = lines_until_error(data[:-6], compression)
    assert lines[:2] == [hashlib.sha256(b"%d" % i).hexdigest().encode() for i in (0, 1)]
    assert error.details["byte"] > 100_000


@pytest.mark.parametrize("compression", [GZIP, ZSTD], ids=lambda c: c.codec)
def test_every_flipped_byte_of_a_compressed_file_is_noticed(compression: Compression) -> None:
    data = written([b"some text\nand more of it\n"], compression)
    # The gzip header's time, flags and system and zstd's window decide on no content, and no checksum covers them.
    for at in set(range(len(data))) - set(range(4, 10) if compression is GZIP else {5}):
        flipped = data[:at] + bytes((data[at] ^ 0x21,)) + data[at + 1 :]
        with pytest.raises(Terminal):
            list(read_lines(io.BytesIO(flipped), compression))


@pytest.mark.parametrize("compression", [GZIP, ZSTD], ids=lambda c: c.codec)
def test_bytes_after_the_end_are_refused(compression: Compression) -> None:
    data = written([b"a\n"], compression)
    lines, error = lines_until_error(data + b"more", compression)
    assert lines == [b"a"]
    assert error.details["byte"] == len(data)


@pytest.mark.parametrize(
    ("compression", "packed"),
    [(GZIP, gzip.compress(bytes(1 << 26) + b"\n")), (ZSTD, zstd_bomb(1 << 29))],
    ids=["gzip", "zstd"],
)
def test_a_line_that_unpacks_to_more_than_is_allowed_is_refused_before_it_is_there(
    compression: Compression, packed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed_file, "MOST_BYTES", 1 << 20)
    tracemalloc.start()
    try:
        lines, error = lines_until_error(packed, compression)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (lines, error.details["allowed"]) == ([], 1 << 20)
    assert peak < 8 << 20


@ALL
def test_a_long_line_comes_whole_and_what_follows_it(compression: Compression) -> None:
    lines = [b"a", b"long " * 700_000, b"", b"z"]
    stream = io.BytesIO(written([b"\n".join(lines), b"\n"], compression))
    assert list(read_lines(stream, compression)) == lines


def test_what_the_last_bytes_of_a_gzip_file_stand_for_comes_in_pieces() -> None:
    packed = gzip.compress(bytes(1 << 24) + b"\nend\n")
    assert len(packed) < 20_000
    assert list(read_lines(io.BytesIO(packed), GZIP)) == [bytes(1 << 24), b"end"]
    assert lines_until_error(packed[:-9], GZIP)[1].details["byte"] > 0


@pytest.mark.parametrize(("codec", "level"), [("gzip", 10), ("zstd", 20), ("none", 1)])
def test_a_level_that_the_codec_does_not_have_is_refused(codec: str, level: int) -> None:
    with pytest.raises(ValidationError, match="levels"):
        Compression(codec=codec, level=level)  # type: ignore[arg-type]


def test_levels_differ_and_libraries_are_named() -> None:
    text = [b"abcdefgh%d" % (i * i) for i in range(20_000)]
    assert len(written(text, Compression(codec="gzip", level=9))) < len(
        written(text, Compression(codec="gzip", level=1))
    )
    assert GZIP.versions == {"zlib": zlib.ZLIB_RUNTIME_VERSION}
    assert set(ZSTD.versions) == {"zstd"}
    assert (NONE.versions, NONE.extension) == ({}, "")
