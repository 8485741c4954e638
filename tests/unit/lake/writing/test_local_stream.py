"""A local file without a handle behaves as any file, and says so when the disk is full."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Transient
from include.lake.writing.local_stream import BUFFER_BYTES, LocalStream


@given(st.lists(st.integers(0, 3 * BUFFER_BYTES), max_size=8), st.data())
def test_it_holds_what_was_written_and_then_replaced(sizes: list[int], data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        path.write_bytes(b"an older attempt")
        expected = bytearray()
        with LocalStream(path) as stream:
            for number, size in enumerate(sizes):
                piece = bytes((number + 1,)) * size
                assert stream.write(piece) == size
                expected += piece
                assert stream.tell() == len(expected)
            if len(expected) > 1:
                place = data.draw(st.integers(0, len(expected) - 2))
                stream.seek(place)
                stream.write(b"xy")
                expected[place : place + 2] = b"xy"
                stream.seek(0)
                assert stream.read(5) == expected[:5]
                assert stream.read() == expected[5:]
        assert path.read_bytes() == expected


def test_handles_are_held_by_nobody_between_writes(tmp_path: Path) -> None:
    import os

    before = len(os.listdir("/proc/self/fd"))
    streams = [LocalStream(tmp_path / str(number)) for number in range(300)]
    for stream in streams:
        stream.write(b"x" * (BUFFER_BYTES + 1))
    assert len(os.listdir("/proc/self/fd")) == before
    for stream in streams:
        stream.close()


def test_a_disk_that_refuses_is_something_that_passes(tmp_path: Path) -> None:
    with pytest.raises(Transient, match="takes no more"):
        LocalStream(tmp_path / "absent" / "f")
