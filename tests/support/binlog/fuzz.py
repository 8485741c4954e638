"""Recordings with one byte other, or cut, at every place: refused by name, or rows that are whole.

No byte is left out but those of checksums, which are made good. Each broken event is read within its transaction, by
everything that stands between a file's bytes and what is printed: event reader, transactions, both row decoders, Avro,
JSON.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

import fastavro
import orjson

from include.errors import Terminal
from include.source.binlog.files import read_events
from include.source.binlog.reader import EventReader
from include.source.binlog.step import RowsEvent, SourceTransaction
from include.source.binlog.transaction import TransactionBuilder
from include.source.cat.rows import RowTexts
from include.source.cat.schema_rows import described
from include.source.rows.decoder import NativeImages
from include.source.rows.images import Pair, RowImages
from tests.support.binlog.recorded_mariadb import raw_events
from tests.support.golden.recording import load, names

__all__ = ["FILES", "STEP", "Fuzz", "Mutant"]

FILES = [("", "mariadb-types"), *names()]
"""(server, case) of every recording, and the first one, which has a description of its own kind."""

STEP: Final = "LYREBIRD_TEST_FUZZ_STEP"
"""Of so many bytes of an event one is broken, another one in the next event; without it each is."""
Mutant = tuple[int, int, int]
"""(number of the event, place in it, bits to flip; -1: the event ends there)."""
_HEADER, _SIZE = 19, range(9, 13)


class Fuzz:
    """One of `FILES`. `mutants` are all that there are; `outcome` reads one."""

    def __init__(self, server: str, case: str) -> None:
        recording = load(server, case) if server else None
        self.events = list(read_events(io.BytesIO(recording.data))) if recording else raw_events()
        reader = EventReader("bin.000001")
        reader.parse(self.events[0])
        self._summed = reader._description.checksum
        schema = [
            {"TABLE_SCHEMA": c.table[0], "TABLE_NAME": c.table[1], **column}
            for c in {c.table: c for c in (recording.changes if recording else ()) if c.description}.values()
            for column in (c.description.columns if c.description else ())
        ]
        self._described = described(schema)
        self._texts = RowTexts(self._described)
        self._builder = TransactionBuilder(lambda *_: True, lambda *_: False, 1 << 24, Path(gettempdir()))
        self._maps: dict[Any, Any] = {}
        self._group = list(self._groups())

    def mutants(self, masks: tuple[int, ...]) -> Iterator[Mutant]:
        """Every byte of every event, or one of `STEP`: its bits, and the event cut before it."""
        step = int(os.environ.get(STEP, "1"))
        for number, event in enumerate(self.events):
            for place in range(number % step, len(event) - 4 * self._summed, step):
                for mask in masks:
                    yield number, place, mask
                yield number, place, -1

    def mutated(self, mutant: Mutant) -> bytes:
        """The broken event; its checksum is made good, and its size where that is not what was broken."""
        number, place, mask = mutant
        event = self.events[number]
        core = event[:-4] if self._summed else event
        core = core[:place] if mask < 0 else core[:place] + bytes((core[place] ^ mask,)) + core[place + 1 :]
        if len(core) < _HEADER:
            return core
        if mask < 0 or place not in _SIZE:
            core = core[:9] + struct.pack("<I", len(core) + 4 * self._summed) + core[13:]
        if core[4] == 15 and mask >= 0:
            # Its checksum is reckoned without the flag of a file in use.
            return core + struct.pack("<I", zlib.crc32(core[:17] + bytes((core[17] & ~1,)) + core[18:]))
        return core + struct.pack("<I", zlib.crc32(core)) if self._summed else core

    def outcome(self, mutant: Mutant) -> str:
        """The refusal, or ""; raises anything else than that, and for rows of a wrong shape."""
        number = mutant[0]
        begin, end = self._group[number]
        reader, builder = self._fresh()
        if len(self._texts._made) > 200:
            self._texts = RowTexts(self._described)
        try:
            if begin:
                builder.on_event(reader.parse(self.events[0]))
                # As if the file had been read up to here: maps are parsed once.
                builder._statement._known.update(self._maps)
            for i in range(begin, end):
                found = builder.on_event(reader.parse(self.mutated(mutant) if i == number else self.events[i]))
                if isinstance(found, SourceTransaction):
                    for step in found.steps:
                        if isinstance(step, RowsEvent):
                            self._rows(step, reader)
        except Terminal as refusal:
            return str(refusal)
        return ""

    def _groups(self) -> Iterator[tuple[int, int]]:
        """For each event the first and the end of those that make its transaction."""
        reader, builder = self._fresh()
        begin = 0
        for i, event in enumerate(self.events):
            waiting = bool(builder.prepared)
            try:
                builder.on_event(reader.parse(event))
            except Terminal:
                builder.on_reconnect()
            if builder.unfinished is None:
                # What was prepared is needed at its commit.
                yield from [(0 if waiting else begin, i + 1)] * (i + 1 - begin)
                begin = i + 1
        self._maps = dict(builder._statement._known)
        yield from [(begin, len(self.events))] * (len(self.events) - begin)

    def _fresh(self) -> tuple[EventReader, TransactionBuilder]:
        self._builder.on_reconnect()
        self._builder._prepared.clear()
        return EventReader("bin.000001"), self._builder

    def _rows(self, rows: RowsEvent, reader: EventReader) -> None:
        images, _ = self._texts._of(rows.table, reader.flavour, reader.server_version)
        plain = images.plain if isinstance(images, NativeImages) else images
        pairs = _read(plain, rows)
        assert _read(images, rows) == pairs
        for sides in self._texts.of(rows, reader.flavour, reader.server_version):
            for shown in sides:
                assert shown is None or set(shown) <= {column.name for column in plain.shape.columns}
                orjson.dumps(shown)
        if isinstance(pairs, str):
            return
        for pair in pairs:
            assert [side is None for side in pair] == [rows.op == "c", rows.op == "d"]
            for image in pair:
                if image is not None:
                    self._whole(plain, image.row)

    def _whole(self, images: RowImages, row: bytes) -> None:
        schema = images.shape.schema
        stream = io.BytesIO(row)
        found = fastavro.schemaless_reader(stream, _parsed(schema), None)
        assert stream.tell() == len(row)
        assert isinstance(found, dict)
        assert len(found) == len(schema.columns) + bool(schema.invalid_field)


def _read(images: RowImages | NativeImages, rows: RowsEvent) -> list[Pair] | str:
    try:
        return images.rows(rows.op, rows.body, rows.partial)
    except Terminal as refusal:
        return str(refusal)


@lru_cache(maxsize=256)
def _parsed(schema: Any) -> Any:
    row = schema.envelope_avro("s")["fields"][0]["type"][1]
    # As plain numbers: what Python has no date for is a question of the reader, not of the bytes.
    fields = [{**field, "type": ["null", _bare(field["type"][1])]} for field in row["fields"]]
    return fastavro.parse_schema({**row, "namespace": "s", "fields": fields})


def _bare(kind: Any) -> Any:
    return {name: each for name, each in kind.items() if name != "logicalType"} if isinstance(kind, dict) else kind
