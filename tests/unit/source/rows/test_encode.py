"""Envelopes put together from bytes, read back by fastavro."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from include.record.change import Change, SourceBlock, TransactionBlock
from include.record.codec import Decoder
from include.record.key import partition_of
from include.record.schema import Column, TableSchema
from include.source.rows.avro import long_piece, sized
from include.source.rows.encode import Stamp, TableEncoder
from include.source.rows.shape import EncodedImage

SCHEMA = TableSchema("shop", "t", (Column("id", "int"), Column("v", "varchar")), ("id",))
ENVELOPE = SCHEMA.envelope_avro("s")
KEY = SCHEMA.key_avro("s")
longs = st.integers(0, 2**62)
texts = st.text(max_size=20)


def image(number: int, text: str | None, by: bytes | None = None) -> EncodedImage:
    piece = b"\0" if text is None else b"\x02" + sized(text.encode())
    return EncodedImage(long_piece(number) + piece, long_piece(number)[1:], by)


def encoder(partitions: int = 4) -> TableEncoder:
    return TableEncoder("s", SCHEMA, 5, 6, partitions)


@given(
    op=st.sampled_from("cudr"),
    server=st.integers(0, 2**32 - 1),
    file=texts,
    pos=longs,
    commit_us=st.integers(0, 2**53),
    gtid=st.none() | texts,
    thread=st.none() | longs,
    query=st.none() | texts,
    row=st.integers(0, 2**31 - 2),
    of_table=st.integers(1, 2**40),
)
def test_an_envelope_says_what_a_change_says(
    op: str,
    server: int,
    file: str,
    pos: int,
    commit_us: int,
    gtid: str | None,
    thread: int | None,
    query: str | None,
    row: int,
    of_table: int,
) -> None:
    snapshot = "true" if op == "r" else None
    stamp = Stamp(
        server_id=server,
        file=file,
        pos=pos,
        commit_us=commit_us,
        made_us=commit_us + 7,
        gtid=gtid,
        snapshot=snapshot,
        thread=thread,
    )
    before = image(1, "old") if op in "ud" else None
    after = image(1, None) if op != "d" else None
    data = encoder().value(op, before, after, stamp, row, of_table, query)  # type: ignore[arg-type]
    value = Decoder(lambda _: ENVELOPE)(data)
    assert Change.from_envelope(value) == Change(
        op,  # type: ignore[arg-type]
        {"id": 1, "v": "old"} if before else None,
        {"id": 1, "v": None} if after else None,
        SourceBlock(
            version=value["source"]["version"],
            name="s",
            db="shop",
            table="t",
            server_id=server,
            file=file,
            pos=pos,
            row=row,
            ts_us=commit_us,
            gtid=gtid,
            snapshot=snapshot,
            thread=thread,
            query=query,
        ),
        commit_us + 7,
        None if gtid is None else TransactionBlock(gtid, row + 1, of_table),
    )
    assert value["source"]["ts_ns"] == commit_us * 1000
    assert value["ts_ms"] == (commit_us + 7) // 1000


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 50))
def test_a_key_is_its_schema_s_record_and_chooses_the_partition(number: int, partitions: int) -> None:
    made = encoder(partitions)
    key = made.key(image(number, "x"))
    assert Decoder(lambda _: KEY)(key) == {"id": number}
    assert made.partition(image(number, "y")) == partition_of(key, partitions)
    assert made.partition(image(number, "y", b"by")) == partition_of(b"by", partitions)


def test_a_row_moves_when_its_key_or_its_partition_s_columns_change() -> None:
    made = encoder()
    assert not made.moved(image(1, "a", b"x"), image(1, "b", b"x"))
    assert made.moved(image(1, "a", b"x"), image(2, "a", b"x"))
    assert made.moved(image(1, "a", b"x"), image(1, "a", b"y"))


@given(
    rows=st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.none() | texts, st.none() | st.binary(max_size=9))),
    gtid=st.none() | texts,
    partitions=st.integers(1, 400),
)
def test_rows_of_a_snapshot_are_encoded_together_as_each_alone(
    rows: list[tuple[int, str | None, bytes | None]], gtid: str | None, partitions: int
) -> None:
    made = encoder(partitions)
    stamp = Stamp(server_id=1, file="bin.000001", pos=4, commit_us=5, made_us=6, gtid=gtid, snapshot="true")
    images = [image(*row) for row in rows]
    expected = [(made.key(each), made.partition(each), made.value("r", None, each, stamp)) for each in images]
    assert made.snapshot(images, stamp) == expected
    made._snapshot = None
    assert made.snapshot(images, stamp) == expected
