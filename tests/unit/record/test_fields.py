"""Records' fields as bytes: the compiled way against the plain one, and both against fastavro."""

from __future__ import annotations

import copy
import io
from random import Random
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.record.extent import DEEPEST
from include.record.fields import EnvelopeFields, Fields, _definitions
from include.record.references import whole_avro
from include.record.schema import Column, TableSchema
from tests.support.record.random_avro import HOSTILE, damaged, doubling, encoded, ladder, long, schema_of

seeds = st.integers(0, 2**64 - 1)
TABLE = TableSchema(
    "shop",
    "orders",
    (Column("id", "bigint"), Column("at", "datetime"), Column("state", "varchar"), Column("price", "decimal")),
    ("id",),
)
ENVELOPE = TABLE.envelope_avro("main")
TREE: Any = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "n", "type": "int"}, {"name": "below", "type": {"type": "array", "items": "Tree"}}],
}


NOTHING = {"type": "record", "name": "Nothing", "fields": [{"name": n, "type": "null"} for n in "ab"]}


def record(*types: Any) -> Any:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{i}", "type": each} for i, each in enumerate(types)],
    }


def physical(schema: Any) -> Any:
    """Without logical types, which fields are not looked at for."""
    if isinstance(schema, list):
        return [physical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("logicalType", "precision", "scale")}
    for part in ("items", "values", "type"):
        if part in kept:
            kept[part] = physical(kept[part])
    if "fields" in kept:
        kept["fields"] = [{**field, "type": physical(field["type"])} for field in kept["fields"]]
    return kept


def read(schema: Any, data: bytes) -> Any:
    """What fastavro reads of the bytes; all of them, or it is an error."""
    stream = io.BytesIO(data)
    value = fastavro.schemaless_reader(stream, schema, None)
    if stream.tell() != len(data):
        raise ValueError("trailing bytes")
    return value


def outcome(way: Any, *arguments: Any) -> Any:
    try:
        return way(*arguments)
    except InvalidRecord:
        return "refused"


def borders(fields: Fields, data: bytes) -> Any:
    """What both ways say of the bytes, which is the same."""
    plain = outcome(fields._plain.borders, data, 0, len(data))
    assert outcome(fields.borders, data) == plain
    if fields._native is not None:
        assert (fields._native.borders(data, 0, len(data)) or "refused") == plain
    return plain


def check(schema: Any, fields: Fields, data: bytes) -> bool:
    """Whether the record is taken; if so fastavro reads the parts as it reads the whole."""
    found = borders(fields, data)
    if found == "refused":
        return False
    whole = read(fields.schema, data)
    named = {each["name"]: each for each in _definitions(fields.schema)}
    parts = fields.cut(data, tuple(range(len(fields.names))))
    assert b"".join(parts) == data
    assert parts == fields._plain.cut(data, tuple(range(len(fields.names))), 0, len(data))
    for name, field, part in zip(fields.names, fields.schema["fields"], parts, strict=True):
        alone = {
            "type": "record",
            "name": "Alone",
            "fields": [{"name": name, "type": whole_avro(field["type"], named)}],
        }
        # As text: a number that is none is not equal to itself.
        assert repr(read(fastavro.parse_schema(alone), part)) == repr({name: whole[name]})
    return True


@settings(max_examples=300)
@given(seeds)
def test_the_parts_of_any_record_are_what_fastavro_reads_of_it(seed: int) -> None:
    random = Random(seed)
    schema = schema_of(random)
    if not isinstance(schema, dict) or schema["type"] != "record":
        schema = record(schema)
    schema = physical(schema)
    fields = Fields(copy.deepcopy(schema))
    for _ in range(3):
        assert check(schema, fields, encoded(random, schema, odd=0))
        check(schema, fields, encoded(random, schema, odd=0.05))
        check(schema, fields, damaged(random, encoded(random, schema, odd=0)))


@settings(max_examples=100)
@given(seeds)
def test_a_record_that_is_cut_anywhere_is_refused_or_a_shorter_record(seed: int) -> None:
    random = Random(seed)
    schema = physical(record("long", schema_of(random, depth=2), "string"))
    fields = Fields(copy.deepcopy(schema))
    data = encoded(random, schema, odd=0)[:400]
    for size in range(len(data)):
        check(schema, fields, data[:size])


@settings(max_examples=300)
@given(seeds, st.binary(max_size=60))
def test_random_bytes_are_refused_or_read_by_all(seed: int, data: bytes) -> None:
    schema = physical(record(schema_of(Random(seed), depth=3)))
    check(schema, Fields(copy.deepcopy(schema)), data)


