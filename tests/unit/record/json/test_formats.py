from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.log.memory import MemoryRegistry
from include.record.codec import Encoder, frame
from include.record.json.formats import Keys, Values, parsed

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "state", "type": ["null", "string"], "default": None}],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ORDER], "default": None},
        {"name": "after", "type": ["null", "Order"], "default": None},
        {"name": "op", "type": "string"},
    ],
}


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def avro(registry: MemoryRegistry, schema: Any, value: Any) -> bytes:
    parsed = schema if isinstance(schema, dict) else {"type": schema}
    return Encoder(registry.register(f"s-{json.dumps(schema)}", parsed, "NONE"), parsed)(value)


def in_json(registry: MemoryRegistry, text: str) -> bytes:
    return frame(registry.register("json", {"type": "object"}, language="JSON"), text.encode())


@pytest.mark.parametrize(
    ("schema", "value", "doc_id"),
    [
        (ORDER, {"id": 1, "state": "ü"}, '[1,"ü"]'),
        ({"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}]}, {"id": 2**62}, str(2**62)),
        ("string", "0042", "0042"),
        ("long", 42, "42"),
        ("bytes", b"\x00\xff", "00ff"),
    ],
)
def test_an_avro_key_is_the_text_of_its_fields_or_of_its_single_value(
    registry: MemoryRegistry, schema: Any, value: Any, doc_id: str
) -> None:
    assert Keys(registry, "schema")(avro(registry, schema, value)) == doc_id


def test_a_json_schema_key_reads_as_an_avro_key_of_the_same_fields(registry: MemoryRegistry) -> None:
    keys = Keys(registry, "schema")
    assert keys(in_json(registry, '{"a": 5, "b": "ü"}')) == '[5,"ü"]'
    assert keys(in_json(registry, '"x"')) == "x"
    for wrong in ("{}", "[1]", "null", "{", '{"a": 1.00000000000000000001}'):
        with pytest.raises(InvalidRecord):
            keys(in_json(registry, wrong))


def test_a_text_key_is_itself_and_a_long_or_empty_one_its_hash(registry: MemoryRegistry) -> None:
    keys = Keys(registry, "text")
    assert keys("ключ/1".encode()) == "ключ/1"
    assert keys(b"007") == "007"
    assert keys(b"x" * 513).startswith("sha256:")
    assert keys(b"").startswith("sha256:")
    with pytest.raises(InvalidRecord, match="UTF-8"):
        keys(b"\xff")
    with pytest.raises(InvalidRecord, match="no key"):
        keys(None)


def test_values_of_both_languages_give_the_same_canonical_body(registry: MemoryRegistry) -> None:
    values = Values(registry, "plain")
    body = b'{"id":1,"state":"a"}'
    assert values(avro(registry, ORDER, {"id": 1, "state": "a"})) == body
    assert values(in_json(registry, ' {"state": "a",\n "id": 1}')) == body
    assert values(None) is None


def test_numbers_of_json_keep_all_their_digits_or_are_refused(registry: MemoryRegistry) -> None:
    values = Values(registry, "plain")
    kept = '{"a":9007199254740993,"b":18446744073709551615,"c":0.1,"d":12.3,"e":1e+20}'
    assert (
        values(in_json(registry, kept)) == b'{"a":9007199254740993,"b":18446744073709551615,"c":0.1,"d":12.3,"e":1e+20}'
    )
    assert values(in_json(registry, '{"a": "12345678901234567890123"}')) == b'{"a":"12345678901234567890123"}'
    for lost in ("18446744073709551617", "0.12345678901234567891", "1e999"):
        with pytest.raises(InvalidRecord):
            values(in_json(registry, f'{{"a": {lost}}}'))


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)


@settings(max_examples=1_000)
@given(NUMBERS)
def test_a_number_passes_just_where_what_is_read_has_all_its_digits(number: str) -> None:
    exact = Decimal(number) == Decimal(repr(orjson.loads(number)))
    try:
        found = parsed(b'{"a": %s}' % number.encode())
    except InvalidRecord:
        assert not exact
    else:
        # A double whose digits were cut to 15 is the same double again.
        digits = number.lower().partition("e")[0].replace(".", "").strip("-0")
        assert exact or len(digits) <= 15
        assert found == {"a": orjson.loads(number)}


@pytest.mark.parametrize("language", ["avro", "json"])
def test_of_a_change_the_newer_image_is_the_body_and_a_delete_has_none(registry: MemoryRegistry, language: str) -> None:
    values = Values(registry, "change")

    def change(op: str, after: Any) -> bytes | None:
        envelope = {"before": None, "after": after, "op": op}
        return values(
            avro(registry, ENVELOPE, envelope) if language == "avro" else in_json(registry, json.dumps(envelope))
        )

    for op in ("c", "u", "r"):
        assert change(op, {"id": 1, "state": None}) == b'{"id":1,"state":null}'
        with pytest.raises(InvalidRecord, match="newer image"):
            change(op, None)
    assert change("d", None) is None
    with pytest.raises(InvalidRecord, match="newer image"):
        change("t", None)


def test_what_is_no_envelope_or_not_in_the_wire_format_is_refused(registry: MemoryRegistry) -> None:
    for data in (b"", b"\x00\x00", b"\x01abcdef"):
        with pytest.raises(InvalidRecord, match="wire format"):
            Values(registry, "plain")(data)
    with pytest.raises(InvalidRecord, match="envelope"):
        Values(registry, "change")(avro(registry, ORDER, {"id": 1, "state": None}))
    with pytest.raises(InvalidRecord, match="envelope"):
        Values(registry, "change")(in_json(registry, '{"after": {}}'))
