"""Each row of each recording: the text that its server made of it is the one that the copy's sides make."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import fastavro
import pytest

from include.errors import Terminal
from include.lake.formats.avro_schemas import plain_schema
from include.lake.tables.columns import Columns
from include.source.hashes import plain
from include.source.hashes.arrow_texts import ArrowTexts
from include.source.hashes.columns import ComparedRows
from include.source.hashes.printed import values_of
from include.source.rows.shape import TableShape
from include.source.rows.text import row_reader
from tests.support.binlog.decoded_recording import converted, shape_of
from tests.support.golden.record_texts import compared_rows, texts_of
from tests.support.golden.recording import Description, Row, Table, load, names
from tests.support.servers.catalogue import SERVERS

GAPS = "charsets-one-byte"


def rows_of(shape: TableShape, rows: tuple[Row, ...]) -> tuple[Any, list[bytes]]:
    """Avro's schema of rows, and their bytes, of what SELECT gave."""
    (value,) = (each for each in shape.schema.envelope_avro("s")["fields"][0]["type"] if each != "null")
    # Rows of a system-versioned table's past have no text.
    shape = replace(shape, until=None)
    read = row_reader(converted(shape))
    kept = [i for i in range(len(shape.columns)) if i not in shape.skipped]
    return {**value, "namespace": "n"}, [read(tuple(row[i] for i in kept)).row for row in rows]


def compared_states(
    server: str, case: str
) -> Iterator[tuple[Table, TableShape, ComparedRows, tuple[Row, ...], list[str]]]:
    """Table, what is compared of it, rows that came by one statement, and the server's texts of them."""
    recording, texts = load(server, case), texts_of(server, case)
    descriptions: dict[Table, Description] = {}
    for number, change in enumerate(recording.changes):
        if change.description:
            descriptions[change.table] = change.description
        if number not in texts:
            continue
        description = descriptions[change.table]
        assert len(texts[number]) == len(change.come)
        pairs = [(row, text) for row, text in zip(change.come, texts[number], strict=True) if text is not None]
        shape = shape_of(change.table, description, server)
        rows = compared_rows(change.table, description, server)
        yield change.table, shape, rows, tuple(row for row, _ in pairs), [text for _, text in pairs]


def with_gaps(case: str, compared: ComparedRows, made: list[str], texts: list[str]) -> list[str]:
    """Texts as made, but for values that have bytes which are no characters to the server: these it tells (`?…`)."""
    if case != GAPS:
        return made
    kept = []
    for one, other in zip(made, texts, strict=True):
        pairs = zip(values_of(compared.columns, one), values_of(compared.columns, other), strict=True)
        same = all(mine == its or (its or "").startswith("?") for mine, its in pairs)
        kept.append(other if same else one)
    return kept


@pytest.mark.parametrize("server", [row.name for row in SERVERS])
def test_every_row_has_the_text_that_its_server_made(server: str) -> None:
    counted = 0
    # Tables of before MySQL 5.0 hold more digits than their type has: no copy takes them.
    for case in [case for name, case in names() if name == server and not case.startswith("old-decimal")]:
        for table, shape, compared, rows, texts in compared_states(server, case):
            schema, data = rows_of(shape, rows)
            parsed: Any = fastavro.parse_schema(plain_schema(schema))
            said: list[Any] = [fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in data]
            made = [plain.row_text(compared, row).decode() for row in said]
            assert with_gaps(case, compared, made, texts) == texts, (case, table)
            columns = Columns(schema)
            for way in (columns.table(said, columns.arrow), columns.table_of(data, columns.arrow)):
                # What is not compiled leaves it to the other.
                batches = () if way is None else way.to_batches()
                for batch in batches:
                    assert [each.decode() for each in ArrowTexts(compared).rows(batch).to_pylist()] == made, table
            counted += len(rows)
    assert counted


def test_what_is_not_recorded_has_no_rows_or_a_key_that_cannot_be_compared() -> None:
    for server, case in names():
        recording, texts = load(server, case), texts_of(server, case)
        descriptions: dict[Table, Description] = {}
        for number, change in enumerate(recording.changes):
            if change.description:
                descriptions[change.table] = change.description
            if change.come and number not in texts:
                with pytest.raises(Terminal):
                    compared_rows(change.table, descriptions[change.table], server)
