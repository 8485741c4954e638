from __future__ import annotations

import datetime as dt
import io
import struct
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord, Transient
from include.lake.parsing.fields import Instant, WantedValue
from include.lake.parsing.readers.avro_fields import avro_reader
from include.log.registry.memory import MemoryRegistry

SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=200),
    "string": st.text(max_size=80),
}
SCHEMAS = st.recursive(
    st.sampled_from(sorted(SIMPLE)),
    lambda inner: st.one_of(
        inner.map(lambda items: {"type": "array", "items": items}),
        inner.map(lambda values: {"type": "map", "values": values}),
        st.lists(inner, max_size=4).map(lambda types: {"type": "record", "fields": types}),
        st.sampled_from(sorted(SIMPLE)[1:]).map(lambda other: ["null", other]),
        st.just({"type": "enum", "symbols": ["A", "B"]}),
        st.just({"type": "fixed", "size": 3}),
    ),
    max_leaves=8,
)


def named(schema: Any, prefix: str) -> Any:
    """The drawn schema with names."""
    if not isinstance(schema, dict):
        return schema
    match schema["type"]:
        case "record":
            fields = [
                {"name": f"f{i}", "type": named(each, f"{prefix}_{i}")} for i, each in enumerate(schema["fields"])
            ]
            return {"type": "record", "name": prefix, "fields": fields}
        case "enum" | "fixed":
            return {**schema, "name": prefix}
        case kind:
            below = "items" if kind == "array" else "values"
            return {"type": kind, below: named(schema[below], prefix + "_")}


def values(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of(*map(values, schema))
    if isinstance(schema, str):
        return SIMPLE[schema]
    match schema["type"]:
        case "record":
            return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})
        case "array":
            return st.lists(values(schema["items"]), max_size=3)
        case "map":
            return st.dictionaries(st.text(max_size=3), values(schema["values"]), max_size=3)
        case "enum":
            return st.sampled_from(schema["symbols"])
    return st.binary(min_size=3, max_size=3)


def written(schema: Any, value: Any, schema_id: int = 1) -> bytes:
    out = io.BytesIO(struct.pack(">bI", 0, schema_id))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(schema: Any, data: bytes, *wanted: WantedValue) -> list[Any]:
    registry = MemoryRegistry()
    registry.register("topic-value", schema)
    return list(avro_reader(wanted, registry)(data))


def record(*fields: tuple[str, Any], name: str = "Event") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


@settings(max_examples=40)
@given(before=SCHEMAS, simple=st.sampled_from(sorted(SIMPLE)), cut=st.data())
def test_a_value_is_found_between_any_others(before: Any, simple: str, cut: st.DataObject) -> None:
    inner = record(("x", named(before, "Y")), ("ts", simple), name="Inner")
    schema = record(("a", named(before, "A")), ("in", ["null", inner]), ("list", {"type": "array", "items": "Inner"}))
    value = cut.draw(values(schema["fields"][0]["type"]))
    deep = {"x": value, "ts": cut.draw(SIMPLE[simple])}
    for each in (deep, None):
        data = written(schema, {"a": value, "in": each, "list": [deep, deep]})
        found = read(
            schema, data, WantedValue(("in", "ts")), WantedValue(("list", 1, "ts")), WantedValue(("in", "none"))
        )
        assert found == [each and deep["ts"], deep["ts"], None]
        end = cut.draw(st.integers(5, len(data) - 1))
        for bad in (data[:end], data + b"\0"):
            with pytest.raises(InvalidRecord):
                read(schema, bad, WantedValue(("in", "ts")))


LOGICAL = record(
    ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
    ("us", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
    ("day", {"type": "int", "logicalType": "date"}),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    ("id", {"type": "string", "logicalType": "uuid"}),
    ("by", {"type": "map", "values": "int"}),
)
MOMENT = dt.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=dt.UTC)
LOGICAL_DATA = written(
    LOGICAL,
    {
        "ms": MOMENT,
        "us": MOMENT,
        "day": MOMENT.date(),
        "price": Decimal("-1.25"),
        "id": uuid.UUID(int=5),
        "by": {"k": 7},
    },
)


def test_timestamps_say_their_unit_themselves_where_that_is_asked() -> None:
    found = read(
        LOGICAL,
        LOGICAL_DATA,
        WantedValue(("ms",)),
        WantedValue(("ms",), instant=True),
        WantedValue(("us",), instant=True),
    )
    assert found == [1_700_000_000_123, Instant(1_700_000_000_123_000_000), Instant(1_700_000_000_123_000_000)]


def test_logical_types_become_what_names_are_made_of() -> None:
    wanted = [WantedValue((name,)) for name in ("day", "price", "id")]
    found = read(LOGICAL, LOGICAL_DATA, *wanted, WantedValue(("by", "k")), WantedValue(("by", "none")))
    assert found == ["2023-11-14", Decimal("-1.25"), str(uuid.UUID(int=5)), 7, None]


def test_named_types_are_found_by_name_and_may_hold_themselves() -> None:
    node = record(("ts", "long"), ("next", ["null", "shop.Node"]), ("last", ["null", "shop.Node"]), name="shop.Node")
    value: Any = None
    for number in range(5):
        value = {"ts": number, "next": value, "last": None}
    data = written(node, value)
    assert read(node, data, WantedValue(("ts",)), WantedValue(("next", "next", "ts")), WantedValue(("last", "ts"))) == [
        4,
        2,
        None,
    ]


