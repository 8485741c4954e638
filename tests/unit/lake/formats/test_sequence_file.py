"""SequenceFiles: bytes as Hadoop writes them, whatever the batches; markers that payloads hold; what comes back."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from include.errors import Terminal
from include.lake.formats.port import ClosedFile, FileIdentity
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.formats.sequence.sequence_writer import SYNC_INTERVAL, sync_markers
from include.lake.message import Message

IDENTITY = FileIdentity("clicks", "Tk9fVE9QSUNfSURfMTIzNA", 3, 500, ("dt=2026-01-02",))
SYNC = bytes(range(16))
CONFIGURATIONS: list[dict[str, Any]] = [
    {"compression": "NONE"},
    *({"compression": "RECORD", "codec": codec} for codec in ("zlib", "gzip", "bzip2", "snappy", "lz4", "zstd")),
    *(
        {"compression": "BLOCK", "codec": codec, "block_bytes": 300}
        for codec in ("zlib", "gzip", "bzip2", "snappy", "lz4", "zstd")
    ),
]
PLAIN = st.builds(lambda *parts: Message(parts[0], None, parts[1]), st.integers(0, 2**63 - 1), st.binary(max_size=200))


def written(format_: SequenceFile, *batches: list[Message], markers: Iterator[bytes] | None = None) -> bytes:
    stream = io.BytesIO()
    writer = format_.open_with(stream, markers or iter([SYNC]))
    for batch in batches:
        writer.write(batch)
    closed = writer.close()
    data = stream.getvalue()
    assert closed == ClosedFile(sum(map(len, batches)), len(data), hashlib.sha256(data).hexdigest())
    return data


def read(data: bytes) -> list[Message]:
    return list(SequenceFile().read(io.BytesIO(data)))


def test_a_plain_file_has_the_bytes_of_hadoops() -> None:
    data = written(SequenceFile(layout="offset"), [Message(5, None, b"hi")])
    assert data[:4] == b"SEQ\x06"
    assert len(data) == 95 + 22
    assert data[79:95] == SYNC
    assert data[95:].hex() == "0000000e000000080000000000000005000000026869"


def test_a_header_with_a_codec_has_the_bytes_of_hadoops() -> None:
    assert len(written(SequenceFile(layout="offset", compression="BLOCK"))) == 138
    assert len(written(SequenceFile(layout="offset", compression="RECORD"))) == 138


def test_a_file_without_messages_is_its_header() -> None:
    assert read(written(SequenceFile())) == []
    assert read(written(SequenceFile(layout="verbatim", compression="BLOCK"))) == []


@pytest.mark.parametrize("layout", ["offset", "message_pack", "verbatim"])
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda each: "-".join(map(str, each.values())))
@settings(max_examples=10)
@given(messages=st.lists(PLAIN, max_size=12))
def test_what_is_written_is_read(layout: Any, configuration: dict[str, Any], messages: list[Message]) -> None:
    data = written(SequenceFile(layout=layout, **configuration), messages)
    assert read(data) == messages


@settings(max_examples=40)
@given(messages=st.lists(PLAIN, min_size=1, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=4))
def test_how_messages_are_batched_leaves_no_trace(messages: list[Message], cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(messages)) for cut in cuts), len(messages)]
    batches = [messages[start:end] for start, end in pairwise(bounds)]
    for format_ in (SequenceFile(), SequenceFile(compression="BLOCK", block_bytes=300)):
        assert written(format_, messages) == written(format_, *batches)


@pytest.mark.parametrize("over", [0, 1])
def test_a_marker_stands_in_front_of_the_first_record_at_the_interval_or_behind_it(over: int) -> None:
    header = 95
    to_interval = SYNC_INTERVAL - header - 20 - (1 - over)
    data = written(
        SequenceFile(layout="offset"),
        [Message(0, None, bytes(to_interval)), Message(1, None, b""), Message(2, None, b"")],
    )
    marker = b"\xff\xff\xff\xff" + SYNC
    # One byte short of the interval, the marker waits for the record after next.
    assert data.index(marker) == (SYNC_INTERVAL if over else SYNC_INTERVAL - 1 + 20)
    assert len(read(data)) == 3


def test_the_next_marker_is_counted_from_the_end_of_the_last() -> None:
    data = written(SequenceFile(layout="offset"), [Message(n, None, b"") for n in range(22_000)])
    marker, places, at = b"\xff\xff\xff\xff" + SYNC, [], 0
    while (at := data.find(marker, at + 1)) > 0:
        places.append(at)
    last = 0
    for place in places:
        assert SYNC_INTERVAL <= place - last < SYNC_INTERVAL + 20
        last = place + 20
    assert len(places) == 4


def test_every_block_has_a_marker_in_front_and_ends_at_its_limit() -> None:
    data = written(
        SequenceFile(layout="offset", compression="BLOCK", block_bytes=100),
        [Message(n, None, bytes(28)) for n in range(7)],
    )
    # Three records of 8 + 32 bytes reach 100.
    assert [data[at + 20] for at in range(138, len(data)) if data[at : at + 20] == b"\xff" * 4 + SYNC] == [3, 3, 1]


def test_markers_depend_on_the_cut_alone_and_never_overlap_themselves() -> None:
    markers = sync_markers(IDENTITY)
    first = [next(markers) for _ in range(2000)]
    assert len(set(first)) == 2000
    assert first[0] != next(sync_markers(FileIdentity("clicks", IDENTITY.topic_id, 3, 501, ())))
    assert first[0] == next(sync_markers(FileIdentity("renamed", IDENTITY.topic_id, 3, 500, ("dt=2026-01-03",))))
    assert not any(marker[:size] == marker[-size:] for marker in first for size in range(1, 16))


@pytest.mark.parametrize("configuration", CONFIGURATIONS[:2] + CONFIGURATIONS[7:8])
@pytest.mark.parametrize("held", [1, 3])
def test_a_marker_that_a_payload_holds_is_not_taken(configuration: dict[str, Any], held: int) -> None:
    all_markers = sync_markers(IDENTITY)
    markers = [next(all_markers) for _ in range(held + 1)]
    # The key of a record is never compressed on its own, so that it holds the bytes in every mode but BLOCK.
    hostile = b"".join(b"\xff\xff\xff\xff" + marker for marker in markers[:held])
    messages = [Message(n, hostile, hostile + bytes(500)) for n in range(300)]
    format_ = SequenceFile(**configuration)
    stream = io.BytesIO()
    writer = format_.open(stream, IDENTITY)
    writer.write(messages)
    closed = writer.close()
    data = stream.getvalue()
    assert closed.sha256 == hashlib.sha256(data).hexdigest()
    assert read(data) == messages
    if configuration["compression"] != "BLOCK":
        assert data == written(format_, messages, markers=iter(markers[held:]))


@settings(max_examples=40)
@given(st.binary(max_size=40), st.integers(1, 60))
def test_a_marker_is_found_wherever_it_lies_between_two_writes(before: bytes, records: int) -> None:
    markers = sync_markers(IDENTITY)
    first, second = next(markers), next(markers)
    messages = [Message(n, None, bytes(3500)) for n in range(records)] + [Message(records, None, before + first)]
    data = written(SequenceFile(layout="offset"), messages, markers=iter([first, second]))
    assert data[79:95] == second


def test_a_marker_is_found_wherever_it_lies_when_the_file_is_read_again() -> None:
    all_markers = sync_markers(IDENTITY)
    first, second, third = (next(all_markers) for _ in range(3))
    # It is read by the MiB behind the header, which has 95 bytes; the value begins 20 bytes behind it.
    before = (1 << 20) - 20 - len(first)
    for shift in (8, 0, 15):
        value = first + bytes(before - shift) + second + bytes(40)
        data = written(SequenceFile(layout="offset"), [Message(0, None, value)], markers=iter([first, second, third]))
        assert data[79:95] == third


def test_bytes_so_far_are_the_files_without_compression_and_never_shrink() -> None:
    stream = io.BytesIO()
    plain = SequenceFile().open(stream, IDENTITY)
    blocks = SequenceFile(compression="BLOCK", block_bytes=500).open(io.BytesIO(), IDENTITY)
    last = blocks.bytes_so_far
    for n in range(50):
        for writer in (plain, blocks):
            writer.write([Message(n, None, bytes(40))])
        assert blocks.bytes_so_far >= last
        last = blocks.bytes_so_far
    assert plain.bytes_so_far == plain.close().bytes == len(stream.getvalue())


@pytest.mark.parametrize("layout", ["offset", "message_pack"])
def test_a_null_value_is_refused_or_stored_as_empty_as_declared(layout: Any) -> None:
    tombstone = Message(1, None, None)
    assert SequenceFile(layout=layout).refuses(tombstone)
    assert not SequenceFile(layout=layout).refuses(Message(1, None, b""))
    lenient = SequenceFile(layout=layout, null_value="empty")
    assert not lenient.refuses(tombstone)
    assert read(written(lenient, [tombstone])) == [Message(1, None, b"")]
    assert not SequenceFile(layout="verbatim").refuses(tombstone)


@pytest.mark.parametrize(
    "configuration",
    [
        {"layout": "offset", "timestamp": True},
        {"layout": "verbatim", "null_value": "empty"},
        {"codec": "gzip"},
        {"level": 1},
        {"block_bytes": 5, "compression": "RECORD"},
        {"compression": "BLOCK", "level": 10},
        {"compression": "BLOCK", "codec": "lz4", "level": 1},
        {"extension": "seq"},
        {"extension": "./x"},
    ],
)
def test_a_configuration_that_does_not_fit_together_is_refused(configuration: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SequenceFile(**configuration)


def test_the_libraries_that_decide_on_bytes_are_told() -> None:
    assert SequenceFile().versions == {}
    assert list(SequenceFile(compression="BLOCK").versions) == ["zlib"]
    assert list(SequenceFile(compression="RECORD", codec="lz4").versions) == ["pyarrow"]
    assert list(SequenceFile(compression="RECORD", codec="zstd").versions) == ["zstandard", "zstd"]
    assert list(SequenceFile(compression="RECORD", codec="bzip2").versions) == ["python"]


def test_a_format_goes_to_another_process() -> None:
    format_ = SequenceFile(layout="verbatim", compression="BLOCK", level=1)
    data = written(format_, [Message(1, b"k", None)])
    assert written(pickle.loads(pickle.dumps(format_)), [Message(1, b"k", None)]) == data


def test_a_file_of_another_profile_is_refused() -> None:
    data = written(SequenceFile(layout="verbatim"), [Message(1, b"k", None)])
    with pytest.raises(Terminal, match="verbatim-2"):
        read(data.replace(b"verbatim-1", b"verbatim-2"))


@pytest.mark.parametrize(
    ("layout", "sha256"),
    [
        ("offset", "d659c70885f90af0b7ba2d21da9395b7fc6bd40307ba5fc99f4b03d132d21fce"),
        ("message_pack", "63cd0006617b2c8c2d6f706530ecfc7362dc953d266c5fcc5bcb873c01b65db5"),
        ("verbatim", "e8b3cea68d9da1dc4ceba3fd6273f99ffd4e03583f138a91f35c799448bf3086"),
    ],
)
def test_a_file_has_the_same_bytes_on_every_machine(layout: Any, sha256: str) -> None:
    messages = [
        Message(
            500 + 3 * n, b"k%d" % n, b"value %d" % n * (n % 90), (("é", b"%d" % n), ("h", None)), 1700000000000 + n, 1
        )
        for n in range(2_000)
    ]
    data = written(SequenceFile(layout=layout), messages, markers=sync_markers(IDENTITY))
    assert hashlib.sha256(data).hexdigest() == sha256


def test_more_messages_than_a_count_of_markers_can_hide_are_all_read() -> None:
    numbers = count()
    messages = [Message(next(numbers), b"%d" % n, b"x" * (n % 700)) for n in range(2_000)]
    for format_ in (SequenceFile(), SequenceFile(layout="verbatim"), SequenceFile(compression="BLOCK", level=1)):
        assert read(written(format_, messages, markers=sync_markers(IDENTITY))) == messages
