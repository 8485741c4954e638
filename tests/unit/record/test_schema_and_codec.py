"""Tables as Avro, and rows that survive the way to bytes and back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import InvalidRecord, Terminal
from include.record.change import Change, SourceBlock, TransactionBlock
from include.record.codec import Decoder, Encoder, frame, unframe
from include.record.schema import Column, TableSchema, avro_name

# From the year 1 to the year 9999, as Python's dates and MySQL's.
DAY, MICRO = (-719_162, 2_932_896), (-62_135_596_800_000_000, 253_402_300_799_999_999)
TEXT = st.text("abä€😀\x00'\"\\", max_size=12)
KINDS: dict[str, tuple[Column, st.SearchStrategy[Any]]] = {
    column.name: (column, values)
    for column, values in [
        (Column("id", "int"), st.integers(-(1 << 31), (1 << 31) - 1)),
        (Column("tiny", "tinyint", unsigned=True), st.integers(0, 255)),
        (Column("wide", "int", unsigned=True), st.integers(0, (1 << 32) - 1)),
        (Column("big", "bigint"), st.integers(-(1 << 63), (1 << 63) - 1)),
        (Column("huge", "bigint", unsigned=True), st.integers(0, (1 << 64) - 1).map(Decimal)),
        (Column("price", "decimal", precision=12, scale=2), st.decimals(-(10**9), 10**9, places=2)),
        (Column("real", "double"), st.floats(allow_nan=False)),
        (Column("single", "float"), st.floats(allow_nan=False, width=32)),
        (Column("name", "varchar"), TEXT),
        (Column("state", "enum", labels=("a", "b")), st.sampled_from("ab")),
        (Column("raw", "varbinary"), st.binary(max_size=20)),
        (Column("day", "date"), st.integers(*DAY)),
        (Column("moment", "datetime"), st.integers(*MICRO)),
        (Column("stamp", "timestamp"), st.integers(*MICRO)),
        (Column("span", "time"), st.integers(-(10**13), 10**13)),
        (Column("doc", "json"), TEXT),
    ]
}
TABLE = TableSchema("shop", "all", tuple(column for column, _ in KINDS.values()), ("id",))
SCHEMA = TABLE.envelope_avro("one")
SOURCE = SourceBlock("1", "one", "shop", "all", 7, "bin.000001", 99, 3, 1_700_000_000_000_001, gtid="0-1-2", thread=4)
INVALID = {TABLE.invalid_field: st.none() | st.dictionaries(TEXT, TEXT, max_size=2)}
rows = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in KINDS.items()} | INVALID)


@given(rows, rows, st.sampled_from(["c", "u", "d", "r"]), st.booleans())
def test_a_change_survives_the_way_through_the_log(a: Any, b: Any, op: Any, in_transaction: bool) -> None:
    change = Change(
        op,
        b if op in "ud" else None,
        a if op != "d" else None,
        SOURCE,
        1_700_000_000_000_007,
        TransactionBlock("0-1-2", 4, 2) if in_transaction else None,
    )
    data = Encoder(12, SCHEMA)(change.envelope())
    assert Change.from_envelope(Decoder(lambda _: SCHEMA)(data)) == change
    assert Encoder(12, SCHEMA)(change.envelope()) == data
    assert change.row == (a if op != "d" else b)


def test_an_envelope_has_debeziums_times() -> None:
    envelope = Change("c", None, {"id": 1}, SOURCE, 1_234_567).envelope()
    assert (envelope["ts_ms"], envelope["ts_us"], envelope["ts_ns"]) == (1234, 1_234_567, 1_234_567_000)
    assert envelope["source"]["ts_ms"] == 1_700_000_000_000


def test_an_older_debezium_envelope_is_read_by_its_milliseconds() -> None:
    block = {name: getattr(SOURCE, name) for name in SourceBlock.__dataclass_fields__ if name != "ts_us"}
    value = {"op": "c", "before": None, "after": {"id": 1}, "source": block | {"ts_ms": 5, "extra": 1}, "ts_ms": 6}
    change = Change.from_envelope(value)
    assert (change.source.ts_us, change.ts_us, change.transaction) == (5000, 6000, None)


def test_a_change_without_an_image_names_no_row() -> None:
    with pytest.raises(ValueError, match="image"):
        assert Change("c", None, None, SOURCE, 0).row


def test_keys_are_not_nullable_and_stand_in_key_order() -> None:
    table = TableSchema("shop", "t", (Column("a", "int"), Column("b", "varchar")), ("b", "a"))
    schema = table.key_avro("one")
    assert [(f["name"], f["type"]) for f in schema["fields"]] == [("b", "string"), ("a", "int")]
    with pytest.raises(InvalidRecord):
        Encoder(1, schema)({"b": None, "a": 1})


def test_a_key_must_be_of_the_tables_columns() -> None:
    for key in ((), ("none",)):
        with pytest.raises(Terminal, match=r"shop\.t"):
            TableSchema("shop", "t", (Column("a", "int"),), key)


def test_a_type_that_is_not_read_names_the_column_and_what_to_do() -> None:
    with pytest.raises(Terminal, match="Drop the table in") as refused:
        Column("area", "hypercube").avro()
    assert (refused.value.details["column"], refused.value.details["type"]) == ("area", "hypercube")


def test_only_tables_with_dates_have_a_field_for_those_of_no_calendar() -> None:
    plain = TableSchema("d", "t", (Column("a", "int"), Column("b", "time")), ("a",))
    dated = TableSchema("d", "t", (Column("_invalid", "int"), Column("b", "date")), ("_invalid",))
    assert plain.invalid_field == ""
    assert dated.invalid_field == "_invalid_"


def test_the_fingerprint_changes_with_columns_and_key_and_with_nothing_else() -> None:
    a, b = Column("a", "int"), Column("b", "int")
    found = {
        TableSchema("d", "t", columns, key).fingerprint
        for columns, key in [((a, b), ("a",)), ((b, a), ("a",)), ((a, b), ("b",)), ((a, Column("b", "bigint")), ("a",))]
    }
    assert len(found) == 4
    assert TableSchema("x", "y", (a, b), ("a",)).fingerprint in found


def test_columns_are_found_by_name() -> None:
    assert TABLE.column("price").scale == 2
    with pytest.raises(KeyError):
        TABLE.column("none")


@pytest.mark.parametrize(
    ("name", "avro"), [("order_id", "order_id"), ("1st", "_1st"), ("a-b", "a_2db"), ("ü", "_c3_bc"), ("_x9", "_x9")]
)
def test_names_that_avro_refuses_are_escaped(name: str, avro: str) -> None:
    assert avro_name(name) == avro


@given(st.integers(0, (1 << 32) - 1), st.binary())
def test_the_wire_format_names_the_schema(schema_id: int, body: bytes) -> None:
    found, rest = unframe(frame(schema_id, body))
    assert (found, bytes(rest)) == (schema_id, body)


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x00", b"\x01\x00\x00\x00\x01x", b'{"a":1}'])
def test_bytes_in_another_format_are_an_invalid_record(data: bytes) -> None:
    with pytest.raises(InvalidRecord, match="wire format"):
        Decoder(lambda _: {"type": "string"})(data)


def test_bytes_that_are_too_short_or_too_long_are_an_invalid_record() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    data = Encoder(1, schema)({"a": "text"})
    decode = Decoder(lambda _: schema)
    assert decode(data) == {"a": "text"}
    with pytest.raises(InvalidRecord, match="not what its schema"):
        decode(data[:-1])
    with pytest.raises(InvalidRecord, match="longer"):
        decode(data + b"x")


def test_a_value_that_does_not_fit_is_an_invalid_record() -> None:
    encode = Encoder(1, SCHEMA)
    envelope = Change("c", None, {"id": 1}, SOURCE, 0).envelope()
    for wrong in ({"id": "x"}, {"id": 1 << 31}, {"price": Decimal("1.234")}, {"name": 5}):
        with pytest.raises(InvalidRecord, match="does not fit"):
            encode(envelope | {"after": wrong})


def test_schemas_are_looked_up_once() -> None:
    asked: list[int] = []

    def lookup(schema_id: int) -> str:
        asked.append(schema_id)
        return '{"type": "string"}'

    decode = Decoder(lookup)
    data = Encoder(5, {"type": "string"})("x")
    assert [decode(data), decode(data)] == ["x", "x"]
    assert asked == [5]


def test_a_union_is_read_in_the_form_in_which_a_registry_hands_it_out() -> None:
    decode = Decoder(lambda _: {"type": ["null", "long"]})
    assert [decode(frame(1, body)) for body in (b"\x00", b"\x02\x54")] == [None, 42]


@pytest.mark.parametrize("schema", ['{"type": "object", "properties": {}}', "syntax = proto3", '{"fields": []}'])
def test_a_schema_that_is_not_avro_makes_its_records_invalid(schema: str) -> None:
    with pytest.raises(InvalidRecord, match="schema is not Avro's"):
        Decoder(lambda _: schema)(frame(1, b""))


def test_a_value_that_ends_early_is_refused_in_the_same_words_each_time() -> None:
    decode = Decoder(lambda _: "long")
    said = set()
    for _ in range(2):
        with pytest.raises(InvalidRecord) as caught:
            decode(frame(1, b""))
        said.add(str(caught.value))
    assert len(said) == 1
