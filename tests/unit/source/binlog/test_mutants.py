"""Every recording is read whole; with bytes flipped or cut it is refused, or read as something of the right shape."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.source.binlog.files import read_events
from include.source.binlog.reader import EventReader
from tests.support.binlog.mutations import cut, flipped, outcome, recordings

NAMES = sorted(recordings())
DATABASE = {"mariadb-types.binlog": "lyregold"}


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_read_to_its_end(name: str) -> None:
    assert outcome(recordings()[name], DATABASE.get(name, "golden")) == ""


@given(st.data())
def test_a_recording_with_a_byte_flipped_is_refused_or_well_formed(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    events = recordings()[name]
    number = data.draw(st.integers(0, len(events) - 1))
    place = data.draw(st.integers(0, len(events[number]) - 1))
    broken = flipped(events[number], place, data.draw(st.integers(1, 255)))
    outcome((*events[:number], broken, *events[number + 1 :]), DATABASE.get(name, "golden"))


@given(st.data())
def test_a_recording_with_an_event_cut_is_refused_or_well_formed(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    events = recordings()[name]
    number = data.draw(st.integers(0, len(events) - 1))
    broken = cut(events[number], data.draw(st.integers(1, max(1, len(events[number]) - 23))))
    outcome((*events[:number], broken, *events[number + 1 :]), DATABASE.get(name, "golden"))


@given(st.data())
def test_a_recording_with_events_missing_or_twice_is_refused_or_well_formed(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    events = recordings()[name]
    number = data.draw(st.integers(0, len(events) - 1))
    outcome((*events[:number], *events[number + 1 :]), DATABASE.get(name, "golden"))
    outcome((*events[: number + 1], *events[number:]), DATABASE.get(name, "golden"))


@given(st.sampled_from(NAMES), st.integers(0, 2**32))
def test_a_files_bytes_flipped_or_cut_anywhere_give_no_other_error(name: str, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(b"\xfebin" + b"".join(recordings()[name]))
    for _ in range(chance.randint(1, 3)):
        data[chance.randrange(len(data))] ^= chance.randint(1, 255)
    del data[chance.randint(1, len(data)) :]
    reader, read = EventReader(), 0
    try:
        for event in read_events(io.BytesIO(bytes(data))):
            reader.parse(event)
            read += 1
    except Terminal:
        pass
    assert read <= len(recordings()[name])
