"""Files are the same wherever they are made: another time zone, locale and hash order change no byte."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fastavro

from include.lake.formats.avro_container import AvroContainer, AvroContainerOptions
from include.lake.formats.compressed_file import Compression
from include.lake.formats.delimited_text import DelimitedText, DelimitedTextOptions
from include.lake.formats.json_lines import JsonLines, JsonLinesOptions
from include.lake.formats.parquet import Parquet, ParquetOptions
from include.lake.formats.port import FileIdentity, Format
from include.lake.message import Message
from include.record.codec import frame
from tests.support.paths import ROOT

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Log",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
IDENTITY = FileIdentity("logs", "topicid", 3, 1000, ("dt=2026-01-02", "schema=7"))

# Those that no library decides on.
GOLDEN = {
    "text": "6616a4f524030ff844fbdb2bf894e5e8f6f79af5477b05ce2e44d7041093680c",
    "json": "78df4aced75cd1b832f56545ace362d27cab2c080454af99b593e2022e910944",
    "avro": "4d87086512ab6ce4c3a68d3b614e0709af05e8926579bf1b66cbc93d25400294",
}


def messages() -> list[Message]:
    parsed, made = fastavro.parse_schema(SCHEMA), []
    for i in range(300):
        body = io.BytesIO()
        value = {"id": i, "tags": {f"k{j}": "é" * j for j in range(i % 7)}, "at": 1_700_000_000_000_000 + i}
        fastavro.schemaless_writer(body, parsed, value)
        headers = (("h", b"\xff"), ("h", None)) if i % 3 else ()
        made.append(Message(1000 + 2 * i, b"k%d" % i, frame(7, body.getvalue()), headers, 1_700_000_000_000 + i, 1))
    return made


def digests() -> dict[str, str]:
    formats: dict[str, Format] = {
        "text": DelimitedText(DelimitedTextOptions(embedded="escape")),
        "text gzip": DelimitedText(DelimitedTextOptions(embedded="escape", compression=Compression(codec="gzip"))),
        "text zstd": DelimitedText(DelimitedTextOptions(embedded="escape", compression=Compression(codec="zstd"))),
        "json": JsonLines(JsonLinesOptions()),
        "avro": AvroContainer(AvroContainerOptions(), lambda _: SCHEMA),
        "avro zstandard": AvroContainer(AvroContainerOptions(codec="zstandard"), lambda _: SCHEMA),
        "parquet": Parquet(ParquetOptions(coordinates=True), lambda _: SCHEMA),
    }
    found = {}
    for name, format_ in formats.items():
        stream = io.BytesIO()
        writer = format_.open(stream, IDENTITY)
        writer.write(messages())
        closed = writer.close()
        assert closed.sha256 == hashlib.sha256(stream.getvalue()).hexdigest()
        found[name] = closed.sha256
    return found


def test_another_process_with_other_surroundings_makes_the_same_bytes() -> None:
    surroundings = {"TZ": "Pacific/Apia", "LC_ALL": "C", "PYTHONHASHSEED": "4711", "PYTHONUTF8": "0"}
    root = ROOT
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_equal_bytes as t; print(sorted(t.digests().items()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent)],
        env=os.environ | surroundings | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    assert done.stdout.strip() == str(sorted(digests().items()))


def test_formats_that_no_library_decides_on_make_the_same_bytes_for_ever() -> None:
    assert {name: digest for name, digest in digests().items() if name in GOLDEN} == GOLDEN