def test_types_may_be_written_inside_of_types_and_used_again_by_name() -> None:
    fixed = {"type": "fixed", "name": "Three", "size": 3}
    inner = record(("x", "string"), ("f", fixed), name="Inner")
    schema = record(("in", inner), ("g", "Three"), ("either", ["null", "Inner"]), ("ts", "long"))
    wrapped = record(
        ("in", {"type": record(("x", {"type": {"type": "string"}}), ("f", fixed), name="Inner")}),
        ("g", "Three"),
        ("either", {"type": ["null", "Inner"]}),
        ("ts", {"type": {"type": "long"}}),
    )
    value = {"in": {"x": "a", "f": b"abc"}, "g": b"def", "either": {"x": "b", "f": b"ghi"}, "ts": 5}
    paths = [("ts",), ("g",), ("in", "f"), ("either", "x"), ("in", "x")]
    for each in (schema, wrapped, {"type": wrapped}):
        found = read(each, written(schema, value), *(WantedValue(path) for path in paths))
        assert found == [5, b"def", b"abc", "b", "a"]
    assert read({"type": ["null", wrapped]}, b"\0\0\0\0\1\0", WantedValue(("ts",))) == [None]


def test_fields_come_and_go_with_the_schema_that_wrote_the_message() -> None:
    registry = MemoryRegistry()
    old = record(("ts", "long"))
    new = record(("ts", "long"), ("country", ["null", "string"]))
    ids = [registry.register(f"{i}-value", schema) for i, schema in enumerate((old, new))]
    reader = avro_reader([WantedValue(("ts",)), WantedValue(("country",))], registry)
    assert list(reader(written(old, {"ts": 1}, ids[0]))) == [1, None]
    assert list(reader(written(new, {"ts": 2, "country": "de"}, ids[1]))) == [2, "de"]


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\1\0\0\0\1\2", b"\0\0\0\0\7\2", b"{}"])
def test_other_bytes_and_unknown_schemas_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        read(record(("ts", "long")), data, WantedValue(("ts",)))


def test_a_registry_that_does_not_answer_is_no_fault_of_the_message() -> None:
    class Down(MemoryRegistry):
        def schema(self, schema_id: int) -> dict[str, Any]:
            raise Transient("down", system="registry")

    with pytest.raises(Transient):
        avro_reader([WantedValue(("ts",))], Down())(b"\0\0\0\0\1\2")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ({"type": "array", "items": "null"}, "feffffffffffffff7f"),
        ({"type": "array", "items": "null"}, "fffffffffffffffff901"),
        ("string", "01"),
        ("string", "feffffffff7f"),
        ("bytes", "03"),
        ("long", "ff" * 11),
        (["null", "long"], "01"),
        (["null", "long"], "04"),
    ],
)
@pytest.mark.parametrize("field", ["x", "ts"])
def test_lengths_counts_and_branches_that_cannot_be_are_refused(kind: Any, body: str, field: str) -> None:
    schema = record(("x", kind), ("ts", "long")) if field == "ts" else record(("x", kind))
    with pytest.raises(InvalidRecord):
        read(schema, b"\0\0\0\0\1" + bytes.fromhex(body), WantedValue((field,)))


def test_a_wanted_symbol_that_an_enum_lacks_is_refused() -> None:
    schema = record(("level", {"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}))
    assert read(schema, b"\0\0\0\0\1\2", WantedValue(("level",))) == ["HIGH"]
    for body in (b"\4", b"\1"):
        with pytest.raises(InvalidRecord):
            read(schema, b"\0\0\0\0\1" + body, WantedValue(("level",)))


def test_messages_nested_beyond_reason_are_refused() -> None:
    node = record(("next", ["null", "Node"]), name="Node")
    with pytest.raises(InvalidRecord):
        read(record(("n", node), ("ts", "long")), b"\0\0\0\0\1" + b"\2" * 100_000, WantedValue(("ts",)))


def test_a_message_has_no_more_values_without_bytes_than_a_record_may() -> None:
    schema = record(("x", {"type": "array", "items": {"type": "array", "items": "null"}}), ("ts", "long"))
    inner = b"\xc0\x3e\0"
    assert read(schema, b"\0\0\0\0\1\2\2\0\0\2", WantedValue(("ts",))) == [1]
    with pytest.raises(InvalidRecord, match="too many values without bytes"):
        read(schema, b"\0\0\0\0\1" + b"\xc0\x3e" + inner * 4_000 + b"\0\2", WantedValue(("ts",)))


@pytest.mark.parametrize("levels", [100, 300, 5_000])
def test_a_schema_of_any_depth_is_read_or_refused(levels: int) -> None:
    deep: Any = "long"
    for level in range(levels):
        deep = record(("n", deep), name=f"R{level}")

    class Deep(MemoryRegistry):
        def schema(self, schema_id: int) -> dict[str, Any]:
            return record(("x", deep), ("ts", "long"))

    reader = avro_reader([WantedValue(("ts",))], Deep())
    if levels == 100:
        assert list(reader(b"\0\0\0\0\1\2\4")) == [2]
    else:
        with pytest.raises(InvalidRecord):
            reader(b"\0\0\0\0\1\2\4")


def test_a_wanted_container_is_refused() -> None:
    with pytest.raises(InvalidRecord, match=r"container|map"):
        read(LOGICAL, LOGICAL_DATA, WantedValue(("by",)))
