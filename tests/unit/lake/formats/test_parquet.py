"""Parquet: every Avro type has its column and comes back; groups are bounded; equal input, equal bytes."""

from __future__ import annotations

import datetime as dt
import gc
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from include.errors import InvalidRecord, Terminal
from include.lake.formats.arrow_columns import columns_of
from include.lake.formats.parquet import Parquet, ParquetOptions
from include.lake.formats.port import FileIdentity
from include.lake.message import Message
from include.record.codec import frame

IDENTITY = FileIdentity("logs", "topicid", 2, 40, ("dt=2026-01-02", "schema=7"))
UTC = dt.UTC
UUID = "550e8400-e29b-41d4-a716-446655440000"


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Log", "namespace": "a", "fields": [{"name": n, "type": t} for n, t in fields]}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def format_of(schema: Mapping[str, Any], **options: Any) -> Parquet:
    return Parquet(ParquetOptions(**options), lambda _: schema)


def message(schema: Any, value: Any, offset: int = 0, key: bytes | None = None, at: int = -1) -> Message:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return Message(offset, key, frame(7, body.getvalue()), (), at)


def file_of(format_: Parquet, batches: Sequence[Sequence[Message]]) -> bytes:
    stream = io.BytesIO()
    writer = format_.open(stream, IDENTITY)
    sizes = [writer.bytes_so_far]
    for batch in batches:
        writer.write(batch)
        sizes.append(writer.bytes_so_far)
    closed = writer.close()
    data = stream.getvalue()
    assert sizes == sorted(sizes)
    assert (closed.records, closed.bytes) == (sum(map(len, batches)), len(data))
    assert closed.sha256 == hashlib.sha256(data).hexdigest()
    return data


def table(schema: Any, values: Sequence[Any], **options: Any) -> pa.Table:
    return pq.read_table(io.BytesIO(file_of(format_of(schema, **options), [[message(schema, v) for v in values]])))


TYPES: list[tuple[Any, pa.DataType, Any, Any]] = [
    ("boolean", pa.bool_(), True, True),
    ("int", pa.int32(), -5, -5),
    ("long", pa.int64(), 2**62, 2**62),
    ("float", pa.float32(), 1.5, 1.5),
    ("double", pa.float64(), 0.1, 0.1),
    ("string", pa.string(), "é", "é"),
    ("bytes", pa.binary(), b"\xff", b"\xff"),
    ({"type": "fixed", "name": "F", "size": 3}, pa.binary(3), b"abc", b"abc"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.string(), "B", "B"),
    ({"type": "array", "items": "long"}, pa.list_(pa.field("item", pa.int64(), False)), [1, 2], [1, 2]),
    (logical("bytes", "decimal", precision=9, scale=2), pa.decimal128(9, 2), Decimal("-12.34"), Decimal("-12.34")),
    (logical("bytes", "decimal", precision=60), pa.decimal256(60, 0), Decimal(10**59), Decimal(10**59)),
    (logical("int", "date"), pa.date32(), dt.date(2026, 1, 2), dt.date(2026, 1, 2)),
    (logical("int", "time-millis"), pa.time32("ms"), dt.time(1, 2, 3, 4000), dt.time(1, 2, 3, 4000)),
    (logical("long", "time-micros"), pa.time64("us"), dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4)),
    (
        logical("long", "timestamp-millis"), pa.timestamp("ms", "UTC"),
        dt.datetime(2026, 1, 2, tzinfo=UTC), dt.datetime(2026, 1, 2, tzinfo=UTC),
    ),
    (
        logical("long", "timestamp-micros"), pa.timestamp("us", "UTC"),
        dt.datetime(2026, 1, 2, tzinfo=UTC), dt.datetime(2026, 1, 2, tzinfo=UTC),
    ),
    (logical("long", "local-timestamp-micros"), pa.timestamp("us"), dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 2)),
    (logical("string", "uuid"), pa.string(), UUID, UUID),
]  # fmt: skip


@pytest.mark.parametrize(("avro", "arrow", "value", "expected"), TYPES)
def test_every_type_has_its_column_and_comes_back(avro: Any, arrow: pa.DataType, value: Any, expected: Any) -> None:
    schema = record(("a", avro), ("b", ["null", avro if isinstance(avro, str) else "string"]))
    found = table(schema, [{"a": value, "b": None}])
    assert found.schema.field("a").type == arrow
    assert not found.schema.field("a").nullable
    assert found.schema.field("b").nullable
    assert found.to_pylist() == [{"a": expected, "b": None}]


