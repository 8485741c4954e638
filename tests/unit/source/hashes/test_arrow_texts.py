"""The text of a row that is made of Arrow batches is that of the row in the topic: every type, random values."""

from __future__ import annotations

import struct
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from include.lake.formats.arrow_columns import columns_of
from include.policy.policy import Policy
from include.record.schema import Column, TableSchema
from include.source.hashes import plain
from include.source.hashes.arrow_texts import ArrowTexts, crcs
from include.source.hashes.columns import ComparedRows, Digest
from include.source.hashes.printed import values_of
from include.source.hashes.sums import LEAF_BITS, HashSum, leaf_of

ROWS = 2_000
SEED = Random().randrange(1 << 32)
COLUMNS = (
    Column("id", "bigint"),
    Column("small", "smallint"),
    Column("unsigned", "bigint", unsigned=True),
    Column("bits", "bit", length=64),
    Column("flag", "bit", length=1),
    Column("price", "decimal", precision=10, scale=2),
    Column("tiny", "decimal", precision=20, scale=12),
    Column("wide", "decimal", precision=65, scale=30),
    Column("f", "float"),
    Column("d", "double"),
    Column("day", "date"),
    Column("at", "datetime", digits=6),
    Column("stamp", "timestamp", digits=6),
    Column("lasts", "time", digits=6),
    Column("it's", "varchar"),
    Column("body", "mediumtext"),
    Column("blob", "blob"),
    Column("fixed", "binary", length=8),
)
SCHEMA = TableSchema("shop", "t", COLUMNS, ("id",))
TEXT = "abc 0123 éüñß€ žčš 日本語 🐦𝄞\x00"


@pytest.mark.parametrize("digest", ["md5", "sha256"])
def test_texts_of_all_types_are_those_of_the_topic(digest: Digest) -> None:
    draw = Random(SEED)
    rows = [_row(draw, number) for number in range(ROWS)]
    (value,) = (each for each in SCHEMA.envelope_avro("s")["fields"][0]["type"] if isinstance(each, dict))
    columns = columns_of(value, target="delta")
    arrays = [pa.array(each.values([row[each.name] for row in rows]), each.type) for each in columns]
    table = pa.table(arrays, schema=pa.schema([each.field for each in columns]))
    compared = ComparedRows.of(COLUMNS, SCHEMA, Policy.declared("accept", {}, ["shop"]).of("shop", "t"), digest)
    assert not compared.not_compared
    assert len(compared.columns) == len(COLUMNS)
    made = ArrowTexts(compared)
    for each in compared.columns:
        texts = made.values(each, table).to_pylist()
        for row, text in zip(rows, texts, strict=True):
            assert text == plain.value_text(each, compared, row), (SEED, row["id"], each.column.name)
    assert made.rows(table).to_pylist() == [plain.row_text(compared, row) for row in rows]
    keys = [plain.key_text(compared, row) for row in rows]
    assert made.keys(table).to_pylist() == keys
    assert crcs(made.keys(table)).tolist() == [leaf_of(key, LEAF_BITS) for key in keys]
    high, low = made.hashes(table)
    totals = [HashSum.of(plain.row_hash(compared, row)).total for row in rows]
    assert [(one << 32) + two for one, two in zip(high.tolist(), low.tolist(), strict=True)] == totals
    for row, text in zip(rows, made.rows(table).to_pylist(), strict=True):
        values = values_of(compared.columns, text.decode())
        assert values == tuple(plain.value_text(each, compared, row) for each in compared.columns)


def test_a_column_that_a_batch_lacks_is_null_and_other_digits_are_told() -> None:
    columns = (Column("id", "int"), Column("m", "decimal", precision=9, scale=2), Column("at", "datetime", digits=3))
    schema = TableSchema("shop", "t", columns, ("id",))
    rows = ComparedRows.of(columns, schema, Policy.declared("accept", {}, ["shop"]).of("shop", "t"))
    at = [1_000, 1_001]
    table = pa.table(
        {
            "id": pa.array([1, 2]),
            "m": pa.array([Decimal("1.5000"), Decimal("1.2345")], pa.decimal128(9, 4)),
            "at": pa.array(at, pa.timestamp("us")),
        }
    )
    assert ArrowTexts(rows).rows(table).to_pylist() == [
        b"1;1.50;1970-01-01 00:00:00.001",
        b"2;1.2345;1970-01-01 00:00:00.001001",
    ]
    assert ArrowTexts(rows).rows(table.select(["id"])).to_pylist() == [b"1;N;N", b"2;N;N"]


def _row(draw: Random, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": number,
        "small": draw.choice((-32768, 32767, 0, draw.randint(-99, 99))),
        "unsigned": _decimal(draw.choice((0, (1 << 64) - 1, draw.getrandbits(64)))),
        "bits": _decimal(draw.getrandbits(64)),
        "flag": draw.getrandbits(1),
        "price": _decimal(draw.choice((0, -1, 10**10 - 1, draw.randint(-(10**9), 10**9)))),
        "tiny": _decimal(draw.choice((0, 1, -1, draw.randint(-(10**19), 10**19)))),
        "wide": _decimal(draw.choice((0, -1, 10**65 - 1, draw.randint(-(10**64), 10**40)))),
        "f": struct.unpack("<f", struct.pack("<f", draw.choice((0.0, -0.0, 0.1, 1e-45, 3e38, draw.gauss(0, 1e6)))))[0],
        "d": draw.choice((0.0, -0.0, 1e23, 5e-324, 1.7976931348623157e308, -(2.0**-1022), _double(draw))),
        "day": draw.choice((None, -719162, 2932896, draw.randint(-9999, 99999))),
        "at": draw.choice((None, -62135596800000000, 253402300799999999, draw.randint(-(10**16), 10**16))),
        "stamp": draw.choice((None, 1_000_000, draw.randint(1, 1 << 51))),
        "lasts": draw.randint(-3020399_000000, 3020399_000000),
        "it_27s": "".join(draw.choices(TEXT, k=draw.randint(0, 9))),
        "body": "".join(draw.choices(TEXT, k=draw.randint(0, 99))),
        "blob": draw.randbytes(draw.randint(0, 99)),
        "fixed": draw.randbytes(8),
        "_invalid": draw.choice((None, {"day": "2026-02-31"}, {"at": "0000-00-00 00:00:00.000000"})),
    }
    if row["_invalid"]:
        row |= dict.fromkeys(row["_invalid"])
    return {name: None if name != "id" and draw.random() < 0.1 else value for name, value in row.items()}


def _decimal(unscaled: int) -> bytes:
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


def _double(draw: Random) -> float:
    while True:
        (value,) = struct.unpack("<d", draw.randbytes(8))
        if value == value and abs(value) != float("inf"):
            return float(value)
