"""Reading SequenceFiles: older versions, Text, any spacing of markers; and files that are cut or damaged."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.formats.sequence.sequence_header import BYTES_WRITABLE, LONG_WRITABLE, TEXT, SequenceHeader, vint
from include.lake.formats.sequence.sequence_reader import SequenceReader, _vint
from include.lake.message import Message

SYNC = b"\xff" + bytes(range(15))
MARKER = b"\xff\xff\xff\xff" + SYNC
MESSAGES = [Message(n, b"%d" % n, b"value %d" % n * (n % 5)) for n in range(14)]
KINDS: list[dict[str, Any]] = [
    {},
    {"compression": "RECORD"},
    {"compression": "BLOCK", "block_bytes": 150},
    {"compression": "BLOCK", "block_bytes": 150, "codec": "snappy"},
]


def written(**configuration: Any) -> bytes:
    stream = io.BytesIO()
    writer = SequenceFile(**configuration).open_with(stream, iter([SYNC]))
    writer.write(MESSAGES)
    writer.close()
    return stream.getvalue()


def read(data: bytes) -> tuple[list[Any], Terminal | None]:
    found: list[Any] = []
    try:
        found.extend(SequenceReader(io.BytesIO(data)).records())
    except Terminal as error:
        return found, error
    return found, None


def messages_of(data: bytes) -> tuple[list[Message], Terminal | None]:
    found = []
    try:
        for message in SequenceFile().read(io.BytesIO(data)):
            found.append(message)  # noqa: PERF402 - what came before the error counts
    except Terminal as error:
        return found, error
    return found, None


@pytest.mark.parametrize(
    ("n", "data"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8f80"),
        (200, "8fc8"),
        (256, "8e0100"),
        (65536, "8d010000"),
        (-1, "ff"),
        (-112, "90"),
        (-113, "8770"),
        (-257, "860100"),
        (2**63 - 1, "887fffffffffffffff"),
        (-(2**63), "807fffffffffffffff"),
    ],
)
def test_integers_of_variable_length_are_hadoops(n: int, data: str) -> None:
    assert vint(n).hex() == data
    assert _vint(bytes.fromhex(data), 0) == (n, len(data) // 2)


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_integer_of_variable_length_comes_back(n: int) -> None:
    assert _vint(b"x" + vint(n) + b"y", 1) == (n, 1 + len(vint(n)))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_file_that_ends_too_early_gives_what_is_whole_and_names_the_byte(kind: dict[str, Any]) -> None:
    data = written(**kind)
    assert messages_of(data) == (MESSAGES, None)
    before = 0
    for end in range(len(data)):
        found, error = messages_of(data[:end])
        assert found == MESSAGES[: len(found)]
        assert len(found) >= before
        before = len(found)
        if error:
            assert 0 <= error.details["byte"] <= end
            assert error.fix
        elif kind.get("compression") != "BLOCK":
            assert len(data[:end]) >= len(data) - sum(len(m.value or b"") + 40 for m in MESSAGES[len(found) :])
    assert before >= 8


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_byte_that_is_changed_never_does_worse_than_an_error(kind: dict[str, Any]) -> None:
    data = written(**kind)
    for at in range(len(data)):
        for changed in (data[at] ^ 0xFF, data[at] ^ 1):
            found, error = messages_of(data[:at] + bytes((changed,)) + data[at + 1 :])
            assert error is not None or len(found) <= len(MESSAGES) + 1


def test_the_byte_named_is_where_the_record_begins() -> None:
    header = bytes(SequenceHeader(LONG_WRITABLE, BYTES_WRITABLE, "NONE", "", SYNC))
    record = bytes.fromhex("0000000e00000008000000000000000500000002") + b"hi"
    found, error = read(header + record + record[:-1])
    assert found == [(5, b"hi")]
    assert error is not None
    assert error.details["byte"] == 95 + 22
    found, error = read(header + record + MARKER + b"\0\0\0")
    assert found == [(5, b"hi")]
    assert error is not None
    assert error.details["byte"] == 95 + 22 + 20


def test_a_byte_is_right_behind_more_than_is_read_at_once() -> None:
    header = bytes(SequenceHeader(LONG_WRITABLE, BYTES_WRITABLE, "NONE", "", SYNC))
    body = b"".join(struct.pack(">iiqi", 12 + 1000, 8, n, 1000) + bytes(1000) for n in range(1000))
    found, error = read(header + body + b"\0\0\1\0\0\0\0\x08")
    assert [key for key, _ in found] == list(range(1000))
    assert error is not None
    assert error.details["byte"] == len(header) + len(body)


def test_markers_may_stand_anywhere() -> None:
    record = bytes.fromhex("0000000e00000008000000000000000500000002") + b"hi"
    header = bytes(SequenceHeader(LONG_WRITABLE, BYTES_WRITABLE, "NONE", "", SYNC))
    assert read(header + MARKER + MARKER + record + MARKER + record + MARKER) == ([(5, b"hi"), (5, b"hi")], None)
    assert read(header + MARKER) == ([], None)


def test_texts_are_read_as_their_utf8() -> None:
    header = bytes(SequenceHeader(TEXT, TEXT, "NONE", "", SYNC, {"b": "2", "a": "é"}))
    body = struct.pack(">ii", 3 + 201 + 1, 3) + b"\x02k1" + vint(200) + b"v" * 200
    reader = SequenceReader(io.BytesIO(header + body))
    assert reader.header.metadata == {"a": "é", "b": "2"}
    assert list(reader.records()) == [(b"k1", b"v" * 200)]
    with pytest.raises(Terminal, match="no messages that are known"):
        list(SequenceFile().read(io.BytesIO(header + body)))


@pytest.mark.parametrize(("text", "reason"), [(b"", "no length"), (b"\x03ab", "not the length")])
def test_a_text_that_is_none_is_refused(text: bytes, reason: str) -> None:
    header = bytes(SequenceHeader(TEXT, TEXT, "NONE", "", SYNC))
    found, error = read(header + struct.pack(">ii", len(text) + 1, len(text)) + text + b"\0")
    assert found == []
    assert error is not None
    assert reason in str(error)


@pytest.mark.parametrize("version", [4, 5])
def test_older_versions_are_read(version: int) -> None:
    new = bytes(SequenceHeader(LONG_WRITABLE, BYTES_WRITABLE, "RECORD", "", SYNC))
    # Behind the flags they have no metadata, and in version 4 no codec either.
    flags = new.index(b"\x01\x00", 10)
    codec = b"org.apache.hadoop.io.compress.DefaultCodec"
    old = b"SEQ" + bytes((version,)) + new[4 : flags + 2] + (vint(len(codec)) + codec if version == 5 else b"") + SYNC
    value = zlib.compress(b"\0\0\0\2hi")
    assert read(old + struct.pack(">iiq", 8 + len(value), 8, 5) + value) == ([(5, b"hi")], None)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin as one"),
        (b"PAR1 and more", "does not begin as one"),
        (b"SEQ\x03" + bytes(40), "version 3"),
        (b"SEQ\x06\x05abc", "ends too early"),
        (b"SEQ\x06\x8f", "inside a length"),
        (b"SEQ\x06\xff" + bytes(40), "a length is none"),
        (b"SEQ\x06\x01\xff" + bytes(40), "no UTF-8"),
        (b"SEQ\x06\x01a\x01b\x00\x01" + bytes(40), "no known way"),
        (b"SEQ\x06\x01a\x01b\x00\x00\xff\xff\xff\xff" + bytes(40), "metadata"),
        (b"SEQ\x06\x01a\x01b\x00\x00\x00\x00\x00\x00" + bytes(15), "ends too early"),
        (b"SEQ\x06\x01a\x01b\x00\x00\x00\x00\x00\x00" + bytes(16), "of these classes"),
    ],
)
def test_what_does_not_begin_as_a_sequence_file_is_refused(data: bytes, reason: str) -> None:
    found, error = read(data)
    assert found == []
    assert error is not None
    assert reason in str(error)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (struct.pack(">ii", 3, 8) + bytes(20), "lengths are none"),
        (struct.pack(">ii", -2, 8) + bytes(20), "lengths are none"),
        (struct.pack(">ii", 2**31 - 1, 8) + bytes(20), "inside a record"),
        (struct.pack(">ii", 11, 7) + bytes(11), "eight bytes"),
        (struct.pack(">ii", 13, 8) + bytes(11) + b"\x02a", "BytesWritable"),
        (b"\xff\xff\xff\xff" + bytes(16), "not the file's"),
        (b"\xff\xff\xff\xff" + bytes(6), "inside a sync marker"),
    ],
)
def test_a_record_that_is_none_is_refused(body: bytes, reason: str) -> None:
    header = bytes(SequenceHeader(LONG_WRITABLE, BYTES_WRITABLE, "NONE", "", SYNC))
    found, error = read(header + body)
    assert found == []
    assert error is not None
    assert reason in str(error)


def block(records: int, *parts: bytes) -> bytes:
    compressed = [zlib.compress(part) for part in parts]
    return MARKER + vint(records) + b"".join(vint(len(part)) + part for part in compressed)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x01\x02\x03\x04", "sync marker"),
        (block(2, b"\x08", bytes(8), b"\x04", bytes(4)), "fewer lengths"),
        (block(1, b"\x08\x08", bytes(16), b"\x04", bytes(4)), "more than records"),
        (block(1, b"\x07", bytes(8), b"\x04", bytes(4)), "do not agree"),
        (block(1, b"\x08", bytes(8), b"\x04", bytes(4)).replace(b"\x78\x9c", b"\x78\x9d"), "decompressed"),
        (MARKER + b"\x01", "inside a length"),
    ],
)
def test_a_block_that_is_none_is_refused_after_those_that_are_whole(body: bytes, reason: str) -> None:
    header = bytes(SequenceHeader(LONG_WRITABLE, BYTES_WRITABLE, "BLOCK", _default(), SYNC))
    whole = block(1, b"\x08", struct.pack(">q", 5), b"\x06", b"\0\0\0\2hi")
    found, error = read(header + whole + body)
    assert found == [(5, b"hi")]
    assert error is not None
    assert reason in str(error)
    assert error.details["byte"] == len(header) + len(whole)
    assert read(header + MARKER + whole + MARKER) == ([(5, b"hi")], None)


def _default() -> str:
    return "org.apache.hadoop.io.compress.DefaultCodec"
