"""Bodies, keys and changes straight from Avro's bytes, against the way through Python's values."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord, Transient
from include.record.codec import Decoder, Encoder
from include.record.extent import DEEPEST
from include.record.json import avro
from include.record.json.avro import AvroKeys, Bodies, Changes
from include.record.json.body import body_json
from include.record.key import doc_id
from include.record.native.program import LOGICAL
from include.record.schema import Column, TableSchema
from tests.support.record.random_avro import damaged, encoded, key_schema_of, ladder, long, schema_of, wire

seeds = st.integers(0, 2**64 - 1)
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
    ],
}


def outcome(way: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return way(data)
    except InvalidRecord as error:
        return str(error)


def python_key(schema: Any) -> Callable[[bytes], Any]:
    def way(data: bytes) -> str:
        fields = Decoder(lambda _: schema)(data)
        if not isinstance(fields, dict) or not fields:
            raise InvalidRecord("key is not a record of fields", reason="key", got=type(fields).__name__)
        return doc_id(fields)

    return way


def python_change(schema: Any) -> Callable[[bytes], Any]:
    def way(data: bytes) -> Any:
        value = Decoder(lambda _: schema)(data)
        return (value["op"], *(value[n] if value[n] is None else body_json(value[n]) for n in ("after", "before")))

    return way


def as_declared(schema: Any) -> Any:
    return {"type": schema} if isinstance(schema, list | str) else schema


@settings(max_examples=300)
@given(seeds)
@example(289312)  # a schema that names itself, with a block of another size than it says
def test_bodies_of_any_schema_are_equal_to_the_python_ones_and_so_are_refusals(seed: int) -> None:
    random = Random(seed)
    schema = as_declared(schema_of(random))
    bodies = Bodies(lambda _: schema)
    for _ in range(5):
        data = wire(7, encoded(random, schema if not isinstance(schema["type"], list) else schema["type"]))
        expected = outcome(lambda each: body_json(Decoder(lambda _: schema)(each)), data)
        assert outcome(bodies, data) == expected
        broken = damaged(random, data)
        expected = outcome(lambda each: body_json(Decoder(lambda _: schema)(each)), broken)
        assert outcome(bodies, broken) == expected


@settings(max_examples=300)
@given(seeds)
def test_keys_are_equal_to_the_python_ones_and_so_are_refusals(seed: int) -> None:
    random = Random(seed)
    schema = key_schema_of(random)
    keys = AvroKeys(lambda _: schema)
    for _ in range(5):
        data = wire(7, encoded(random, schema))
        for each in (data, damaged(random, data)):
            assert outcome(keys, each) == outcome(python_key(schema), each)


TABLE = TableSchema(
    "shop",
    "Orders",
    (
        Column("id", "bigint"),
        Column("total", "decimal", precision=12, scale=2),
        Column("made", "datetime"),
        Column("seen", "timestamp"),
        Column("day", "date"),
        Column("big", "bigint", unsigned=True),
        Column("raw", "varbinary"),
        Column("note", "varchar"),
        Column("rate", "double"),
        Column("u", "uuid"),
    ),
    ("id",),
)


@settings(max_examples=200)
@given(seeds)
def test_change_envelopes_are_taken_apart_as_in_python(seed: int) -> None:
    random = Random(seed)
    schema = TABLE.envelope_avro("main")
    changes = Changes(lambda _: schema)
    for odd in (0.0, 0.03):
        data = wire(7, encoded(random, schema, odd))
        for each in (data, damaged(random, data)):
            assert outcome(changes, each) == outcome(python_change(schema), each)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.decimals(-(10**9), 10**9, places=6).map(float))
@example(0.001)
@example(999_999_999.999999)
@example(123456.7)
@example(-0.0)
def test_numbers_are_written_as_orjson_writes_them(value: float) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": "double"}]}
    assert Bodies(lambda _: schema)(Encoder(1, schema)({"v": value})) == orjson.dumps({"v": value})


@pytest.mark.compiled
def test_what_is_plain_is_left_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(1)
    bodies, keys = Bodies(lambda _: schema_with_all()), AvroKeys(lambda _: TABLE.key_avro("main"))
    changes = Changes(lambda _: TABLE.envelope_avro("main"))
    for each in (bodies, keys, changes):
        monkeypatch.setattr(each._programs, "decode", _SchemaAlone(each._programs.decode.schema))
    for _ in range(50):
        assert bodies(wire(1, encoded(random, schema_with_all(), 0)))[:1] == b"{"
        assert int(keys(wire(1, encoded(random, TABLE.key_avro("main"), 0)))) >= -(2**63)
    change = {
        "before": None,
        "after": None,
        "op": "d",
        "ts_ms": None,
        "ts_us": None,
        "ts_ns": None,
        "transaction": None,
    }
    source = {
        "version": "1",
        "connector": "m",
        "name": "n",
        "ts_ms": 1,
        "db": "d",
        "server_id": 1,
        "file": "f",
        "pos": 1,
    }
    data = Encoder(1, TABLE.envelope_avro("main"))({**change, "source": {**source, "row": 0}})
    assert changes(data) == ("d", None, None)


class _SchemaAlone:
    """Knows schemas and reads nothing."""

    def __init__(self, schema: Callable[[int], Any]) -> None:
        self.schema = schema

    def __call__(self, data: bytes) -> Any:
        raise AssertionError(data)


def schema_with_all() -> dict[str, Any]:
    """A field of each type that the compiled writer knows."""
    kinds: list[Any] = ["null", "boolean", "int", "long", "double", "string", "bytes"]
    kinds += [{"type": kind, "logicalType": logical} for kind, logical in LOGICAL]
    kinds += [
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3},
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "fixed", "name": "F", "size": 16},
        {"type": "array", "items": {"type": "record", "name": "L", "fields": [{"name": "n", "type": "E"}]}},
        ["null", "L"],
    ]
    return {"type": "record", "name": "All", "fields": [{"name": f"f{i}", "type": k} for i, k in enumerate(kinds)]}


def test_a_recursive_schema_goes_the_python_way() -> None:
    schema = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
    }
    value = {"n": 1, "next": {"n": 2, "next": None}}
    assert Bodies(lambda _: schema)(Encoder(1, schema)(value)) == b'{"n":1,"next":{"n":2,"next":null}}'


def test_a_schema_that_is_too_deep_is_refused_by_its_id_whoever_reads() -> None:
    data = wire(7, bytes(DEEPEST))
    for way in (Bodies, AvroKeys, Changes, Decoder):
        with pytest.raises(InvalidRecord) as refused:
            way(lambda _: ladder(19_000))(data)
        assert (refused.value.details["schema_id"], refused.value.details["reason"]) == (7, "depth")
    assert Bodies(lambda _: ladder(DEEPEST - 2))(wire(7, bytes(DEEPEST - 2)))[:14] == b'{"f0":{"n":0},'


def test_a_record_that_is_too_deep_is_refused_before_a_reader_in_c_falls_over_it() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    for way in (Bodies, AvroKeys, Changes, Decoder):
        with pytest.raises(InvalidRecord) as refused:
            way(lambda _: node)(wire(7, long(1) * 100_000 + long(0)))
        assert refused.value.details["reason"] == "it is too deep"


@pytest.mark.parametrize("way", [Bodies, Changes, Decoder])
@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "E", "fields": []}])
def test_values_without_bytes_are_counted_over_all_blocks_of_a_record(way: Any, items: Any) -> None:
    kind = {"type": "array", "items": items}
    named = kind if items == "null" else {"type": "array", "items": "E"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "op", "type": kind}, {"name": "after", "type": named}]}
    for blocks in (long(2**62), long(2**19) * 3, long(2**20) + long(0) + long(1)):
        with pytest.raises(InvalidRecord) as refused:
            way(lambda _: schema)(wire(7, blocks + long(0) * 2))
        assert refused.value.details["reason"] == "it has too many values without bytes"
    few = wire(7, long(2) + long(1) + long(0) + long(1) + long(0))
    word = b"null" if items == "null" else b"{}"
    assert Bodies(lambda _: schema)(few) == b'{"after":[%b],"op":[%b]}' % (word, b",".join([word] * 3))


def test_types_that_double_at_each_step_are_refused_at_once() -> None:
    kind: Any = {"type": "record", "name": "T0", "fields": [{"name": n, "type": "null"} for n in "ab"]}
    fields = [{"name": "f0", "type": kind}]
    for i in range(1, 60):
        inner = [{"name": n, "type": f"T{i - 1}"} for n in "ab"]
        fields.append({"name": f"f{i}", "type": {"type": "record", "name": f"T{i}", "fields": inner}})
    with pytest.raises(InvalidRecord) as refused:
        Bodies(lambda _: {"type": "record", "name": "R", "fields": fields})(wire(7, b""))
    assert (refused.value.details["schema_id"], refused.value.details["reason"]) == (7, "empty")


@pytest.mark.compiled
def test_compiled_classes_leave_what_is_no_record_to_python() -> None:
    from include.record.json.native._avro_json import Lines, Program

    program = Program([("enum", 0, 0, (), (b'"A"', b'"B"'), ())])
    assert program.doc_id(wire(7, long(1))) is None
    assert program.change(wire(7, long(1)), (0, -1, 0)) is None
    lines = Lines(lambda _: None, lambda _: None, b"e", b"m", (0, 0))
    for begin in (0, 1, -1):
        assert lines.enter([], begin, {}, {}, set(), 0, 0, 100) == (begin, 0)


def test_a_schema_is_looked_up_once_and_its_absence_every_time() -> None:
    asked: list[int] = []

    def lookup(schema_id: int) -> dict[str, Any]:
        asked.append(schema_id)
        if schema_id == 9:
            raise InvalidRecord("no schema of this id is registered", schema_id=9)
        if asked.count(3) == 1:
            raise Transient("registry is away", system="registry")
        return ORDER

    bodies = Bodies(lookup)
    data = Encoder(3, ORDER)({"order_id": 1, "note": None, "lines": [{"b": 1.5, "a": 2.0}]})
    with pytest.raises(Transient):
        bodies(data)
    assert bodies(data) == bodies(data) == b'{"lines":[{"a":2.0,"b":1.5}],"note":null,"order_id":1}'
    for _ in range(2):
        with pytest.raises(InvalidRecord, match="no schema"):
            bodies(wire(9, b""))
    assert asked == [3, 3, 9, 9]


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x00\x00", b"\x01\x00\x00\x00\x01\x02", b'{"json": 1}'])
def test_bytes_in_another_format_are_refused(data: bytes) -> None:
    for made in (Bodies, AvroKeys, Changes):
        with pytest.raises(InvalidRecord, match="wire format"):
            made(lambda _: ORDER)(data)


def test_a_value_that_is_no_change_is_refused() -> None:
    data = Encoder(1, ORDER)({"order_id": 1, "note": None, "lines": []})
    with pytest.raises(InvalidRecord, match="change envelope"):
        Changes(lambda _: ORDER)(data)


def test_counts_that_bytes_cannot_hold_are_refused_at_once() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "long"}}]}
    with pytest.raises(InvalidRecord):
        Bodies(lambda _: schema)(wire(1, long(2**62) + b"\x02\x00"))


def test_without_the_compiled_writer_all_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = Bodies(lambda _: ORDER), AvroKeys(lambda _: TABLE.key_avro("main"))
    for name in ("body_program", "key_program"):
        monkeypatch.setattr(avro, name, lambda _schema: None)
    without = Bodies(lambda _: ORDER), AvroKeys(lambda _: TABLE.key_avro("main"))
    body = Encoder(1, ORDER)({"order_id": 2**63 - 1, "note": "ü", "lines": []})
    key = Encoder(1, TABLE.key_avro("main"))({"id": -1})
    assert with_it[0](body) == without[0](body)
    assert with_it[1](key) == without[1](key) == "-1"


@pytest.mark.compiled
@pytest.mark.parametrize(
    "steps",
    [
        [],
        [("nothing", 0, 0, (), (), ())],
        [("array", 0, 0, (0,), (), ())],
        [("int", 0, 0, (), (), ()), ("record", 0, 0, (0,), (), ())],
        [("enum", 0, 0, (), ("text",), ())],
    ],
)
def test_steps_that_are_none_are_refused(steps: Any) -> None:
    from include.record.json.native._avro_json import Program

    with pytest.raises((KeyError, TypeError, ValueError)):
        Program(steps)
