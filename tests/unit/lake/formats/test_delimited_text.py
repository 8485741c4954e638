"""Delimited text: one line a message, whatever is in it, or not at all."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.formats.compressed_file import Compression
from include.lake.formats.delimited_text import DelimitedText, DelimitedTextOptions
from include.lake.formats.port import FileIdentity
from include.lake.message import Message

IDENTITY = FileIdentity("logs", "topicid", 0, 0, ("dt=2026-01-02",))
PLAIN = DelimitedText(DelimitedTextOptions())
ESCAPE = DelimitedText(DelimitedTextOptions(embedded="escape"))
LF = DelimitedText(DelimitedTextOptions(breaks="lf"))
ESCAPE_LF = DelimitedText(DelimitedTextOptions(breaks="lf", embedded="escape"))

values = st.none() | st.binary(max_size=30) | st.text("\\nrN\n\r", max_size=8).map(str.encode)


def file_of(format_: DelimitedText, batches: Sequence[Sequence[bytes | None]]) -> bytes:
    stream = io.BytesIO()
    writer = format_.open(stream, IDENTITY)
    for batch in batches:
        writer.write([Message(i, b"key", value) for i, value in enumerate(batch)])
    size = writer.bytes_so_far
    closed = writer.close()
    assert closed.records == sum(map(len, batches))
    assert closed.bytes == len(stream.getvalue())
    assert format_.options.compression.codec != "none" or size == closed.bytes
    return stream.getvalue()


def values_of(format_: DelimitedText, data: bytes) -> list[bytes | None]:
    return [message.value for message in format_.read(io.BytesIO(data))]


def test_golden_bytes() -> None:
    assert file_of(PLAIN, [[b"one", b""], [b"two"]]) == b"one\n\ntwo\n"
    assert file_of(ESCAPE, [[b"a\nb\\c\rd", None, b"", b"\\N"]]) == b"a\\nb\\\\c\\rd\n\\N\n\n\\\\N\n"
    assert file_of(ESCAPE_LF, [[b"a\r\n"]]) == b"a\r\\n\n"


@pytest.mark.parametrize("format_", [ESCAPE, ESCAPE_LF])
@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
@settings(max_examples=30)
@given(given_values=st.lists(values, max_size=12))
def test_escaped_values_read_back_to_the_same_bytes(
    format_: DelimitedText, codec: str, given_values: list[bytes | None]
) -> None:
    options = format_.options.model_copy(update={"compression": Compression(codec=codec)})  # type: ignore[arg-type]
    packed = DelimitedText(options)
    data = file_of(packed, [given_values])
    assert values_of(packed, data) == given_values
    assert file_of(packed, [given_values[:3], given_values[3:]]) == data


@settings(max_examples=30)
@given(st.lists(values, max_size=12))
def test_escaped_values_are_one_line_each_to_readers_of_any_line_break(given_values: list[bytes | None]) -> None:
    assert len(file_of(ESCAPE, [given_values]).decode("latin-1").split("\n")) == len(given_values) + 1
    assert b"\r" not in file_of(ESCAPE, [given_values])


@settings(max_examples=30)
@given(st.lists(values, max_size=12))
def test_what_is_not_refused_reads_back_and_what_is_refused_would_not(given_values: list[bytes | None]) -> None:
    held = [value for value in given_values if not PLAIN.refuses(Message(0, None, value))]
    assert values_of(PLAIN, file_of(PLAIN, [held])) == held
    for value in given_values:
        if PLAIN.refuses(Message(0, None, value)):
            with pytest.raises(Terminal):
                file_of(PLAIN, [[value]])


def test_line_breaks_and_nulls_are_refused_by_reason() -> None:
    assert PLAIN.refuses(Message(0, None, None)) == "null value in delimited text"
    assert PLAIN.refuses(Message(0, None, b"a\nb")) == PLAIN.refuses(Message(0, None, b"a\r")) != ""
    assert LF.refuses(Message(0, None, b"a\r")) == ""
    assert ESCAPE.refuses(Message(0, None, None)) == ""


def test_an_unknown_escape_names_its_line() -> None:
    with pytest.raises(Terminal) as caught:
        values_of(ESCAPE, b"fine\n\\x\n")
    assert caught.value.details["line"] == 2
    assert caught.value.details["escape"] == b"\\x"
    with pytest.raises(Terminal):
        values_of(ESCAPE, b"at the end\\\n")


@pytest.mark.parametrize(("codec", "extension"), [("none", ".txt"), ("gzip", ".txt.gz"), ("zstd", ".txt.zst")])
def test_names_say_how_files_are_compressed(codec: str, extension: str) -> None:
    format_ = DelimitedText(DelimitedTextOptions(compression=Compression(codec=codec)))  # type: ignore[arg-type]
    assert format_.extension == extension
    assert bool(format_.versions) == (codec != "none")
