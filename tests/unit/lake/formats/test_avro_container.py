"""Avro container files: bodies as they came, read by fastavro and by us; damage and foreign schemas named."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from include.errors import InvalidRecord, Terminal, Transient
from include.lake.formats import avro_blocks
from include.lake.formats.avro_blocks import read_bodies
from include.lake.formats.avro_container import SCHEMA_ID, AvroContainer, AvroContainerOptions, sync_marker
from include.lake.formats.port import FileIdentity
from include.lake.message import Message
from include.record.codec import Encoder, frame

SCHEMAS: dict[int, dict[str, Any]] = {
    7: {
        "type": "record",
        "name": "Log",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "text", "type": ["null", "string"], "default": None},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    },
    9: {"type": "record", "name": "Log", "namespace": "shop", "fields": [{"name": "data", "type": "bytes"}]},
}
IDENTITY = FileIdentity("logs", "topicid", 2, 40, ("dt=2026-01-02", "schema=7"))
NINE = FileIdentity("logs", "topicid", 2, 40, ("dt=2026-01-02", "schema=9"))
CODECS = ["null", "deflate", "zstandard", "snappy"]


def lookup(schema_id: int) -> Mapping[str, Any]:
    if schema_id not in SCHEMAS:
        raise InvalidRecord("no such schema", reason="schema", schema_id=schema_id)
    return SCHEMAS[schema_id]


def container(**options: Any) -> AvroContainer:
    return AvroContainer(AvroContainerOptions(**options), lookup)


def seven(i: int, text: str | None = "t", at: int = 1_700_000_000_000) -> Message:
    return Message(i, b"key", Encoder(7, SCHEMAS[7])({"id": i, "text": text, "at": at}))


def nine(data: bytes, offset: int = 0) -> Message:
    return Message(offset, None, Encoder(9, SCHEMAS[9])({"data": data}))


def file_of(format_: AvroContainer, batches: Sequence[Sequence[Message]], identity: FileIdentity = IDENTITY) -> bytes:
    stream = io.BytesIO()
    writer = format_.open(stream, identity)
    for batch in batches:
        writer.write(batch)
    closed = writer.close()
    data = stream.getvalue()
    assert (closed.records, closed.bytes) == (sum(map(len, batches)), len(data))
    assert closed.sha256 == hashlib.sha256(data).hexdigest()
    return data


def values(format_: AvroContainer, data: bytes) -> list[bytes | None]:
    return [message.value for message in format_.read(io.BytesIO(data))]


def test_golden_bytes() -> None:
    data = file_of(container(), [[nine(b"a"), nine(b"bc")]], NINE)
    schema = json.dumps(SCHEMAS[9], sort_keys=True, separators=(",", ":")).encode()
    marker = hashlib.sha256(b"avro topicid 2 40 0").digest()[:16]
    size = bytes((len(schema) * 2 & 0x7F | 0x80, len(schema) >> 6))
    metadata = b"\x14avro.codec\x08null\x16avro.schema" + size + schema + b"\x24lyrebird.schema_id\x029"
    assert data == b"Obj\x01\x06" + metadata + b"\0" + marker + b"\x04\x0a\x02a\x04bc" + marker


def test_fastavro_writes_the_same_bytes_for_the_same_marker_and_metadata() -> None:
    theirs = io.BytesIO()
    records = [{"id": i, "text": "x" * i, "at": i} for i in range(50)]
    fastavro.writer(theirs, SCHEMAS[7], records, sync_marker=sync_marker(IDENTITY, 0), metadata={SCHEMA_ID: "7"})
    ours = file_of(container(), [[seven(i, "x" * i, i) for i in range(50)]])
    assert list(fastavro.reader(io.BytesIO(ours))) == list(fastavro.reader(io.BytesIO(theirs.getvalue())))
    block = ours.index(sync_marker(IDENTITY, 0))
    assert theirs.getvalue().endswith(ours[block:])


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=20)
@given(data=st.data())
def test_values_come_back_as_they_were_however_they_were_batched(codec: str, data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.none() | st.text(max_size=20), max_size=12))
    messages = [seven(i, text) for i, text in enumerate(texts)]
    format_ = container(codec=codec, block_bytes=data.draw(st.sampled_from([1, 40, 1000])))
    assert not any(format_.refuses(message) for message in messages)
    whole = file_of(format_, [messages])
    cut = data.draw(st.integers(0, len(messages)))
    assert file_of(format_, [messages[:cut], [], messages[cut:]]) == whole
    assert values(format_, whole) == [message.value for message in messages]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_fastavro_reads_our_files(codec: str) -> None:
    data = file_of(container(codec=codec, block_bytes=500), [[seven(i, "é" * i) for i in range(100)]])
    read: list[Any] = list(fastavro.reader(io.BytesIO(data)))
    assert [each["id"] for each in read] == list(range(100))
    assert read[3]["text"] == "ééé"


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_marker_within_the_content_gives_way_to_the_next(before: int) -> None:
    poison = b"".join(sync_marker(NINE, counter) for counter in range(before))
    messages = [nine(b"x" * 300), nine(poison), nine(b"y" * 300)]
    data = file_of(container(block_bytes=100), [messages], NINE)
    assert data.count(sync_marker(NINE, before)) == 3
    assert data.endswith(sync_marker(NINE, before))
    assert list(fastavro.reader(io.BytesIO(data))) == [{"data": b"x" * 300}, {"data": poison}, {"data": b"y" * 300}]


def test_a_file_without_messages_is_whole() -> None:
    data = file_of(container(), [])
    assert values(container(), data) == []
    assert list(fastavro.reader(io.BytesIO(data))) == []


def test_the_marker_does_not_depend_on_names() -> None:
    other = FileIdentity("logs", "topicid", 2, 40, ("dt=2026-01-03", "schema=7"))
    assert file_of(container(), [[seven(1)]]) == file_of(container(), [[seven(1)]], other)


def test_each_schema_has_its_folder() -> None:
    assert container().names(seven(1)) == ("schema=7",)
    assert container().names(nine(b"")) == ("schema=9",)
    assert container(schema_id=7).names(seven(1)) == ()
    plain = FileIdentity("logs", "topicid", 2, 40, ("dt=2026-01-02",))
    assert values(container(schema_id=7), file_of(container(schema_id=7), [[seven(1)]], plain)) == [seven(1).value]
    with pytest.raises(Terminal, match="schema_id"):
        container().open(io.BytesIO(), plain)
    with pytest.raises(Terminal, match="no such schema"):
        container(schema_id=99).open(io.BytesIO(), plain)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null value"),
        (b"", "wire format"),
        (b"\x01\0\0\0\x07", "wire format"),
        (frame(8, b"x"), "no such schema"),
        (frame(7, b"\x02"), "not what its schema says"),
        ((seven(1).value or b"") + b"\0", "longer"),
        ((seven(1, "text").value or b"")[:-1], "not what its schema says"),
        (frame(7, b"\x02\x02\x04\xff\xff\x00"), "not what its schema says"),
    ],
)
def test_values_that_would_spoil_a_block_are_refused(value: bytes | None, reason: str) -> None:
    assert reason in container().refuses(Message(0, None, value))


def test_a_schema_that_fastavro_cannot_read_is_a_reason() -> None:
    broken = AvroContainer(AvroContainerOptions(), lambda _: {"type": "nothing"})
    assert "not Avro's" in broken.refuses(seven(1))


def test_a_registry_that_does_not_answer_refuses_nothing() -> None:
    def down(_: int) -> Mapping[str, Any]:
        raise Transient("no answer", system="registry", attempt=1)

    with pytest.raises(Transient):
        AvroContainer(AvroContainerOptions(), down).refuses(seven(1))


def test_values_of_other_schemas_are_refused_where_files_have_one() -> None:
    assert container(schema_id=7).refuses(nine(b"")) == "schema 9, files of this topic have 7"
    assert container(schema_id=7).refuses(seven(1)) == ""


@pytest.mark.parametrize("message", [nine(b"", 12), Message(12, None, None)])
def test_a_value_that_nobody_asked_about_stops_the_writer(message: Message) -> None:
    with pytest.raises(Terminal) as refused:
        file_of(container(), [[seven(1), message]])
    assert refused.value.details["offset"] == 12


def test_times_out_of_any_calendar_are_kept() -> None:
    message = seven(1, at=2**62)
    assert container().refuses(message) == ""
    assert values(container(), file_of(container(), [[message]])) == [message.value]


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_gives_the_whole_blocks_and_then_names_a_byte(codec: str) -> None:
    format_ = container(codec=codec, block_bytes=1)
    data = file_of(format_, [[seven(i) for i in range(3)]])
    ends = [at for at in range(len(data) + 1) if data[:at].endswith(sync_marker(IDENTITY, 0))]
    for size in range(len(data)):
        read: list[Message] = []
        if size in ends:
            read.extend(format_.read(io.BytesIO(data[:size])))
        else:
            with pytest.raises(Terminal, match="byte="):
                read.extend(format_.read(io.BytesIO(data[:size])))
        assert len(read) == max(0, sum(end <= size for end in ends) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_byte_is_an_error_or_another_value_never_a_crash(codec: str) -> None:
    format_ = container(codec=codec)
    data = file_of(format_, [[seven(i) for i in range(3)]])
    for at in range(len(data)):
        flipped = data[:at] + bytes((data[at] ^ 0x81,)) + data[at + 1 :]
        try:
            found = len(values(format_, flipped))
        except Terminal:
            continue
        assert found <= 3


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy"])
def test_a_block_that_unpacks_to_more_than_is_allowed_is_damaged(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = file_of(container(codec=codec), [[nine(bytes(5000))]], NINE)
    assert len(values(container(), data)) == 1
    monkeypatch.setattr(avro_blocks, "MOST_BYTES", 5000)
    with pytest.raises(Terminal, match=r"TooLargeError.*byte="):
        values(container(), data)


def test_a_block_that_tells_of_more_values_without_bytes_than_anybody_has_is_damaged() -> None:
    theirs, empty = io.BytesIO(), {"type": "record", "name": "Empty", "fields": []}
    fastavro.writer(theirs, empty, [{}, {}], metadata={SCHEMA_ID: "7"})
    data, marker = theirs.getvalue(), theirs.getvalue()[-16:]
    assert len(list(read_bodies(io.BytesIO(data), SCHEMA_ID))) == 2
    told = data[: data.index(marker) + 16] + b"\xfe" + b"\xff" * 8 + b"\x01\0" + marker
    with pytest.raises(Terminal, match="byte="):
        list(read_bodies(io.BytesIO(told), SCHEMA_ID))


def test_a_file_that_is_not_ours_is_refused() -> None:
    theirs = io.BytesIO()
    fastavro.writer(theirs, SCHEMAS[7], [])
    with pytest.raises(Terminal, match="not ours"):
        values(container(), theirs.getvalue())
    with pytest.raises(Terminal, match="no Avro container"):
        values(container(), b"PAR1")


def test_sizes_grow_with_each_message_and_libraries_are_named() -> None:
    writer = container(codec="null").open(io.BytesIO(), IDENTITY)
    sizes = [writer.bytes_so_far]
    for i in range(20):
        writer.write([seven(i)])
        sizes.append(writer.bytes_so_far)
    assert sizes == sorted(set(sizes))
    assert [list(container(codec=codec).versions) for codec in CODECS] == [[], ["zlib"], ["zstd"], ["pyarrow"]]
    assert container().extension == ".avro"


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValidationError):
        AvroContainerOptions(codec="deflate", level=20)
    with pytest.raises(ValidationError, match="no levels"):
        AvroContainerOptions(codec="snappy", level=2)
