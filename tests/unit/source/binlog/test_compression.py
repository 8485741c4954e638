"""What compressed events hold, and that they never hold more than they say."""

from __future__ import annotations

import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.source.binlog.body import BodyReader
from include.source.binlog.compression import inflate, payload_events
from include.source.binlog.events import parse_query, parse_rows_head
from include.source.binlog.reader import Event, EventType
from tests.support.binlog.builder import image, query_body, raw, rows_body


def event(kind: EventType, body: bytes) -> Event:
    return Event(kind, 1, 1, 19 + len(body) + 4, 900, False, body, "bin.000001", "mysql")


def deflated(data: bytes, head: int = 0x80, size: int | None = None) -> bytes:
    width = max(1, (len(data).bit_length() + 7) // 8)
    return bytes((head | width,)) + (len(data) if size is None else size).to_bytes(width, "big") + zlib.compress(data)


def lenenc(number: int) -> bytes:
    return bytes((number,)) if number < 251 else b"\xfd" + number.to_bytes(3, "little")


def payload(inner: bytes, algorithm: int = 0, size: int | None = None, packed: bytes | None = None) -> Event:
    packed = zstandard.compress(inner) if packed is None else packed
    head = b""
    for number, value in ((2, algorithm), (3, len(inner) if size is None else size), (1, len(packed))):
        field = lenenc(value)
        head += bytes((number, len(field))) + field
    return event(EventType.TRANSACTION_PAYLOAD, head + b"\0" + packed)


def plain(kind: int, body: bytes) -> bytes:
    return raw(kind, body, checksum=False)


@given(st.binary(max_size=70_000))
def test_any_content_survives_mariadbs_compression(data: bytes) -> None:
    assert inflate(BodyReader(event(EventType.QUERY_COMPRESSED, deflated(data)))) == data


def test_a_compressed_statement_has_its_head_plain() -> None:
    text = "CREATE TABLE t (" + "a" * 300 + " int)"
    body = query_body("") + deflated(text.encode())
    assert parse_query(event(EventType.QUERY_COMPRESSED, body)).text == text


@pytest.mark.parametrize(
    ("kind", "v2", "masks"),
    [
        (EventType.WRITE_ROWS_COMPRESSED, False, 1),
        (EventType.UPDATE_ROWS_COMPRESSED, False, 2),
        (EventType.DELETE_ROWS_COMPRESSED, False, 1),
        (EventType.WRITE_ROWS_COMPRESSED_V2, True, 1),
        (EventType.UPDATE_ROWS_COMPRESSED_V2, True, 2),
        (EventType.DELETE_ROWS_COMPRESSED_V2, True, 1),
    ],
)
def test_compressed_rows_are_as_plain_ones(kind: EventType, v2: bool, masks: int) -> None:
    images = b"".join(map(image, range(100)))
    head = rows_body(9, v2=v2) + b"\x01" * (masks - 1)
    found = parse_rows_head(event(kind, head + deflated(images)))
    assert found.body == b"\x01" + b"\x01" * masks + images
    assert (found.table_id, found.end_of_statement) == (9, True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        deflated(b"hello", head=0x90),
        deflated(b"hello", head=0x00),
        b"\x80" + zlib.compress(b""),
        b"\x85\0\0\0\0\x05" + zlib.compress(b"hello"),
        deflated(b"hello", size=4),
        deflated(b"hello", size=6),
        deflated(b"hello")[:-1],
        deflated(b"hello") + b"x",
        b"\x81\x05" + zlib.compress(b"hello", wbits=-15),
    ],
)
def test_content_that_is_not_as_its_head_says_is_refused(data: bytes) -> None:
    with pytest.raises(Terminal, match=r"QUERY_COMPRESSED.*cause="):
        inflate(BodyReader(event(EventType.QUERY_COMPRESSED, data)))


def test_a_payload_gives_its_events_at_its_own_position() -> None:
    inner = plain(2, query_body("BEGIN")) + plain(30, b"r" * 1_000_000) + plain(16, b"12345678")
    found = list(payload_events(payload(inner)))
    assert [each.type.name for each in found] == ["QUERY", "WRITE_ROWS_V2", "XID"]
    assert {(each.file, each.log_pos) for each in found} == {("bin.000001", 900)}
    assert [len(each.body) for each in found] == [len(query_body("BEGIN")), 1_000_000, 8]
    assert list(payload_events(payload(inner, algorithm=255, packed=inner))) == found


def test_a_payload_of_several_frames_is_one() -> None:
    parts = plain(2, query_body("BEGIN")), plain(16, b"12345678")
    packed = b"".join(map(zstandard.compress, parts))
    assert len(list(payload_events(payload(b"".join(parts), packed=packed)))) == 2


@pytest.mark.parametrize("code", [3, 4, 15, 27, 33, 34, 35, 40, 41, 42, 99, 162, 166])
def test_what_cannot_stand_in_a_payload_is_refused(code: int) -> None:
    with pytest.raises(Terminal, match=rf"type {code} cannot stand inside"):
        list(payload_events(payload(plain(code, b"12345678"))))


def test_a_payload_never_grows_beyond_what_it_says() -> None:
    inner = plain(30, bytes(50_000_000))
    with pytest.raises(Terminal, match="larger than it says"):
        list(payload_events(payload(inner, size=1_000)))
    with pytest.raises(Terminal, match="smaller than it says"):
        list(payload_events(payload(plain(16, b"12345678"), size=1_000)))


def test_a_damaged_payload_is_refused() -> None:
    inner = plain(2, query_body("BEGIN")) + plain(16, b"12345678")
    whole = payload(inner)
    for cut in range(len(whole.body)):
        with pytest.raises(Terminal):
            list(payload_events(whole._replace(body=whole.body[:cut])))
    for broken in (inner[:-1], inner[:9] + b"\x05\0\0\0" + inner[13:]):
        with pytest.raises(Terminal, match="inside of it"):
            list(payload_events(payload(broken)))
    with pytest.raises(Terminal, match="way that is not known"):
        list(payload_events(payload(inner, algorithm=7)))
