"""What records do to keys."""

from __future__ import annotations

import pytest

from include.errors import InvalidRecord
from include.lake.tables.rows import RowReader, TaskRows, newest
from include.log.memory import MemoryRegistry
from include.log.ports import Record
from include.record.codec import Encoder
from include.record.version import to_header
from tests.unit.lake.tables.tables_harness import envelope, row_schema

REGISTRY = MemoryRegistry()
CHANGE = envelope(row_schema())
ENCODE = Encoder(REGISTRY.register("t-value", CHANGE), CHANGE)
READER = RowReader("t", change=True, schema_of=REGISTRY.schema)


def record(value: bytes | None, version: int = 5, key: bytes | None = b"k", offset: int = 3) -> Record:
    return Record("t", 0, offset, key, value, (to_header(version),))


def change(op: str, after: int | None) -> bytes:
    return ENCODE({"before": None, "after": None if after is None else {"id": after, "amount": None}, "op": op})


def test_the_newer_image_is_the_row_and_a_delete_and_its_tombstone_are_one() -> None:
    put = READER.read(record(change("c", 1)))
    assert (put.key, put.version, put.partition, put.offset) == (b"k", 5, 0, 3)
    assert put.row == b"\x02\x00"
    assert READER.read(record(change("d", None))).row is None
    assert READER.read(record(None)).row is None


@pytest.mark.parametrize(
    "bad",
    [
        record(change("c", 1), key=None),
        record(change("c", None)),
        record(change("x", 1)),
        record(b"text"),
        record(change("c", 1) + b"!"),
        Record("t", 0, 1, b"k", change("c", 1)),
    ],
)
def test_what_is_no_row_is_refused_with_its_place(bad: Record) -> None:
    with pytest.raises(InvalidRecord):
        READER.read(bad)
    gathered = TaskRows(4)
    gathered.take(READER, bad)
    ((topic, partition, offset, reason),) = gathered.refused
    assert (topic, partition, offset) == ("t", 0, bad.offset)
    assert reason
    assert not gathered.packed()


def test_a_plain_topic_without_versions_goes_by_its_offsets() -> None:
    schema = row_schema()
    encode = Encoder(REGISTRY.register("p-value", schema), schema)
    reader = RowReader("p", change=False, schema_of=REGISTRY.schema)
    assert reader.read(Record("p", 0, 41, b"k", encode({"id": 1, "amount": 2}))).version == 42


def test_of_several_changes_the_greatest_version_counts_and_of_equal_ones_the_last() -> None:
    gathered = [TaskRows(1), TaskRows(1)]
    for number, (version, id_) in enumerate([(5, 1), (4, 2), (5, 3), (5, 4)]):
        gathered[number // 2].take(READER, record(change("u", id_), version, offset=number))
    found, superseded = newest(each.packed()[0] for each in gathered)
    assert found[b"k"].offset == 3
    assert superseded + sum(each.counts["superseded"] for each in gathered) == 3
