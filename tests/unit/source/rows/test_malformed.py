"""Errors of values that cannot be read say where and of what type, and hold nothing of the value."""

from __future__ import annotations

import random
import traceback
from functools import cache

import pytest

from include.errors import Terminal
from include.record.schema import Column, TableSchema
from include.source.binlog.step import RowsEvent
from include.source.charsets.charset import text_decoder
from include.source.malformed import told
from include.source.rows.images import RowImages
from include.source.rows.json.binary import json_text
from include.source.rows.json.diff import apply_diffs
from include.source.rows.layout import layout
from include.source.rows.shape import TableShape
from include.source.rows.text import row_reader
from tests.support.binlog.decoded_recording import shape_of, transactions
from tests.support.golden.recording import load, names

SECRET = b"Secret74"
PIECES = [SECRET[at : at + size] for size in (4, 8) for at in range(9 - size)]
TRACES = ["ecret7", *(piece.decode() for piece in PIECES), *(piece.hex() for piece in PIECES)]
TRACES += [str(int.from_bytes(piece, order)) for piece in PIECES for order in ("big", "little")]
TYPES = ("integers", "decimals", "bits", "dates", "datetimes", "timestamps", "times", "enums", "sets", "json-documents")
CASES = [name for name in names() if name[0] in ("mariadb-11.4", "mysql-9.7") and name[1] in {*TYPES,
         "old-decimal", "old-temporals", "charsets-wide", "compressed-columns", "json-values", "vectors"}]  # fmt: skip


def shown(error: Exception) -> str:
    """All that a log has of it: its text, and the traceback with the errors that are shown as its causes."""
    lines = traceback.format_exception(error)
    return str(error) + "".join(line for line in lines if not line.startswith("  File"))


def assert_tells_nothing(error: Exception) -> None:
    text = shown(error)
    assert [trace for trace in TRACES if trace in text] == []


@cache
def steps(server: str, case: str) -> list[tuple[RowImages, RowsEvent]]:
    recording = load(server, case)
    shapes = {c.table: shape_of(c.table, c.description, server) for c in recording.changes if c.description}
    found = []
    for step in (s for each in transactions(recording) for s in each.steps if isinstance(s, RowsEvent)):
        shape = shapes.get(step.table.name)
        if shape is not None and len(shape.columns) == len(step.table.types):
            found.append((RowImages(layout(step.table, shape, recording.flavour)), step))
    return found


def refusal(images: RowImages, step: RowsEvent, body: bytes) -> Terminal | None:
    try:
        images.rows(step.op, body, step.partial)
    except Terminal as error:
        return error
    return None


@pytest.mark.parametrize(("server", "case"), CASES)
def test_a_row_with_a_secret_in_a_strange_place_is_refused_without_it(server: str, case: str) -> None:
    chance, refused = random.Random(74), 0
    for images, step in steps(server, case):
        for _ in range(40):
            body = bytearray(step.body)
            at = chance.randrange(1 + len(images.layout.fields) // 8, len(body))
            body[at : at + len(SECRET)] = SECRET
            error = refusal(images, step, bytes(body))
            if error is None:
                continue
            refused += 1
            assert_tells_nothing(error)
            assert error.details["table"]
            if error.message == "a row cannot be read" and error.details["column"]:
                assert {"type", "byte", "bytes"} <= set(error.details)
    assert refused


@pytest.mark.parametrize(
    "kind", ["int", "bigint", "double", "decimal", "date", "datetime", "timestamp", "time", "year"]
)
def test_a_selected_value_that_is_none_of_its_type_is_refused_without_it(kind: str) -> None:
    columns = (Column("id", "int"), Column("c", kind, precision=10, scale=2))
    shape = TableShape(columns, TableSchema("shop", "t", columns, ("id",)))
    for value in (SECRET, b"2026-" + SECRET, b"1." + SECRET[:2], SECRET * 9, b"\xff" + SECRET):
        with pytest.raises(Terminal, match="a selected value cannot be read") as refused:
            row_reader(shape)((b"1", value))
        assert_tells_nothing(refused.value)
        details = refused.value.details
        assert (details["column"], details["type"], details["bytes"]) == ("c", kind, len(value))


@pytest.mark.parametrize(
    "charset", ["utf8mb4", "utf8mb3", "latin1", "ascii", "gbk", "sjis", "ucs2", "utf16", "utf32", "big5"]
)
def test_a_text_that_is_none_of_its_charset_is_refused_without_it(charset: str) -> None:
    for data in (SECRET + b"\xff", b"\x81" + SECRET, SECRET + b"\xd8\x00", b"\xf0\x9f\x98\x80" + SECRET):
        try:
            text_decoder(charset)(data)
        except ValueError as error:
            assert_tells_nothing(Terminal("x", cause=told(error)))


@pytest.mark.parametrize("kind", range(16))
def test_json_with_a_secret_in_a_strange_place_is_refused_without_it(kind: int) -> None:
    for head in (b"", b"\x02\x00", b"\x01\x00\xff\x00", b"\x01\x00\x13\x00\x0b\x00\x08\x00\x0c", b"\x08", b"\xf6\x08"):
        for data in (bytes((kind,)) + head + SECRET, bytes((kind,)) + head + SECRET * 4):
            try:
                json_text(data)
            except ValueError as error:
                assert_tells_nothing(Terminal("x", cause=told(error)))


def test_a_change_of_json_by_a_strange_path_is_refused_without_it() -> None:
    for path in (
        SECRET,
        b"$." + SECRET + b"!",
        b"$." + SECRET + b".x",
        b"$[" + SECRET + b"]",
        b'$."' + SECRET + b'\\"',
    ):
        change = b"\x02" + bytes((len(path),)) + path
        with pytest.raises(ValueError) as refused:  # noqa: PT011 - of any text but the path's
            apply_diffs(b'{"a": 1}', change)
        assert_tells_nothing(Terminal("x", cause=told(refused.value)))


def test_what_python_says_of_a_value_is_not_repeated() -> None:
    for broken in (lambda: int(SECRET), lambda: float(SECRET), lambda: (SECRET + b"\xff").decode()):
        with pytest.raises(ValueError) as refused:  # noqa: PT011 - Python's own
            broken()
        assert_tells_nothing(Terminal("x", cause=told(refused.value)))
