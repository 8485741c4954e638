"""Keys: golden bytes of Secor's MessagePack maps, everything of a message in the verbatim profile, and what is none."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.lake.formats.sequence.key_layout import OffsetKey
from include.lake.formats.sequence.message_pack_key import MessagePackKey, packed, unpacked_map
from include.lake.formats.sequence.verbatim import VerbatimKey, _entries, _usual, _whole
from include.lake.message import Message

OFFSETS = st.integers(0, 2**63 - 1) | st.sampled_from([0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
TIMESTAMPS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-1, 0, 2**32 - 1, 2**32, 1700000000000])
BYTES = st.binary(max_size=20) | st.sampled_from([b"", bytes(255), bytes(256)])
# Any bytes at all.
NAMES = st.text(max_size=8) | st.binary(max_size=8).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
TEXTS = NAMES | st.sampled_from(["x" * 31, "x" * 32, "x" * 256])
HEADERS = st.lists(st.tuples(NAMES, st.none() | BYTES), max_size=4).map(tuple)
MESSAGES = st.builds(
    Message,
    OFFSETS,
    st.none() | BYTES,
    st.none() | BYTES,
    st.just(()) | HEADERS,
    TIMESTAMPS,
    st.sampled_from([0, 1, 2]),
)


def key(layout: Any, message: Message) -> bytes:
    """Without the length in front."""
    (found,) = layout.keys([message])
    assert int.from_bytes(found[:4], "big") == len(found) - 4
    return bytes(found[4:])


def again(layout: Any, message: Message) -> Message:
    (value,) = layout.values([message])
    found = layout.message(key(layout, message), value)
    assert isinstance(found, Message)
    return found


@pytest.mark.parametrize(
    ("message", "packed"),
    [
        (Message(5, b"k", b"", (), 1700000000000, 1), "83 01 05 03 cf0000018bcfe56800 02 c4016b"),
        (Message(5, None, b""), "81 01 05"),
        (Message(5, b"", b""), "81 01 05"),
        (Message(300, None, b""), "81 01 cd012c"),
        (Message(2**40, None, b"", (), 0, 1), "82 01 cf0000010000000000 03 00"),
        (Message(200, b"k", b""), "82 01 ccc8 02 c4016b"),
    ],
)
def test_a_map_has_the_bytes_of_secors(message: Message, packed: str) -> None:
    assert key(MessagePackKey(timestamp=True), message) == bytes.fromhex(packed)


def test_without_a_timestamp_asked_for_none_is_written() -> None:
    assert key(MessagePackKey(), Message(5, b"k", b"", (), 1700000000000, 1)).hex() == "82010502c4016b"


@settings(max_examples=60)
@given(MESSAGES)
def test_secors_layout_keeps_offset_key_value_and_timestamp(message: Message) -> None:
    layout = MessagePackKey(timestamp=True, null_value="empty")
    kept = message._replace(key=message.key or None, value=message.value or b"", headers=(), timestamp_type=0)
    assert again(layout, message) == kept
    assert again(MessagePackKey(null_value="empty"), message) == kept._replace(timestamp_ms=-1)


def test_entries_that_are_not_known_are_passed_over() -> None:
    entries = (
        "8a 01 05 04 92a16190 05 c0 06 c3 07 cb3ff0000000000000 08 d40102 09 c7020a0b0c 0a 81a161ff 0b d1ff00 02 a26b6b"
    )
    assert MessagePackKey().message(bytes.fromhex(entries), b"v") == Message(5, b"kk", b"v")


@settings(max_examples=60)
@given(st.integers(-(2**63), 2**64 - 1))
def test_a_number_takes_its_smallest_form_and_comes_back(n: int) -> None:
    data = packed(n)
    assert unpacked_map(b"\x81\x01" + data) == {1: n}
    sizes = (1,) if -32 <= n < 128 else (2, 3, 5, 9)
    assert len(data) in sizes
    if len(data) > 2:
        fewer = {3: 1, 5: 2, 9: 4}[len(data)]
        assert not -(1 << (8 * fewer - 1)) <= n < 1 << 8 * fewer or (n >= 0 and n >> 8 * fewer)


@settings(max_examples=60)
@given(TEXTS)
def test_a_text_comes_back(text: str) -> None:
    assert unpacked_map(b"\x81\x01" + packed(text)) == {1: text.encode("utf-8", "surrogateescape")}


@settings(max_examples=60)
@given(MESSAGES)
def test_verbatim_keeps_all_of_a_message(message: Message) -> None:
    found = again(VerbatimKey(), message)
    assert found == message
    assert (found.key is None, found.value is None) == (message.key is None, message.value is None)


def test_verbatim_tells_null_from_empty_and_keeps_order_and_repeats_of_headers() -> None:
    headers = (("b", b""), ("a", None), ("b", b"2"), ("", b"x"))
    for name in (None, b""):
        for value in (None, b""):
            message = Message(1, name, value, headers, 0, 2)
            assert again(VerbatimKey(), message) == message


@pytest.mark.parametrize("size", [65_535, 65_536])
@pytest.mark.parametrize("headers", [15, 16, 65_536])
def test_verbatim_keeps_what_is_long(size: int, headers: int) -> None:
    long = (("n" * size, bytes(size)), *((("h", None),) * (headers - 1)))
    message = Message(1, bytes(size), bytes(size), long, 0, 1)
    assert again(VerbatimKey(), message) == message


@pytest.mark.parametrize("name", [None, b"", b"k", bytes(255), bytes(256)])
def test_a_usual_record_comes_back(name: bytes | None) -> None:
    for offset in (0x10000, 0xFFFFFFFF, 0x100000000):
        for value in (None, b"", b"v"):
            message = Message(offset, name, value, (), 1700000000000, 1)
            assert again(VerbatimKey(), message) == message


def test_verbatim_has_these_bytes() -> None:
    message = Message(5, None, None, (("h", None), ("é", b"1")), -1, 0)
    assert key(VerbatimKey(), message) == bytes.fromhex(
        "86 01 05 03 ff 02 c0 04 92 92a168c0 92a2c3a9c40131 05 00 06 01"
    )
    assert key(VerbatimKey(), Message(5, b"", b"v", (), 1700000000000, 1)) == bytes.fromhex(
        "86 01 05 03 cf0000018bcfe56800 02 c400 04 90 05 01 06 02"
    )


@settings(max_examples=60)
@given(MESSAGES)
def test_the_fast_way_and_the_whole_way_agree(message: Message) -> None:
    packed = key(VerbatimKey(), message)
    usual = _usual(packed)
    if usual:
        assert (*usual, ()) == _entries(packed)
    assert bool(usual) == (
        not message.headers
        and message.offset > 0xFFFF
        and message.timestamp_ms > 0xFFFFFFFF
        and (message.key is None or len(message.key) < 256)
    )


@settings(max_examples=60)
@given(st.lists(MESSAGES, max_size=6))
def test_the_keys_of_many_are_those_of_each(messages: list[Message]) -> None:
    assert VerbatimKey().keys(messages) == [_whole(message) for message in messages]


@settings(max_examples=60)
@given(MESSAGES, st.data())
def test_a_key_that_is_cut_or_goes_on_is_no_message(message: Message, data: st.DataObject) -> None:
    packed = key(VerbatimKey(), message)
    cut = packed[: data.draw(st.integers(0, len(packed) - 1))]
    for broken in (cut, packed + b"\xc0"):
        with pytest.raises(ValueError, match="its key"):
            VerbatimKey().message(broken, message.value or b"")


@settings(max_examples=60)
@given(st.binary(max_size=60))
def test_no_bytes_do_other_than_give_a_message_or_a_reason(data: bytes) -> None:
    for layout in (MessagePackKey(), VerbatimKey()):
        for each in (data, b"\x86\x01" + data, b"\x81\x01\x05\x86\x01\xce" + data):
            found = None
            with suppress(ValueError):
                found = layout.message(each, b"")
            assert found is None or type(found) is Message


@pytest.mark.parametrize(
    "packed",
    [
        "80",
        "81 01 c0",
        "81 01 ff",
        "82 01 05 03 a131",
        "82 01 05 02 05",
        "82 01 05 01 05",
        "81 90 05",
        "05",
        "81 01 c1",
        "dfffffffff",
        "8101" + "91" * 2000 + "05",
    ],
)
def test_a_map_that_is_no_key_is_refused_with_a_reason(packed: str) -> None:
    with pytest.raises(ValueError, match="key"):
        MessagePackKey().message(bytes.fromhex(packed), b"")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ("85 01 05 03 ff 02 c0 04 90 05 00", "entries"),
        ("86 01 a131 03 ff 02 c0 04 90 05 00 06 00", "offset"),
        ("86 01 ff 03 ff 02 c0 04 90 05 00 06 00", "offset"),
        ("86 01 05 03 ff 02 c0 04 90 05 03 06 00", "timestamp"),
        ("86 01 05 03 ff 02 c0 04 90 05 c3 06 00", "timestamp"),
        ("86 01 05 03 ff 02 c0 04 90 05 00 06 04", "flags"),
        ("86 01 05 03 ff 02 c0 04 90 05 00 06 02", "agree"),
        ("86 01 05 03 ff 02 c400 04 90 05 00 06 00", "agree"),
        ("86 01 05 03 ff 02 07 04 90 05 00 06 02", "bytes"),
        ("86 01 05 03 ff 02 c0 04 90 05 00 06 01", "no value"),
        ("86 01 05 03 ff 02 c0 04 c0 05 00 06 00", "list"),
        ("86 01 05 03 ff 02 c0 04 91 91 a161 05 00 06 00", "pair"),
        ("86 01 05 03 ff 02 c0 04 91 92 a161 05 05 00 06 00", "header"),
    ],
)
def test_verbatim_takes_nothing_that_it_does_not_write(changed: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        VerbatimKey().message(bytes.fromhex(changed), b"v")


def test_a_key_of_another_class_is_refused() -> None:
    for layout in (MessagePackKey(), VerbatimKey()):
        with pytest.raises(ValueError, match="no MessagePack map"):
            layout.message(5, b"")
    with pytest.raises(ValueError, match="no number"):
        OffsetKey().message(b"", b"")
    with pytest.raises(ValueError, match="no offset"):
        OffsetKey().message(-1, b"")
