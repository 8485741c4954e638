"""Frames follow from their content alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random

import zstandard

from include.lake.formats.zstd_frame import zstd_frame, zstd_version


def pieces(seed: int) -> list[bytes]:
    random = Random(seed)
    words = [random.randbytes(random.randrange(1, 12)) for _ in range(500)]
    return [b"".join(random.choices(words, k=random.choice([0, 1, 50, 5000]))) for _ in range(40)]


def test_what_was_compressed_before_changes_no_byte() -> None:
    for level in (1, 3, 9):
        for piece in pieces(level):
            alone = zstandard.ZstdCompressor(level, write_checksum=True).compress(piece)
            assert zstd_frame(piece, level) == alone
            assert zstd_frame(bytearray(piece), level) == alone


def test_threads_do_not_disturb_each_other() -> None:
    work = pieces(7) * 5
    expected = [zstd_frame(piece, 3) for piece in work]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda piece: zstd_frame(piece, 3), work)) == expected


def test_a_frame_tells_its_size_and_has_a_checksum() -> None:
    frame = zstandard.get_frame_parameters(zstd_frame(b"x" * 1000, 3))
    assert (frame.content_size, frame.has_checksum) == (1000, True)
    assert zstd_version() == ".".join(map(str, zstandard.ZSTD_VERSION))
