"""The files of a cut: nothing is lost between a batch and them, whatever a parser or a format makes of it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import InvalidRecord, Terminal
from include.lake.formats.avro_container import AvroContainer, AvroContainerOptions
from include.lake.formats.delimited_text import DelimitedText, DelimitedTextOptions
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.message import Message
from include.lake.parsing.port import Batch
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.object_key import QUARANTINE
from include.lake.writing.cut_files import REFUSED_HEADER, CutFiles, Sorter, whole

CHAIN = ChainKey(TopicKey("lake/raw", "events", "id"), 1, 3)
TEXT = DelimitedText(DelimitedTextOptions())
VERBATIM = SequenceFile(layout="verbatim")


def by_first_letter(messages: Sequence[Message]) -> Batch:
    """`f…` is filtered, `r…` refused, the rest goes by its first letter."""
    batch = Batch()
    for message in messages:
        letter = (message.value or b"-")[:1].decode()
        if letter == "f":
            batch.filtered += 1
        elif letter == "r":
            batch.refused.append((message, InvalidRecord("not understood", reason="it begins with r")))
        else:
            batch.kept.setdefault((f"letter={letter}",), []).append(message)
    return batch


def made(folder: Path, sorter: Sorter, first: int = 40) -> CutFiles:
    return CutFiles(folder, CHAIN, first, sorter, TEXT, VERBATIM)


def message(offset: int, value: bytes | None, timestamp_ms: int = -1) -> Message:
    return Message(offset, b"key", value, (("h", None),), timestamp_ms, 1 if timestamp_ms >= 0 else 0)


def test_a_backup_keeps_all_in_one_file_whose_name_is_the_cuts(tmp_path: Path) -> None:
    files = CutFiles(tmp_path, CHAIN, 40, whole(("offset=0",)), VERBATIM, VERBATIM)
    messages = [message(41, b"x", 7_000), message(44, None, 5_000), message(45, b"")]
    files.write(messages[:1])
    files.write(messages[1:])
    (file,) = files.close()
    assert file.key == "lake/raw/events/offset=0/1_3_00000000000000000040"
    assert (file.records, file.first, file.last, file.min_ts, file.max_ts) == (3, 41, 45, 5_000, 7_000)
    assert (files.min_ts, files.max_ts, files.filtered) == (5_000, 7_000, 0)
    with Path(file.path).open("rb") as stream:
        assert list(VERBATIM.read(stream)) == messages
    assert Path(file.path).stat().st_size == file.bytes


def test_what_a_parser_or_the_format_refuses_is_set_aside_whole_with_the_reason(tmp_path: Path) -> None:
    files = made(tmp_path, by_first_letter)
    files.write([message(40, b"r1"), message(41, b"a\nb"), message(42, b"a"), message(43, b"f"), message(44, b"r2")])
    text, aside = sorted(files.close(), key=lambda file: QUARANTINE in file.key)
    assert text.key.startswith("lake/raw/events/letter=a/")
    assert Path(text.path).read_bytes() == b"a\n"
    with Path(aside.path).open("rb") as stream:
        refused = list(VERBATIM.read(stream))
    assert [(each.offset, each.value, each.headers[:-1]) for each in refused] == [
        (40, b"r1", (("h", None),)),
        (41, b"a\nb", (("h", None),)),
        (44, b"r2", (("h", None),)),
    ]
    assert {each.headers[-1][0] for each in refused} == {REFUSED_HEADER}
    assert refused[0].headers[-1][1] == b"it begins with r"
    assert (files.records, files.filtered) == (5, 1)


def test_a_refused_record_is_kept_as_it_came_not_as_a_parser_left_it(tmp_path: Path) -> None:
    def broken(messages: Sequence[Message]) -> Batch:
        return Batch(kept={("letter=a",): [each._replace(value=b"a\nb") for each in messages]})

    files = made(tmp_path, broken)
    files.write([message(40, b"raw")])
    (aside,) = files.close()
    with Path(aside.path).open("rb") as stream:
        assert [each.value for each in VERBATIM.read(stream)] == [b"raw"]


@given(st.lists(st.sampled_from([b"a", b"b", b"b\n", b"f", b"r", None]), max_size=40), st.integers(1, 7))
def test_read_is_written_filtered_and_refused_and_batches_do_not_matter(values: list[bytes], size: int) -> None:
    import tempfile

    messages = [message(40 + 2 * number, value, number) for number, value in enumerate(values)]
    outcomes = []
    for step in (size, 1000):
        with tempfile.TemporaryDirectory() as folder:
            files = made(Path(folder), by_first_letter)
            for at in range(0, len(messages), step):
                files.write(messages[at : at + step])
            closed = files.close()
            assert files.records == len(messages) == files.filtered + sum(file.records for file in closed)
            outcomes.append([file._replace(path="") for file in closed])
    assert outcomes[0] == outcomes[1]


def test_records_of_two_schemas_lie_in_two_folders_below_their_names(tmp_path: Path) -> None:
    def framed(schema_id: int, text: bytes) -> bytes:
        return b"\0" + schema_id.to_bytes(4, "big") + bytes((2 * len(text),)) + text

    avro = AvroContainer(AvroContainerOptions(), lambda _id: {"type": "string"})
    files = CutFiles(tmp_path, CHAIN, 40, whole(("dt=2026-11-21",)), avro, VERBATIM)
    messages = [
        message(40, framed(7, b"a")),
        message(41, framed(8, b"b")),
        message(42, None),
        message(43, framed(7, b"c")),
    ]
    files.write(messages)
    found = {file.key.removeprefix("lake/raw/events/").rpartition("/")[0]: file for file in files.close()}
    assert sorted(found) == [QUARANTINE, "dt=2026-11-21/schema=7", "dt=2026-11-21/schema=8"]
    with Path(found["dt=2026-11-21/schema=7"].path).open("rb") as stream:
        assert [each.value for each in avro.read(stream)] == [framed(7, b"a"), framed(7, b"c")]


def test_a_promised_file_is_written_without_records_where_none_came(tmp_path: Path) -> None:
    files = made(tmp_path, by_first_letter)
    files.write([message(40, b"a")])
    wanted = [
        str(CHAIN.data((name,), 40, extension))
        for name, extension in (("letter=a", ".txt"), ("letter=b", ".txt"), (QUARANTINE, ""))
    ]
    closed = files.close(wanted)
    assert [file.key for file in closed] == sorted(wanted)
    assert sorted(file.records for file in closed) == [0, 0, 1]
    assert all((file.first is None) == (file.records == 0) for file in closed)


def test_a_promise_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Terminal, match="another format"):
        made(tmp_path, by_first_letter).close([str(CHAIN.data(("letter=a",), 40, ".gz"))])


def test_a_parser_that_loses_records_stops_the_cut(tmp_path: Path) -> None:
    with pytest.raises(Terminal, match="lost records"):
        made(tmp_path, lambda messages: Batch(filtered=len(messages) - 1)).write([message(40, b"a"), message(41, b"b")])


def test_the_message_that_would_open_a_folder_too_many_is_left_with_all_behind_it(tmp_path: Path) -> None:
    files = made(tmp_path, by_first_letter)
    values = [b"a", b"f", b"b", b"a", b"f", b"r", b"a", b"c"]
    messages = [message(40 + number, value) for number, value in enumerate(values)]
    # a, b; what is refused has a folder too.
    assert files.write(messages, 2) == 5
    assert (files.records, files.filtered) == (5, 2)
    assert files.write(messages[5:], 2) == 0
    assert files.write(messages[5:], 3) == 2
    assert files.write([message(50, b"b"), message(51, b"r"), message(52, b"f")], 3) == 3
    assert sorted(file.key.split("/")[3] for file in files.close()) == [QUARANTINE, "letter=a", "letter=b"]


@given(st.lists(st.sampled_from("abcdefr"), min_size=1, max_size=60), st.integers(1, 7), st.integers(1, 9))
def test_cuts_of_few_folders_have_each_message_once_and_go_as_far_as_they_can(
    letters: list[str], most: int, batch: int
) -> None:
    messages = [message(number, letter.encode()) for number, letter in enumerate(letters)]
    ends: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        at = 0
        while at < len(messages):
            begun = at
            files = made(Path(name) / str(at), by_first_letter, at)
            (Path(name) / str(at)).mkdir()
            while at < len(messages):
                given = messages[at : at + batch]
                taken = files.write(given, most)
                at += taken
                if taken < len(given):
                    break
            ends.append(at)
            assert files.records == at - begun
            assert len(files.close()) <= most
    # The same by one message after the other.
    wanted, open_ = [], set[str]()
    for number, letter in enumerate(letters):
        opened = open_ | ({letter} - {"f"})
        if len(opened) > most:
            wanted.append(number)
            opened = {letter} - {"f"}
        open_ = opened
    assert ends == [*wanted, len(letters)]
