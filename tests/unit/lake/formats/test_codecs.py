"""Codecs: round trips, Hadoop's framing, levels, and bytes that are damaged."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
from contextlib import suppress
from typing import Any, get_args

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.formats.sequence.codecs import DAMAGED, LEVELS, CodecName, codec, codec_of_class
from include.lake.formats.unpacking import TooLargeError

NAMES: tuple[CodecName, ...] = get_args(CodecName)
SIZES = [0, 1, 5, 218_421, 218_422, 218_423, 261_100, 261_101, 600_000]


def content(size: int) -> bytes:
    """Half of it compresses well, and half not at all."""
    chance = random.Random(size)
    return chance.randbytes(size // 2) + b"the same again, " * (size // 32 + 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", SIZES)
def test_what_is_compressed_comes_back(name: CodecName, size: int) -> None:
    # Only these two cut what is long.
    data = content(size)[: size if name in ("snappy", "lz4") else size // 20]
    made = codec(name)
    compressed = made.compress(data)
    assert made.decompress(compressed) == data
    assert codec_of_class(made.class_name).decompress(compressed) == data
    assert made.compress(data) == compressed


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(data=st.binary(max_size=400), cut=st.integers(1, 8))
def test_what_is_cut_is_refused(name: CodecName, data: bytes, cut: int) -> None:
    made = codec(name)
    compressed = made.compress(data)
    try:
        found = made.decompress(compressed[:-cut] if cut < len(compressed) else compressed[:1])
    except DAMAGED:
        return
    # Nothing but the sections of an empty stream can lose its end and stay whole.
    assert found == b""
    assert data == b"" or name in ("snappy", "lz4")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=50)
@given(data=st.binary(max_size=100))
def test_no_bytes_do_other_than_decompress_or_be_refused(name: CodecName, data: bytes) -> None:
    made = codec(name)
    found = b""
    with suppress(*DAMAGED):
        found = made.decompress(data)
    assert isinstance(found, bytes)


def test_zlib_begins_as_hadoops_does() -> None:
    assert codec("zlib").compress(b"")[:2].hex() == "789c"


def test_gzip_has_neither_time_nor_system_in_its_header() -> None:
    compressed = codec("gzip").compress(b"hello")
    assert compressed[:10].hex() == "1f8b0800000000000000"
    assert gzip.decompress(compressed) == b"hello"


@pytest.mark.parametrize("name", ["snappy", "lz4"])
def test_a_short_stream_is_one_section_of_one_chunk(name: Any) -> None:
    compressed = codec(name).compress(b"hello")
    raw, chunk = struct.unpack_from(">II", compressed)
    assert (raw, chunk) == (5, len(compressed) - 8)
    assert codec(name).compress(b"").hex() == "00000000"


@pytest.mark.parametrize(("name", "arrow"), [("snappy", "snappy"), ("lz4", "lz4_raw")])
@pytest.mark.parametrize("chunk", [1, 100, 1000])
def test_sections_and_chunks_of_any_size_are_read(name: Any, arrow: str, chunk: int) -> None:
    data = content(3000)[:3000]
    compress = pyarrow.Codec(arrow).compress
    stream = b""
    for section in (data[:1200], data[1200:2999], data[2999:]):
        stream += struct.pack(">I", len(section))
        for at in range(0, len(section), chunk):
            part = compress(section[at : at + chunk], asbytes=True)
            stream += struct.pack(">I", len(part)) + part
    assert codec(name).decompress(stream) == data
    assert codec(name).decompress(stream + bytes(4)) == data


@pytest.mark.parametrize("name", ["snappy", "lz4"])
@pytest.mark.parametrize("told", [4, 6])
def test_a_section_that_tells_a_wrong_length_is_refused(name: Any, told: int) -> None:
    compressed = struct.pack(">I", told) + codec(name).compress(b"hello")[4:]
    with pytest.raises(DAMAGED):
        codec(name).decompress(compressed)


@pytest.mark.parametrize("name", ["snappy", "lz4"])
@pytest.mark.parametrize("chunk", ["", "00", "ffffffff0f00"])
def test_a_chunk_that_is_empty_or_tells_of_gigabytes_is_refused(name: Any, chunk: str) -> None:
    data = bytes.fromhex(chunk)
    with pytest.raises(DAMAGED):
        codec(name).decompress(struct.pack(">II", 0xFFFFFFFF, len(data)) + data)


@pytest.mark.parametrize("name", NAMES)
def test_what_unpacks_to_more_than_is_allowed_is_refused_before_it_is_there(name: CodecName) -> None:
    most, made = 1 << 20, codec(name)
    assert len(made.decompress(made.compress(bytes(most)), most)) == most
    packed = made.compress(bytes(most << 5))
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError) as refused:
            made.decompress(packed, most)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(refused.value, DAMAGED)
    assert peak < 4 * most


@pytest.mark.parametrize("name", ["gzip", "bzip2", "zstd"])
def test_streams_that_follow_each_other_share_the_bound(name: Any) -> None:
    made = codec(name)
    packed = made.compress(bytes(1000))
    assert len(made.decompress(packed * 3, 3000)) == 3000
    with pytest.raises(TooLargeError, match="2999"):
        made.decompress(packed * 3, 2999)


def test_several_frames_of_zstd_are_one_stream() -> None:
    made = codec("zstd")
    assert made.decompress(made.compress(b"a") + made.compress(b"b")) == b"ab"


@pytest.mark.parametrize("name", NAMES)
def test_levels_are_kept_to(name: CodecName) -> None:
    if name not in LEVELS:
        with pytest.raises(ValueError, match="no levels"):
            codec(name, 1)
        return
    least, default, most = LEVELS[name]
    data = content(30_000)
    assert codec(name, default).compress(data) == codec(name).compress(data)
    assert {codec(name, level).decompress(codec(name, level).compress(data)) for level in (least, most)} == {data}
    for level in (least - 1, most + 1):
        with pytest.raises(ValueError, match="levels from"):
            codec(name, level)


def test_a_codec_that_is_not_known_is_named() -> None:
    with pytest.raises(Terminal, match=r"LzoCodec.*Hadoop installation"):
        codec_of_class("com.hadoop.compression.lzo.LzoCodec")
