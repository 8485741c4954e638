"""Streams of zstd frames, block by block: equal to the library's, never more than a block at a time, no end missed."""

from __future__ import annotations

import io
import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from include.zstd_blocks import whole_zstd, zstd_blocks
from tests.support.zstd_bomb import zstd_bomb

MOST = 1 << 24
SKIPPED = struct.pack("<II", 0x184D2A53, 5) + b"notes"
TEXT = b"".join(b"%d, " % (i * i) for i in range(60_000))


def streamed(data: bytes, checksum: bool) -> bytes:
    """A frame that does not tell its size, with blocks of many lengths."""
    machine = zstandard.ZstdCompressor(level=3, write_checksum=checksum).compressobj()
    parts = [
        machine.compress(data[at : at + 7777]) + machine.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for at in range(0, len(data), 7777)
    ]
    return b"".join(parts) + machine.flush()


@given(
    st.lists(
        st.tuples(st.binary(max_size=60), st.sampled_from([1, 9, 9000]), st.sampled_from([1, 3, 19]), st.booleans()),
        max_size=4,
    )
)
def test_frames_of_any_level_give_what_was_packed(parts: list[tuple[bytes, int, int, bool]]) -> None:
    plain = [data * times for data, times, _, _ in parts]
    packed = b"".join(
        zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress(data) + SKIPPED
        for data, (_, _, level, checksum) in zip(plain, parts, strict=True)
    )
    assert whole_zstd(packed, MOST) == b"".join(plain)


@pytest.mark.parametrize("checksum", [False, True])
def test_a_stream_tells_how_much_of_it_was_taken(checksum: bool) -> None:
    packed = streamed(TEXT, checksum)
    places = [taken for _, taken in zstd_blocks(io.BytesIO(packed).read)]
    assert whole_zstd(packed, MOST) == TEXT
    assert places == sorted(set(places))
    assert len(packed) - places[-1] <= 7


@pytest.mark.parametrize("checksum", [False, True])
def test_a_stream_that_is_cut_is_never_taken_for_whole(checksum: bool) -> None:
    packed = streamed(TEXT[:20_000], checksum)
    for cut in range(1, len(packed)):
        with pytest.raises(EOFError):
            whole_zstd(packed[:cut], MOST)


def test_a_block_is_at_most_128_kib_however_few_bytes_it_has() -> None:
    blocks = zstd_blocks(io.BytesIO(zstd_bomb(1 << 30)).read)
    sizes = {len(next(blocks)[0]) for _ in range(500)}
    assert sizes == {1 << 17}


def test_more_than_is_allowed_is_refused() -> None:
    assert len(whole_zstd(zstd_bomb(MOST), MOST)) == MOST
    with pytest.raises(ValueError, match=str(MOST)):
        whole_zstd(zstd_bomb(1 << 30), MOST)


@pytest.mark.parametrize("size", [1 << 18, (1 << 21) - 1])
def test_a_block_that_says_more_than_blocks_have_is_damaged(size: int) -> None:
    block = (size << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    with pytest.raises(zstandard.ZstdError):
        whole_zstd(zstd_bomb(1 << 17)[:6] + block, MOST)


def test_a_window_of_256_mib_is_refused() -> None:
    with pytest.raises(zstandard.ZstdError):
        whole_zstd(b"\x28\xb5\x2f\xfd\0" + bytes([(28 - 10) << 3]) + zstd_bomb(1 << 17)[6:], MOST)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_do_other_than_unpack_or_be_refused(data: bytes, at: int) -> None:
    packed = bytearray(streamed(TEXT[:5000], checksum=True))
    packed[at : at + len(data)] = data
    try:
        found = whole_zstd(bytes(packed), MOST)
    except (EOFError, zstandard.ZstdError, ValueError):
        return
    assert len(found) <= MOST
