"""What the table says by parameters; `tests/contract/test_coercion.py` holds it against a server."""

from __future__ import annotations

from typing import Any

import pytest

from include.index.mapping.coercion import effects_of
from include.index.mapping.value_types import Leaf

TEXT = Leaf("text", "string")
LONG = Leaf("long", "long")
UUID = Leaf("uuid", "uuid")


def decimal(precision: int, scale: int) -> Leaf:
    return Leaf("decimal", f"decimal({precision},{scale})", precision, scale)


@pytest.mark.parametrize(
    ("leaf", "field", "levels"),
    [
        (TEXT, {"type": "keyword"}, ["limited"]),
        (TEXT, {"type": "keyword", "ignore_above": 8191}, ["limited"]),
        (TEXT, {"type": "keyword", "ignore_above": 20_000}, ["limited", "limited"]),
        (TEXT, {"type": "text"}, []),
        (LONG, {"type": "long"}, []),
        (LONG, {"type": "integer"}, ["limited"]),
        (LONG, {"type": "double"}, ["coerced"]),
        (decimal(15, 2), {"type": "double"}, []),
        (decimal(16, 2), {"type": "double"}, ["coerced"]),
        (decimal(6, 2), {"type": "float"}, []),
        (decimal(7, 2), {"type": "float"}, ["coerced"]),
        (decimal(9, 0), {"type": "integer"}, []),
        (decimal(9, 2), {"type": "integer"}, ["coerced"]),
        (decimal(12, 2), {"type": "double", "coerce": False}, ["refused"]),
        (decimal(12, 2), {"type": "scaled_float", "scaling_factor": 100}, []),
        (decimal(12, 3), {"type": "scaled_float", "scaling_factor": 100}, ["coerced"]),
        (Leaf("timestamp_micros", "timestamp-micros"), {"type": "date"}, ["coerced"]),
        (Leaf("timestamp_micros", "timestamp-micros"), {"type": "date_nanos"}, ["limited"]),
        (Leaf("timestamp_millis", "timestamp-millis"), {"type": "date"}, []),
        (Leaf("timestamp_millis", "timestamp-millis"), {"type": "date", "format": "epoch_millis"}, ["refused"]),
        (Leaf("date", "date"), {"type": "date", "format": "epoch_second||epoch_millis"}, ["refused"]),
        (Leaf("date", "date"), {"type": "date", "format": "yyyy-MM-dd||epoch_millis"}, ["limited"]),
        (Leaf("time", "time-micros"), {"type": "date", "format": "HH:mm:ss.SSSSSS"}, ["limited"]),
        (Leaf("time", "time-micros"), {"type": "date", "format": "epoch_second"}, ["refused"]),
        (LONG, {"type": "date", "format": "yyyyMMdd"}, ["coerced"]),
        (UUID, {"type": "keyword"}, []),
        (UUID, {"type": "keyword", "ignore_above": 36}, []),
        (UUID, {"type": "keyword", "ignore_above": 35}, ["coerced"]),
        (UUID, {"type": "keyword", "normalizer": "lowercase"}, ["limited"]),
        (Leaf("enum", "enum E"), {"type": "keyword", "ignore_above": 10}, ["limited"]),
        (Leaf("date", "date"), {"type": "keyword", "ignore_above": 10}, []),
        (Leaf("timestamp_micros", "timestamp-micros"), {"type": "keyword", "ignore_above": 19}, ["coerced"]),
        (Leaf("timestamp_micros", "timestamp-micros"), {"type": "keyword", "ignore_above": 26}, ["limited"]),
        (LONG, {"type": "keyword", "ignore_above": 19}, ["limited", "limited"]),
        (decimal(9, 2), {"type": "keyword", "ignore_above": 3}, ["coerced"]),
        (decimal(9, 2), {"type": "keyword", "ignore_above": 12}, ["limited"]),
        (LONG, {"type": "date"}, ["coerced"]),
        (TEXT, {"type": "boolean", "ignore_malformed": True}, ["coerced"]),
        (LONG, {"type": "boolean", "ignore_malformed": True}, ["coerced"]),
        (LONG, {"type": "long", "index": False, "doc_values": False}, ["limited"]),
        (LONG, {"type": "sparse_vector"}, ["limited"]),
        (LONG, {"type": "object"}, ["refused"]),
        (LONG, {"type": "object", "enabled": False}, ["limited"]),
        (Leaf("null", "null"), {"type": "boolean"}, []),
    ],
)
def test_effects_follow_kind_type_and_parameters(leaf: Leaf, field: dict[str, Any], levels: list[str]) -> None:
    assert [effect.level for effect in effects_of(leaf, field)] == levels


def test_numbers_are_read_in_the_unit_of_the_fields_format() -> None:
    (effect,) = effects_of(LONG, {"type": "date", "format": "epoch_second"})
    assert effect.reason.startswith("read as seconds since 1970")
    (effect,) = effects_of(LONG, {"type": "date"})
    assert effect.reason.startswith("read as milliseconds since 1970")


def test_ignore_malformed_is_told_as_hiding_and_not_as_refusing() -> None:
    (effect,) = effects_of(LONG, {"type": "integer", "ignore_malformed": True})
    assert effect.reason == "numbers from 2^31 on are hidden from searches (ignore_malformed)"
