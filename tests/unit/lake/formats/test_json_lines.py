"""JSON lines: all of a message, or its payload, comes back."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.formats.compressed_file import Compression
from include.lake.formats.json_lines import JsonLines, JsonLinesOptions
from include.lake.formats.port import FileIdentity
from include.lake.message import Message

IDENTITY = FileIdentity("logs", "topicid", 0, 0, ("dt=2026-01-02",))
WHOLE = JsonLines(JsonLinesOptions())
PAYLOAD = JsonLines(JsonLinesOptions(content="payload"))

data_ = st.none() | st.binary(max_size=20) | st.text(max_size=8).map(str.encode)
messages = st.lists(
    st.builds(
        Message,
        st.integers(0, 2**63 - 1),
        data_,
        data_,
        st.lists(st.tuples(st.text(max_size=4), data_), max_size=3).map(tuple),
        st.integers(-1, 2**62),
        st.sampled_from([0, 1, 2]),
    ),
    max_size=8,
)


def file_of(format_: JsonLines, batches: Sequence[Sequence[Message]]) -> bytes:
    stream = io.BytesIO()
    writer = format_.open(stream, IDENTITY)
    for batch in batches:
        writer.write(batch)
    size = writer.bytes_so_far
    closed = writer.close()
    assert closed.records == sum(map(len, batches))
    assert size == closed.bytes or format_.options.compression.codec != "none"
    return stream.getvalue()


def test_golden_bytes() -> None:
    message = Message(5, b"k", b'{"a":1}', (("h", b"\xff"), ("h", None)), 1_700_000_000_000, 1)
    assert file_of(WHOLE, [[message, Message(6, None, b"")]]) == (
        b'{"offset":5,"timestamp_ms":1700000000000,"timestamp_type":1,"key":"k","value":"{\\"a\\":1}",'
        b'"headers":[["h",{"base64":"/w=="}],["h",null]]}\n'
        b'{"offset":6,"timestamp_ms":null,"timestamp_type":0,"key":null,"value":"","headers":[]}\n'
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
@settings(max_examples=30)
@given(given_messages=messages)
def test_all_of_every_message_comes_back(codec: str, given_messages: list[Message]) -> None:
    format_ = JsonLines(JsonLinesOptions(compression=Compression(codec=codec)))  # type: ignore[arg-type]
    assert not any(format_.refuses(message) for message in given_messages)
    data = file_of(format_, [given_messages])
    assert list(format_.read(io.BytesIO(data))) == given_messages
    assert file_of(format_, [[message] for message in given_messages]) == data


@settings(max_examples=30)
@given(messages)
def test_every_line_is_json_to_others_too(given_messages: list[Message]) -> None:
    lines = file_of(WHOLE, [given_messages]).decode().split("\n")
    assert [json.loads(line)["offset"] for line in lines[:-1]] == [message.offset for message in given_messages]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=30)
@given(st.lists(json_values, max_size=6), st.sampled_from([None, 2]))
def test_payloads_that_span_lines_become_one_line_of_equal_value(contents: list[object], indent: int | None) -> None:
    texts = [json.dumps(content, indent=indent).encode() for content in contents]
    given_messages = [Message(i, None, text) for i, text in enumerate(texts)]
    assert not any(PAYLOAD.refuses(message) for message in given_messages)
    data = file_of(PAYLOAD, [given_messages])
    assert [json.loads(message.value or b"") for message in PAYLOAD.read(io.BytesIO(data))] == contents
    if indent is None:
        assert data == b"".join(text + b"\n" for text in texts)


@pytest.mark.parametrize("value", [None, b"", b"{", b"{} {}", b"NaN", b'"a\nb"', b"\xff", b"\xef\xbb\xbf{}"])
def test_payloads_that_are_no_json_are_refused(value: bytes | None) -> None:
    assert "JSON" in PAYLOAD.refuses(Message(0, None, value))


def test_a_null_payload_that_nobody_asked_about_stops_the_writer() -> None:
    with pytest.raises(Terminal, match="refuses"):
        file_of(PAYLOAD, [[Message(0, None, None)]])


def test_a_header_name_that_is_no_utf_8_is_refused() -> None:
    assert WHOLE.refuses(Message(0, None, b"", (("\ud800", b""),))) == "header name is not UTF-8"


@pytest.mark.parametrize("line", [b"{}", b"[]", b"{", b"5", b'{"offset":1,"key":{"base64":"?"},"value":null}'])
def test_a_line_that_is_no_message_is_named(line: bytes) -> None:
    good = file_of(WHOLE, [[Message(1, None, b"")]])
    read = WHOLE.read(io.BytesIO(good + line + b"\n"))
    assert next(read).offset == 1
    with pytest.raises(Terminal) as refused:
        next(read)
    assert refused.value.details["line"] == 2


def test_names_say_how_files_are_compressed() -> None:
    assert WHOLE.extension == ".jsonl"
    packed = JsonLines(JsonLinesOptions(compression=Compression(codec="zstd")))
    assert packed.extension == ".jsonl.zst"
    assert set(packed.versions) == {"zstd"}