def test_nested_types_come_back() -> None:
    inner = {
        "type": "record",
        "name": "In",
        "fields": [{"name": "d", "type": logical("bytes", "decimal", precision=4)}],
    }
    schema = record(
        ("one", inner),
        ("again", ["null", "In"]),
        ("many", {"type": "array", "items": ["null", "a.In"]}),
        ("map", {"type": "map", "values": "In"}),
        ("plain", {"type": "map", "values": "long"}),
    )
    value = {"d": Decimal(7)}
    given_value = {"one": value, "again": value, "many": [value, None], "map": {"k": value}, "plain": {"z": 1, "a": 2}}
    expected = given_value | {"map": [("k", value)], "plain": [("z", 1), ("a", 2)]}
    assert table(schema, [given_value, given_value | {"again": None}]).to_pylist() == [
        expected,
        expected | {"again": None},
    ]


def test_names_lead_to_their_types_through_namespaces() -> None:
    size = {"type": "fixed", "name": "Size", "namespace": "c", "size": 2}
    inner = {"type": "record", "name": "b.In", "fields": [{"name": "s", "type": size}, {"name": "t", "type": "c.Size"}]}
    again = {"type": "record", "name": "Other", "namespace": "b", "fields": [{"name": "in", "type": "In"}]}
    schema = record(("one", inner), ("two", again), ("three", {"type": "array", "items": "b.In"}), ("none", ["null"]))
    value = {"s": b"ab", "t": b"cd"}
    given_value = {"one": value, "two": {"in": value}, "three": [value], "none": None}
    assert table(schema, [given_value]).to_pylist() == [given_value]


def test_nulls_within_records_that_are_converted_stay() -> None:
    decimal = ["null", logical("bytes", "decimal", precision=4, scale=2)]
    inner = {"type": "record", "name": "In", "fields": [{"name": "d", "type": decimal}, {"name": "e", "type": decimal}]}
    values = [{"in": {"d": None, "e": Decimal("1.25")}}, {"in": {"d": Decimal("0.01"), "e": None}}]
    assert table(record(("in", inner)), values).to_pylist() == values


def test_a_union_of_several_is_a_struct_with_a_member_each() -> None:
    schema = record(("u", ["null", "long", "string", logical("bytes", "decimal", precision=4, scale=1)]))
    found = table(schema, [{"u": 5}, {"u": "x"}, {"u": None}, {"u": Decimal("1.5")}])
    empty = {"long": None, "string": None, "bytes": None}
    assert [row["u"] for row in found.to_pylist()] == [
        empty | {"long": 5}, empty | {"string": "x"}, None, empty | {"bytes": Decimal("1.5")},
    ]  # fmt: skip


@pytest.mark.parametrize("value", [7, [1], None])
def test_a_schema_that_is_no_record_is_one_column(value: Any) -> None:
    schemas: dict[Any, Any] = {
        int: {"type": "long"},
        list: {"type": "array", "items": "int"},
        type(None): {"type": "null"},
    }
    assert table(schemas[type(value)], [value]).to_pylist() == [{"value": value}]


def test_a_map_alone_is_one_column() -> None:
    assert table({"type": "map", "values": "int"}, [{"a": 1}]).to_pylist() == [{"value": [("a", 1)]}]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (record(("next", ["null", "Log"])), "contains itself"),
        (record(), "without fields"),
        (record(("u", ["int", "long"])), "look alike"),
        (record(("u", "Nowhere")), "not defined"),
    ],
)
def test_schemas_that_have_no_columns_are_refused_with_their_place(schema: Any, reason: str) -> None:
    with pytest.raises(InvalidRecord, match=reason) as caught:
        columns_of(schema)
    assert "container" in caught.value.fix


def test_messages_of_a_schema_without_columns_are_set_aside() -> None:
    schema = record(("next", ["null", "Log"]))
    assert "contains itself" in format_of(schema).refuses(message(schema, {"next": None}))
    with pytest.raises(Terminal, match="contains itself"):
        format_of(schema).open(io.BytesIO(), IDENTITY)


NUMBERS = record(("n", "int"), ("s", "string"), ("d", logical("bytes", "decimal", precision=2)))


