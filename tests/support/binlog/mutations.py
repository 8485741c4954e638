"""Recorded binlogs with bytes changed, and what may come of them: a refusal by name, or results of the right shape."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache

from include.errors import Terminal
from include.record.gtid import parse_gtid_set
from include.source.binlog.events import QueryEvent
from include.source.binlog.files import read_events
from include.source.binlog.reader import EventReader
from include.source.binlog.transaction import Heartbeat, SourceTransaction
from tests.support.binlog.builder import builder
from tests.support.binlog.recorded_mariadb import sealed
from tests.support.paths import GOLDEN


@cache
def recordings() -> dict[str, tuple[bytes, ...]]:
    """Raw events of every recording, by its path below tests/golden."""
    found = {}
    for path in sorted(GOLDEN.glob("**/*.binlog")):
        data = path.read_bytes()
        events = tuple(read_events(path)) if data.startswith(b"\xfebin") else tuple(_bare(data))
        found[str(path.relative_to(GOLDEN))] = events
    return found


def flipped(event: bytes, place: int, mask: int) -> bytes:
    """The event with some bits of a byte other; size and checksum fit again."""
    return sealed(event[:place] + bytes((event[place] ^ mask,)) + event[place + 1 :])


def cut(event: bytes, size: int) -> bytes:
    """The event without some of its last bytes; size and checksum fit again."""
    return sealed(event[: len(event) - 4 - size] + event[-4:])


def outcome(events: tuple[bytes, ...], database: str) -> str:
    """Reads it all; the refusal's text, or "". Results of a wrong shape fail, as does any error but a `Terminal`."""
    reader, made = EventReader("bin.000001"), builder(database=database, survives=["m"])
    try:
        for data in events:
            event = reader.parse(data)
            item = made.on_event(event)
            if isinstance(item, SourceTransaction):
                _check(item, reader)
            elif item is not None:
                assert isinstance(item, Heartbeat)
                assert item.at.pos >= 0
    except Terminal as refusal:
        return str(refusal)
    return ""


def _check(item: SourceTransaction, reader: EventReader) -> None:
    assert item.end.file
    assert item.end.pos >= 0
    assert item.commit_us >= 0
    if item.gtid:
        assert str(parse_gtid_set(item.gtid, reader.flavour)) == item.gtid
    steps = list(item.steps)
    assert len(steps) == len(item.steps)
    for step in steps:
        if isinstance(step, QueryEvent):
            assert isinstance(step.text, str)
            continue
        table = step.table
        assert len(table.types) == len(table.metas) == len(table.nullable)
        assert len(table.names) in (0, len(table.types))
        assert all(i < len(table.types) for i in {*table.key, *table.charsets, *table.labels, *table.unsigned})


def _bare(data: bytes) -> Iterator[bytes]:
    while data:
        size = struct.unpack_from("<I", data, 9)[0]
        yield data[:size]
        data = data[size:]
