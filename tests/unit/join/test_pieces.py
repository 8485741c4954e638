"""Fields that need more than a copy are read within the bounds of all records."""

from __future__ import annotations

from typing import Any

import pytest

from include.errors import InvalidRecord
from include.join.rows.pieces import piece_of
from tests.support.record.random_avro import long

NODE: dict[str, Any] = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
NULLS = {"type": "array", "items": "null"}
WIDER = {**NODE, "fields": [*NODE["fields"], {"name": "more", "type": "int", "default": 0}]}
MAYBE = {"type": "array", "items": ["null", "int"]}


def test_a_list_is_read_by_the_wider_type_of_its_items() -> None:
    assert piece_of(NULLS, MAYBE)(long(3) + long(0)) == long(3) + bytes(3) + long(0)


@pytest.mark.parametrize(
    ("written", "shown", "data"),
    [(NULLS, MAYBE, long(10**9) + long(0)), (NODE, WIDER, long(1) * 100_000 + long(0))],
    ids=["a billion nulls", "100,000 levels"],
)
def test_a_field_beyond_the_bounds_is_no_record_of_the_output(written: Any, shown: Any, data: bytes) -> None:
    with pytest.raises(InvalidRecord, match="a field cannot be shown in the output's type"):
        piece_of(written, shown)(data)