def test_values_that_do_not_fit_their_columns_are_refused() -> None:
    format_ = format_of(NUMBERS)
    assert format_.refuses(Message(0, None, frame(7, b"\x02\x02x\x02\x05"))) == ""
    assert "32 bits" in format_.refuses(Message(0, None, frame(7, b"\x80\x80\x80\x80\x40\x02x\x02\x05")))
    assert "more digits" in format_.refuses(Message(0, None, frame(7, b"\x02\x02x\x02\x64")))
    assert "tombstone" in format_.refuses(Message(0, None, None))


WIDE = record(
    ("n", ["null", "int", "string"]),
    ("days", {"type": "array", "items": logical("int", "date")}),
    ("map", {"type": "map", "values": {"type": "record", "name": "In", "fields": [{"name": "n", "type": "int"}]}}),
    ("d", ["null", logical("bytes", "decimal", precision=3, scale=1)]),
    ("time", logical("int", "time-millis")),
    ("long", "long"),
)


def longs(schema: Any) -> Any:
    """The schema with longs for ints and bytes for decimals: it writes what a broken producer might."""
    text = json.dumps(schema).replace('"int"', '"long"').replace('"logicalType"', '"was"')
    return json.loads(text)


number = st.integers(-(2**31), 2**31 - 1) | st.integers(-(2**63), 2**63 - 1)
few = st.integers(-5, 5) | number


@settings(max_examples=60)
@given(
    st.fixed_dictionaries(
        {
            "n": st.none() | few | st.text(max_size=3),
            "days": st.lists(few, max_size=2),
            "map": st.dictionaries(st.text(max_size=2), st.fixed_dictionaries({"n": few}), max_size=2),
            "d": st.none() | st.binary(max_size=2),
            "time": few,
            "long": number,
        }
    )
)
def test_exactly_what_fits_its_columns_is_not_refused_and_can_be_written(value: dict[str, Any]) -> None:
    sent = message(longs(WIDE), value)
    ints = [value["time"], *value["days"], *(inner["n"] for inner in value["map"].values())]
    ints += [value["n"]] if isinstance(value["n"], int) else []
    unscaled = int.from_bytes(value["d"] or b"", "big", signed=True)
    fits = all(-(2**31) <= n < 2**31 for n in ints) and abs(unscaled) < 1000
    assert (format_of(WIDE).refuses(sent) == "") == fits
    if fits:
        (read,) = format_of(WIDE).read(io.BytesIO(file_of(format_of(WIDE), [[sent]])))
        assert json.loads(read.value or b"")["long"] == value["long"]


LOG = record(("id", "long"), ("text", ["null", "string"]), ("at", logical("long", "timestamp-millis")))


def log(i: int, text: str | None = "t", key: bytes | None = b"k", at: int = 5) -> Message:
    value = {"id": i, "text": text, "at": dt.datetime(2026, 1, 2, tzinfo=UTC)}
    return message(LOG, value, offset=i, key=key, at=at)


@settings(max_examples=15)
@given(st.lists(st.none() | st.text(max_size=20), max_size=30), st.integers(0, 30), st.sampled_from([1, 60, 1 << 20]))
def test_bytes_do_not_depend_on_batches_and_rows_come_back(
    texts: list[str | None], cut: int, row_group_bytes: int
) -> None:
    messages = [log(i, text) for i, text in enumerate(texts)]
    format_ = format_of(LOG, row_group_bytes=row_group_bytes, coordinates=True)
    data = file_of(format_, [messages])
    assert file_of(format_, [messages[:cut], messages[cut:]]) == data
    read = list(format_.read(io.BytesIO(data)))
    assert [each._replace(value=None) for each in read] == [each._replace(value=None) for each in messages]
    assert [json.loads(each.value or b"")["text"] for each in read] == texts


