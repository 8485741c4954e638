"""Any object opened: ours of each format, Secor's, damaged ones; and how its records are shown."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import fastavro
import pytest

from include.errors import Terminal
from include.lake.definition import FormatDefinition, format_of
from include.lake.formats.port import FileIdentity
from include.lake.formats.sequence.codecs import CodecName, codec
from include.lake.inspect.object_reader import kind_by_name, open_contents
from include.lake.inspect.record_text import record_json, record_line
from include.lake.message import Message
from include.lake.writing.cut_files import REFUSED_HEADER
from include.log.registry.memory import MemoryRegistry
from include.record.codec import Encoder

SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "n", "type": "long"}, {"name": "blob", "type": "bytes"}],
}
MESSAGES = [
    Message(5, b"k", b'{"n":1}', (("h", b"v"), ("h", None)), 1_700_000_000_000, 1),
    Message(6, None, b'{"n":2}', (), -1, 0),
    Message(9, b"", b'{"n":3}', (), 1_700_000_001_000, 2),
]


def written(form: dict[str, Any], messages: list[Message], registry: MemoryRegistry | None = None) -> bytes:
    made = format_of(FormatDefinition.model_validate(form), registry)
    stream = io.BytesIO()
    names = made.names(messages[0])
    writer = made.open(stream, FileIdentity("events", "id", 0, 5, names))
    writer.write(messages)
    writer.close()
    return stream.getvalue()


@pytest.mark.parametrize(
    "form",
    [
        {"sequence": {"layout": "verbatim"}},
        {"sequence": {"layout": "verbatim", "compression": "BLOCK", "codec": "gzip"}},
        {"json_lines": {"content": "message"}},
        {"json_lines": {"content": "message", "compression": {"codec": "zstd"}}},
    ],
)
def test_formats_that_keep_all_give_all_back_whatever_the_name_is(form: dict[str, Any]) -> None:
    body = written(form, MESSAGES)
    name = "x.jsonl.zst" if "json_lines" in form else "odd.name.gz"
    contents = open_contents(body, name)
    assert contents.offsets
    assert list(contents.messages) == MESSAGES


@pytest.mark.parametrize("compression", [{"codec": "none"}, {"codec": "gzip"}, {"codec": "zstd"}])
def test_payloads_and_text_come_as_they_are_without_offsets(compression: dict[str, str]) -> None:
    for form, name in (({"json_lines": {"content": "payload"}}, "1.jsonl"), ({"text": {}}, "1.txt")):
        options = next(iter(form.values())) | {"compression": compression}
        contents = open_contents(written({next(iter(form)): options}, MESSAGES), name)
        assert not contents.offsets
        assert [each.value for each in contents.messages] == [each.value for each in MESSAGES]


def test_what_is_declared_decides_how_lines_are_read() -> None:
    lines = [Message(0, None, b"a\nb"), Message(1, None, None), Message(2, None, b"\\")]
    form = {"text": {"embedded": "escape"}}
    body = written(form, lines)
    declared = FormatDefinition.model_validate(form)
    assert [each.value for each in open_contents(body, "1.txt", declared).messages] == [b"a\nb", None, b"\\"]
    assert [each.value for each in open_contents(body, "1.txt").messages] == [rb"a\nb", rb"\N", rb"\\"]
    whole = written({"json_lines": {"content": "message"}}, MESSAGES)
    payload = FormatDefinition.model_validate({"json_lines": {"content": "payload"}})
    assert not open_contents(whole, "1.jsonl", payload).offsets


@pytest.mark.parametrize("packed", ["null", "deflate", "zstandard", "snappy"])
def test_avro_of_the_lake_shows_json_and_its_wire_form_when_asked(packed: str) -> None:
    registry = MemoryRegistry()
    number = registry.register("events-value", SCHEMA)
    encode = Encoder(number, SCHEMA)
    values = [encode({"n": n, "blob": b"\xff"}) for n in range(3)]
    messages = [Message(n, None, value) for n, value in enumerate(values)]
    body = written({"avro": {"codec": packed}}, messages, registry)
    contents = open_contents(body, "1.avro")
    assert f"schema id {number}" in contents.detail
    shown = [json.loads(each.value or b"") for each in contents.messages]
    assert shown == [{"n": n, "blob": {"base64": "/w=="}} for n in range(3)]
    assert [each.value for each in open_contents(body, "1.avro", raw=True).messages] == values


def test_times_that_no_calendar_has_are_shown_as_numbers() -> None:
    time = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {"type": "record", "name": "E", "fields": [{"name": "at", "type": time}]}
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(schema), [{"at": 1 << 62}])
    (found,) = open_contents(stream.getvalue(), "1.avro").messages
    assert json.loads(found.value or b"") == {"at": 1 << 62}


def test_parquet_shows_rows_and_offsets_where_it_has_them() -> None:
    registry = MemoryRegistry()
    number = registry.register("events-value", SCHEMA)
    encode = Encoder(number, SCHEMA)
    messages = [Message(7 + n, b"k", encode({"n": n, "blob": b"b"}), (), 5) for n in range(2)]
    for coordinates in (True, False):
        contents = open_contents(written({"parquet": {"coordinates": coordinates}}, messages, registry), "1.parquet")
        assert contents.offsets is coordinates
        found = list(contents.messages)
        assert [each.offset for each in found] == ([7, 8] if coordinates else [-1, -1])
        assert [json.loads(each.value or b"")["n"] for each in found] == [0, 1]


@pytest.mark.parametrize("codec_", ["null", "deflate", "bzip2", "xz"])
def test_avro_files_of_others_open_with_each_codec_of_avro(codec_: str) -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(SCHEMA), [{"n": 1, "blob": b"x"}], codec=codec_)
    contents = open_contents(stream.getvalue(), "1.avro")
    assert f"codec {codec_}" in contents.detail
    assert [json.loads(each.value or b"")["n"] for each in contents.messages] == [1]


@pytest.mark.parametrize("layout", ["offset", "message_pack"])
@pytest.mark.parametrize("compression", ["NONE", "RECORD", "BLOCK"])
def test_archives_of_secor_open_in_each_layout_and_compression(layout: str, compression: str) -> None:
    body = written({"sequence": {"layout": layout, "compression": compression}}, MESSAGES)
    contents = open_contents(body, "ab12/raw/events/2015-01-01/1_0_00000000000000000005.gz")
    assert f"layout {layout}, {compression}" in contents.detail
    found = list(contents.messages)
    assert [(each.offset, each.value) for each in found] == [(each.offset, each.value) for each in MESSAGES]


def test_text_and_avro_files_of_others_open_too() -> None:
    text = open_contents(gzip.compress(b"a\nb\n"), "raw/events/2015-01-01/1_0_00000000000000000005.gz")
    assert [each.value for each in text.messages] == [b"a", b"b"]
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(SCHEMA), [{"n": 1, "blob": b"x"}])
    theirs = open_contents(stream.getvalue(), "1.avro", raw=True)
    assert [json.loads(each.value or b"")["n"] for each in theirs.messages] == [1]


@pytest.mark.parametrize(
    ("ending", "name"), [(".bz2", "bzip2"), (".deflate", "zlib"), (".snappy", "snappy"), (".lz4", "lz4")]
)
def test_text_that_hadoop_compressed_opens_by_its_ending(ending: str, name: CodecName) -> None:
    body = codec(name).compress(b"a\nb\n")
    contents = open_contents(body, f"raw/events/2015-01-01/1_0_00000000000000000005{ending}")
    assert contents.detail == f"delimited text, {name}"
    assert [each.value for each in contents.messages] == [b"a", b"b"]
    with pytest.raises(Terminal, match="damaged"):
        open_contents(body[:-1] + b"\xff\xff", f"x{ending}")


def test_orc_files_show_rows_and_damage() -> None:
    import pyarrow as pa
    from pyarrow import orc

    stream = io.BytesIO()
    orc.write_table(pa.table({"n": [1, 2], "b": [b"\xff", None]}), stream)
    rows = [json.loads(each.value or b"") for each in open_contents(stream.getvalue(), "1.orc").messages]
    assert rows == [{"n": 1, "b": {"base64": "/w=="}}, {"n": 2, "b": None}]
    with pytest.raises(Terminal, match="ORC file is damaged"):
        list(open_contents(stream.getvalue()[:-9], "1.orc").messages)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ({"sequence": {"layout": "verbatim"}}, "1"),
        ({"json_lines": {"content": "message"}}, "1.jsonl"),
        ({"text": {"compression": {"codec": "gzip"}}}, "1.txt.gz"),
    ],
)
def test_a_damaged_object_gives_what_is_whole_and_then_says_where(form: dict[str, Any], name: str) -> None:
    contents = open_contents(written(form, MESSAGES)[:-3], name)
    found: list[Message] = []
    with pytest.raises(Terminal, match=r"byte|line"):
        found += contents.messages
    assert found == MESSAGES[: len(found)] or "text" in form


@pytest.mark.parametrize("body", [b"Obj\x01no avro", b"PAR1no parquet", b"SEQ\x06"])
def test_a_file_that_only_begins_like_one_is_damaged(body: bytes) -> None:
    with pytest.raises(Terminal):
        list(open_contents(body, "1").messages)


def test_names_tell_formats_where_bytes_do_not() -> None:
    kinds = {"a.parquet": "parquet", "a.avro": "avro", "a.jsonl.zst": "json_lines", "a.txt.gz": "text", "a": "sequence"}
    assert {name: kind_by_name(f"x/{name}") for name in kinds} == kinds


def test_a_record_is_one_json_object_with_null_unlike_empty() -> None:
    first, second, third = (record_json(each, at) for at, each in enumerate(MESSAGES))
    assert first == {
        "index": 0,
        "offset": 5,
        "timestamp": "2023-11-14T22:13:20.000000Z",
        "timestamp_ms": 1_700_000_000_000,
        "timestamp_type": "create",
        "key": "k",
        "value": '{"n":1}',
        "headers": [["h", "v"], ["h", None]],
    }
    assert (second["key"], second["timestamp"], second["timestamp_type"]) == (None, None, "none")
    assert (third["key"], third["timestamp_type"]) == ("", "append")
    assert record_json(Message(-1, None, b"\xff"), 0)["value"] == {"base64": "/w=="}
    assert record_json(Message(-1, None, None), 0)["offset"] is None


def test_a_record_is_one_line_whatever_is_in_it() -> None:
    line = record_line(Message(7, None, b"a\n\x1b[31mb\tc\xc2\x85", (("h\n", b"\x00"),), 0, 1), 3)
    assert line == r"3  7  1970-01-01T00:00:00.000000Z  (null)  a\n\x1b[31mb\tc\x85  headers: h\n=\x00"
    assert record_line(Message(-1, b"", b"\xff\x00"), 0) == "0  -  -  (empty)  0xff00"


def test_a_header_name_of_any_bytes_is_shown() -> None:
    name = b"na\xefve".decode("utf-8", "surrogateescape")
    message = Message(7, None, b"x", ((name, b"1"), ("", None)))
    assert record_json(message, 0)["headers"] == [[{"base64": "bmHvdmU="}, "1"], ["", None]]
    line = record_line(message, 0)
    assert line.endswith("headers: 0x6e61ef7665=1, =(null)")
    assert line.isascii()


def test_a_refused_record_shows_why_and_its_own_headers() -> None:
    mark = (REFUSED_HEADER, b"no date")
    own = (REFUSED_HEADER, b"the producer's own")
    message = Message(7, None, b"x", (own, mark))
    found = record_json(message, 0, refused=True)
    assert (found["refused"], found["headers"]) == ("no date", [[REFUSED_HEADER, "the producer's own"]])
    assert record_line(message, 0, refused=True).endswith("refused: no date")
    assert "refused" not in record_json(message, 0)
    assert len(record_json(message, 0)["headers"]) == 2


def test_a_timestamp_in_no_year_that_there_is_is_shown_as_its_number() -> None:
    for timestamp_ms in (1_700_000_000_000_000, (1 << 63) - 1, -(1 << 63)):
        message = Message(1, None, b"v", (), timestamp_ms, 1)
        assert record_line(message, 0) == f"0  1  {timestamp_ms}  (null)  v"
        assert (record_json(message, 0)["timestamp"], record_json(message, 0)["timestamp_ms"]) == (None, timestamp_ms)
    assert record_json(Message(1, None, b"v", (), -1000, 1), 0)["timestamp"] == "1969-12-31T23:59:59.000000Z"
