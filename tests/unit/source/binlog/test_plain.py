"""The compiled event loop takes nothing that Python would read otherwise, and leaves all that it does not know."""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from include.clock import ManualClock
from include.errors import LyrebirdError
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.binlog.files import BinlogFile
from include.source.binlog.plain import plain_groups
from include.source.binlog.reader import EventReader
from include.source.binlog.step import PlainRun, RowsEvent, SourceTransaction
from include.source.binlog.transaction import TransactionBuilder
from include.source.binlog.unpack import BinlogInput
from include.source.database import transaction_stream as subject
from include.source.database.transaction_stream import TransactionStream
from include.source.definition import SourceDefinition
from tests.support.binlog.builder import builder, description, image, query_body, raw, rows_body, table_map_body
from tests.support.binlog.mutations import cut, flipped, recordings

pytestmark = pytest.mark.compiled

NAMES = sorted(recordings())
FOLDER = Path(gettempdir())
SOURCE = SourceDefinition(
    host="db", port=1, user="u", password=SecretStr("p"), databases=["golden", "lyregold", "shop"]
)
START = SourcePosition("mariadb", MariadbGtidSet.parse(""), BinlogPosition("", 4), 0)


class Wire:
    """A connection that gives these pieces and ends."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = list(pieces)

    def recv(self, _size: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def settimeout(self, seconds: float | None) -> None:
        assert seconds


def of_file(data: bytes, made: TransactionBuilder) -> list[object]:
    """What comes out of a file of these bytes, its refusal last."""
    found: list[object] = []
    file = BinlogFile("bin.000001", "bin.000001", BinlogInput(io.BytesIO(data)))
    try:
        found += [told(item) for item in file.transactions(EventReader("bin.000001"), made)]
    except LyrebirdError as refusal:
        found.append(str(refusal))
    return found


def told(item: Any) -> object:
    if not isinstance(item, SourceTransaction):
        return item
    return [getattr(item, name) for name in SourceTransaction.__slots__ if name != "steps"] + list(item.steps)


def both_ways(data: bytes, memory_bytes: int = 1 << 24) -> list[object]:
    """What comes out, which is equal with the loop and without."""
    ways = []
    for plain in (True, False):
        made = TransactionBuilder(SOURCE.captures, lambda *_: False, memory_bytes, FOLDER)
        if not plain:
            made._plain = None
        ways.append(of_file(data, made))
    assert ways[0] == ways[1]
    return ways[0]


def joined(events: Sequence[bytes]) -> bytes:
    return b"\xfebin" + b"".join(events)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_gives_the_same_transactions(name: str) -> None:
    assert both_ways(joined(recordings()[name]))


@settings(deadline=None)
@given(st.data())
def test_a_recording_with_a_byte_flipped_an_event_cut_lost_or_twice_gives_the_same(data: st.DataObject) -> None:
    events = recordings()[data.draw(st.sampled_from(NAMES))]
    number = data.draw(st.integers(0, len(events) - 1))
    event = events[number]
    ways = [
        lambda: [flipped(event, data.draw(st.integers(0, len(event) - 1)), data.draw(st.integers(1, 255)))],
        lambda: [cut(event, data.draw(st.integers(1, max(1, len(event) - 23))))],
        list,
        lambda: [event, event],
    ]
    both_ways(joined([*events[:number], *data.draw(st.sampled_from(ways))(), *events[number + 1 :]]))


@settings(deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 2**32))
def test_a_file_with_bytes_flipped_or_cut_anywhere_gives_the_same(name: str, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(joined(recordings()[name]))
    for _ in range(chance.randint(0, 3)):
        data[chance.randrange(len(data))] ^= chance.randint(1, 255)
    both_ways(bytes(data[: chance.choice([len(data), chance.randrange(len(data))])]))


@settings(deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 2**32))
def test_transactions_are_the_same_wherever_the_network_cuts_them(name: str, seed: int) -> None:
    chance = random.Random(seed)
    packets = (bytes(1) + event for event in recordings()[name])
    wire = b"".join(len(packet).to_bytes(3, "little") + b"\0" + packet for packet in packets)
    most = chance.choice([7 + len(wire) // 200, 300 + len(wire) // 20])
    pieces, at = [], 0
    while at < len(wire):
        pieces.append(wire[at : at + chance.randint(1, most)])
        at += len(pieces[-1])
    assert of_wire(pieces, plain=True) == of_wire(pieces, plain=False)


def of_wire(pieces: Sequence[bytes], plain: bool) -> list[object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subject, "dump", lambda *_: Wire(pieces))
        stream = TransactionStream(SOURCE, 7, START, (), lambda *_: False, ManualClock(0))
    if not plain:
        stream._builder._plain = None
    found: list[object] = []
    try:
        while True:
            item = stream.next(1.0)
            if isinstance(item, PlainRun):
                found += map(told, item.transactions())
            else:
                found += [] if item is None else [told(item)]
    except LyrebirdError as refusal:
        return [*found, str(refusal)]


def group(*numbers: int, table_id: int = 1, table: str = "t") -> list[bytes]:
    """A transaction of MySQL without GTIDs."""
    body = rows_body(table_id, b"".join(map(image, numbers)), v2=True)
    return [
        raw(2, query_body("BEGIN")),
        raw(19, table_map_body(table_id, table)),
        raw(30, body),
        raw(16, bytes(8)),
    ]


def test_what_is_taken_and_what_is_left() -> None:
    made, reader = builder(), EventReader("bin.000001")
    for event in (description(), *group(1)):
        made.on_event(reader.parse(event))
    plain, other = b"".join(group(2) + group(3, 4)), b"".join(group(5, table="u"))
    found, at, more = made.take(reader, plain + plain[:-1], 0, framed=False)
    assert [each.count for each in found] == [3]
    assert [
        [step.body[-4:] for step in each.steps if isinstance(step, RowsEvent)] for each in found[0].transactions()
    ] == [
        [image(2)[1:]],
        [image(4)[1:]],
        [image(2)[1:]],
    ]
    assert (at, more) == (len(plain) + len(b"".join(group(2))), True)
    found, at, more = made.take(reader, plain + other, 0, framed=False)
    assert [each.count for each in found] == [2]
    assert (at, more) == (len(plain), False), "a map that nobody has parsed is Python's"
    broken = plain[:-1] + bytes((plain[-1] ^ 1,))
    assert made.take(reader, broken, 0, framed=False)[1:] == (len(b"".join(group(2))), False)


def test_a_transaction_of_more_bytes_than_memory_may_hold_is_left_to_the_disk() -> None:
    events = [description(), *group(1), *group(*range(200)), *group(2)]
    assert both_ways(joined(events), memory_bytes=100) == both_ways(joined(events))


def test_an_open_group_is_ended_by_whoever_began_it() -> None:
    made, reader = builder(), EventReader("bin.000001")
    events = [description(), *group(1), *group(2)]
    for event in events[:-1]:
        made.on_event(reader.parse(event))
    assert made.take(reader, events[-1], 0, framed=False) == ([], 0, False)


def test_the_checksum_is_that_of_zlib() -> None:
    from include.source.native._events import crc32

    data = random.Random(7).randbytes(3000)
    for start in range(3):
        for size in (*range(300), 900, *range(1020, 1120), 2900):
            piece = data[start : start + size]
            assert {crc32(piece, ways) for ways in range(3)} == {zlib.crc32(piece)}


def test_classes_of_other_slots_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from include.source.binlog import plain

    class Other:
        __slots__ = ("table",)

    monkeypatch.setattr(plain, "RowsEvent", Other)
    assert plain_groups({}, 1) is None