def test_row_groups_end_where_their_bytes_are_reached() -> None:
    data = file_of(format_of(LOG, row_group_bytes=200), [[log(i, "x" * 30) for i in range(40)]])
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    size = len(log(3, "x" * 30).value or b"")
    assert {metadata.row_group(i).num_rows for i in range(metadata.num_row_groups - 1)} == {-(-200 // size)}


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
def test_every_compression_is_readable_and_equal_from_run_to_run(compression: str) -> None:
    messages = [log(i) for i in range(100)]
    data = file_of(format_of(LOG, compression=compression), [messages])
    assert file_of(format_of(LOG, compression=compression), [messages]) == data
    assert pq.read_table(io.BytesIO(data))["id"].to_pylist() == list(range(100))


def test_coordinates_are_columns_where_they_are_asked_for() -> None:
    messages = [log(5, key=None, at=-1), log(7, key=b"\xff", at=0)]
    found = pq.read_table(io.BytesIO(file_of(format_of(LOG, coordinates=True), [messages])))
    assert found.column_names == ["_offset", "_timestamp_ms", "_key", "id", "text", "at"]
    assert found.select(["_offset", "_timestamp_ms", "_key"]).to_pylist() == [
        {"_offset": 5, "_timestamp_ms": None, "_key": None},
        {"_offset": 7, "_timestamp_ms": 0, "_key": b"\xff"},
    ]
    plain = format_of(LOG)
    assert [each.offset for each in plain.read(io.BytesIO(file_of(plain, [messages])))] == [-1, -1]


def test_fields_named_like_coordinates_stand_only_without_them() -> None:
    schema = record(("_key", "int"))
    assert "coordinate" in format_of(schema, coordinates=True).refuses(message(schema, {"_key": 1}))
    assert table(schema, [{"_key": 1}]).to_pylist() == [{"_key": 1}]


def test_rows_are_json_with_numbers_for_times_that_no_calendar_has() -> None:
    schema = record(
        ("at", logical("long", "timestamp-micros")),
        ("day", {"type": "array", "items": logical("int", "date")}),
        ("map", {"type": "map", "values": logical("long", "time-micros")}),
        ("in", {"type": "record", "name": "In", "fields": [{"name": "t", "type": logical("int", "time-millis")}]}),
        ("d", logical("bytes", "decimal", precision=4, scale=2)),
        ("b", "bytes"),
    )
    body = b"".join(
        (b"\xfe" + b"\xff" * 8 + b"\x01", b"\x02\x02\0", b"\x02\x02k\x04\0", b"\x06", b"\x02\x05", b"\x02\xff")
    )
    sent = Message(0, None, frame(7, body))
    format_ = format_of(schema)
    assert format_.refuses(sent) == ""
    (read,) = format_.read(io.BytesIO(file_of(format_, [[sent]])))
    assert json.loads(read.value or b"") == {
        "at": 2**63 - 1, "day": [1], "map": [["k", 2]], "in": {"t": 3}, "d": "0.05", "b": {"base64": "/w=="},
    }  # fmt: skip


def test_a_file_without_messages_has_its_columns() -> None:
    data = file_of(format_of(LOG), [])
    assert pq.read_table(io.BytesIO(data)).column_names == ["id", "text", "at"]
    assert list(format_of(LOG).read(io.BytesIO(data))) == []


def test_the_file_names_its_schema() -> None:
    metadata = pq.read_schema(io.BytesIO(file_of(format_of(LOG), [[log(1)]]))).metadata
    assert metadata[b"lyrebird.schema_id"] == b"7"
    assert json.loads(metadata[b"lyrebird.avro_schema"]) == LOG


def test_damage_is_named() -> None:
    data = file_of(format_of(LOG), [[log(1)]])
    for broken in (data[:-1], b"", data[4:], data[:40] + b"\xff" * 40 + data[80:]):
        with pytest.raises(Terminal, match="damaged"):
            list(format_of(LOG).read(io.BytesIO(broken)))


def test_a_value_that_nobody_asked_about_stops_the_writer() -> None:
    other = Message(12, None, frame(9, b""))
    with pytest.raises(Terminal) as refused:
        file_of(format_of(LOG), [[log(1), other]])
    assert refused.value.details["offset"] == 12
    with pytest.raises(Terminal) as refused:
        file_of(format_of(LOG), [[other]])
    assert refused.value.details["offset"] == 12


def test_a_writer_that_is_dropped_writes_no_more() -> None:
    stream = io.BytesIO()
    writer = format_of(LOG, row_group_bytes=1).open(stream, IDENTITY)
    writer.write([log(1)])
    written = stream.getvalue()
    del writer
    gc.collect()
    assert stream.getvalue() == written
    assert not written.endswith(b"PAR1")


def test_names_and_versions() -> None:
    assert format_of(LOG).names(log(1)) == ("schema=7",)
    assert format_of(LOG, schema_id=7).names(log(1)) == ()
    assert format_of(LOG).extension == ".parquet"
    assert format_of(LOG).versions == {"pyarrow": pa.__version__}
    with pytest.raises(ValidationError, match="no levels"):
        ParquetOptions(compression="snappy", level=3)
