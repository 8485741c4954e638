"""Rows of the state as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.state.pointer import BucketPointer, Log
from include.state.rows import pack, unpack

pytestmark = pytest.mark.unit


@given(st.lists(st.tuples(st.binary(max_size=20), st.none() | st.binary(max_size=300))))
def test_rows_come_back_as_they_were(rows: list[tuple[bytes, bytes | None]]) -> None:
    assert list(unpack(pack(rows))) == rows


def test_rows_that_are_damaged_are_told() -> None:
    packed = pack([(b"key", b"value" * 50), (b"gone", None)])
    for place in range(len(packed)):
        broken = bytearray(packed)
        broken[place] ^= 0x40
        with pytest.raises(Terminal, match=r"damaged|another form"):
            list(unpack(bytes(broken)))
    for end in range(len(packed)):
        with pytest.raises(Terminal, match=r"damaged|cut short"):
            list(unpack(packed[:end]))


def test_a_codec_of_another_release_is_told_with_the_way_out() -> None:
    packed = bytearray(pack([(b"key", b"value")]))
    packed[3] = 9
    with pytest.raises(Terminal, match="lyrebird state") as refused:
        list(unpack(bytes(packed)))
    assert refused.value.details["codec"] == 9
    with pytest.raises(Terminal, match="lyrebird state") as refused:
        BucketPointer.from_bytes(BucketPointer("u").to_bytes().replace(b'"codec":1', b'"codec":9'))
    assert refused.value.details["codec"] == 9
    with pytest.raises(Terminal, match="cannot be read"):
        BucketPointer.from_bytes(b"[]")


def test_a_pointer_comes_back_as_it_was() -> None:
    pointer = BucketPointer("c", "a", (Log("b", 7), Log("c", 9)), {"rows": 2, "bytes": 90}, 12)
    assert BucketPointer.from_bytes(pointer.to_bytes()) == pointer
    assert pointer.log_bytes == 16
    assert BucketPointer.from_bytes(BucketPointer("a").to_bytes()) == BucketPointer("a")