@settings(max_examples=100)
@given(seeds)
def test_logical_types_are_passed_over_as_what_is_below_them(seed: int) -> None:
    random = Random(seed)
    schema = record("long", schema_of(random, depth=3))
    logical, plain = Fields(copy.deepcopy(schema)), Fields(copy.deepcopy(physical(schema)))
    for data in (encoded(random, schema, odd=0), damaged(random, encoded(random, schema, odd=0))):
        assert borders(logical, data) == borders(plain, data)


@given(st.binary(max_size=40), st.text(max_size=20))
def test_texts_are_judged_as_python_does(data: bytes, text: str) -> None:
    fields = Fields(record("string"))
    for each in (data, text.encode("utf-8", "surrogatepass"), b"x" * 9 + data, b"x" * 7 + data[:4]):
        try:
            each.decode()
            valid = True
        except UnicodeDecodeError:
            valid = False
        wire = long(len(each)) + each
        assert borders(fields, wire) == ((0, len(wire)) if valid else "refused")


@pytest.mark.parametrize(
    ("kind", "data", "taken"),
    [
        ("int", long(2**31 - 1), True),
        ("int", long(2**31), False),
        ("long", b"\xff" * 9 + b"\x01", True),
        ("long", b"\xff" * 9 + b"\x02", False),
        ("long", b"\x80" * 10 + b"\x00", False),
        ("boolean", b"\x02", False),
        ("bytes", long(-1), False),
        ("bytes", long(2**62), False),
        (["null", "int"], long(2), False),
        (["null", "int"], long(-1), False),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(1), False),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab", False),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc", True),
        ({"type": "array", "items": "int"}, long(-2) + long(2) + long(1) + long(2) + long(0), True),
        ({"type": "array", "items": "int"}, long(-2) + long(1) + long(1) + long(2) + long(0), False),
        ({"type": "array", "items": "int"}, long(-2) + long(-1) + long(1) + long(2) + long(0), False),
        ({"type": "array", "items": "int"}, b"\xff" * 9 + b"\x01" + long(0) + long(0), False),
        ({"type": "array", "items": "null"}, long(2**20) + long(0), True),
        ({"type": "array", "items": "null"}, long(2**20 - 1) + long(1) + long(1) + long(0), False),
        ({"type": "array", "items": "null"}, long(2**62) + long(0), False),
        ({"type": "array", "items": "null"}, long(-(2**62)) + long(0) + long(0), False),
        ({"type": "array", "items": NOTHING}, long(2**20 // 3) + long(0), True),
        ({"type": "array", "items": NOTHING}, long(2**20 // 3 + 1) + long(0), False),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, long(2**20 + 1) + long(0), False),
        ({"type": "array", "items": "null"}, long(-5) + long(0) + long(0), True),
        ({"type": "map", "values": "int"}, long(-1) + long(3) + long(1) + b"k" + long(7) + long(0), True),
        ({"type": "map", "values": "null"}, long(1) + long(1) + b"\xff" + long(0), False),
    ],
)
def test_odd_values_are_taken_or_refused(kind: Any, data: bytes, taken: bool) -> None:
    assert (borders(Fields(record(kind)), data) != "refused") is taken


def test_types_that_name_themselves_are_passed_over_and_endless_ones_refused() -> None:
    fields = Fields(copy.deepcopy(TREE))
    leaf = long(1) + long(0)
    assert borders(fields, long(3) + long(2) + leaf + leaf + long(0)) == (0, 1, 7)
    deep = (long(1) + long(1)) * 100_000 + leaf + long(0) * 100_000
    with pytest.raises(InvalidRecord, match="too deep"):
        fields.borders(deep)


def test_what_names_itself_is_passed_over_down_to_the_bound() -> None:
    fields, leaf = Fields(copy.deepcopy(TREE)), long(1) + long(0)
    for times, taken in ((DEEPEST // 2, True), (DEEPEST // 2 + 1, False)):
        data = (long(1) + long(1)) * times + leaf + long(0) * times
        assert (borders(fields, data) != "refused") is taken


def test_a_record_has_its_own_values_without_bytes_and_not_those_of_the_last() -> None:
    fields = Fields(record({"type": "array", "items": "null"}))
    full = long(2**20) + long(0)
    assert borders(fields, full) == borders(fields, full) == (0, len(full))


def test_a_schema_that_is_too_deep_by_names_is_refused_and_named() -> None:
    assert len(Fields(ladder(DEEPEST - 2)).names) == DEEPEST - 2
    with pytest.raises(InvalidRecord) as refused:
        Fields(ladder(DEEPEST - 1))
    assert (refused.value.details["reason"], refused.value.details["schema"]) == ("depth", "Ladder")


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_a_schema_is_refused_that_is_too_long_with_its_names_written_out(schema: Any) -> None:
    with pytest.raises(InvalidRecord, match=r"schema .*too (deep|many types)"):
        Fields(schema)
    assert len(Fields(doubling(14)).names) == 14


def test_a_refusal_says_which_field_and_why() -> None:
    fields = Fields(record("int", "string"))
    with pytest.raises(InvalidRecord, match="it ends too early") as refused:
        fields.borders(long(1) + long(5) + b"ab")
    assert refused.value.details["field"] == 1
    with pytest.raises(InvalidRecord, match="trailing bytes"):
        fields.borders(long(1) + long(0) + b"x")


def test_a_record_may_stand_within_other_bytes() -> None:
    fields = Fields(record("int", "string"))
    data = b"head!" + long(7) + long(2) + b"ab" + b"tail"
    assert fields.borders(data, 5, 9) == (5, 6, 9)
    assert fields.cut(data, (1, 0, 1), 5, 9) == (long(2) + b"ab", long(7), long(2) + b"ab")
    for begin, end in ((5, 8), (5, 10), (-1, 9), (9, 5), (5, 99)):
        with pytest.raises(InvalidRecord):
            fields.borders(data, begin, end)


def test_a_place_that_is_none_is_a_fault_of_the_caller() -> None:
    for places in ((2,), (-1,)):
        with pytest.raises(IndexError):
            Fields(record("int", "int")).cut(long(1) + long(2), places)
        with pytest.raises(IndexError):
            Fields(record("int", "int"))._plain.cut(long(1) + long(2), places, 0, 2)


@pytest.mark.parametrize("schema", ["string", {"type": "array", "items": "int"}, {"type": "record"}, record("none")])
def test_a_schema_that_is_no_record_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidRecord):
        Fields(schema)


ROW = {"id": 7, "at": None, "state": "new", "price": None, "_invalid": None}
SOURCE = {
    "version": "1", "connector": "mysql", "name": "main", "ts_ms": 0, "ts_us": 0, "ts_ns": 0, "snapshot": None,
    "db": "shop", "table": "orders", "server_id": 1, "gtid": None, "file": "f", "pos": 4, "row": 0, "thread": None,
    "query": None,
}  # fmt: skip


def envelope(op: str, before: Any, after: Any) -> bytes:
    out = io.BytesIO()
    value = {"before": before, "after": after, "source": SOURCE, "op": op, "transaction": None}
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(ENVELOPE)), value)
    return b"\0\0\0\0\x09" + out.getvalue()


@pytest.mark.parametrize(
    ("op", "before", "after"), [("c", None, ROW), ("u", ROW, {**ROW, "state": "païd"}), ("d", ROW, None)]
)
def test_images_are_rows_by_a_schema_that_stands_by_itself(op: str, before: Any, after: Any) -> None:
    images = EnvelopeFields(ENVELOPE)
    wire = envelope(op, before, after)
    found = images(wire)
    assert images._plain.images(wire, images.places, 5) == found
    assert found[0] == op
    for image, row in zip(found[1:], (before, after), strict=True):
        assert (None if image is None else read(images.row.schema, image)) == row
        if image is not None:
            state = images.row.cut(image, (images.row.names.index("state"),))[0]
            assert state == long(1) + long(len(row["state"].encode())) + row["state"].encode()


def test_an_envelope_that_is_cut_anywhere_is_refused() -> None:
    images = EnvelopeFields(ENVELOPE)
    wire = envelope("u", ROW, ROW)
    for size in range(5, len(wire)):
        with pytest.raises(InvalidRecord):
            images(wire[:size])
    with pytest.raises(InvalidRecord, match="trailing bytes"):
        images(wire + b"x")


def test_fields_inside_a_field_are_those_of_its_record() -> None:
    whole = Fields(ENVELOPE)
    source = whole.inside("source")
    wire = envelope("c", None, ROW)
    found = whole.borders(wire, 5)
    place = whole.names.index("source")
    server_id = source.cut(wire, (source.names.index("server_id"),), found[place], found[place + 1])
    assert server_id == (long(1),)
    with pytest.raises(InvalidRecord, match="not of one kind of record"):
        whole.inside("op")


@pytest.mark.parametrize(
    "schema",
    [
        record("int"),
        {"type": "record", "name": "E", "fields": [{"name": "op", "type": "int"}, {"name": "after", "type": "int"}]},
        {"type": "record", "name": "E", "fields": [{"name": "op", "type": "string"}, {"name": "after", "type": "int"}]},
    ],
)
def test_what_is_no_envelope_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidRecord):
        EnvelopeFields(schema)


def test_rows_of_two_schemas_are_refused() -> None:
    schema = copy.deepcopy(ENVELOPE)
    schema["fields"][1]["type"] = ["null", record("int")]
    with pytest.raises(InvalidRecord, match="rows before and after differ"):
        EnvelopeFields(schema)


@pytest.mark.compiled
def test_schemas_of_tables_are_compiled() -> None:
    assert Fields(ENVELOPE)._native is not None
    assert EnvelopeFields(ENVELOPE)._native is not None
    assert Fields(copy.deepcopy(TREE))._native is None
