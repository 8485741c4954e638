"""The schemas that topics of a file's changes would have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import SettingsError
from include.join.config.definition import JoinFile
from include.join.config.schema import InputSchema
from include.join.replay import ReplayedChange
from include.join.replay_schemas import replay_schemas
from include.record.codec import Decoder, Encoder

pytestmark = pytest.mark.unit

FILE = Path("changes.jsonl")
JOIN = JoinFile.model_validate(
    {
        "join": [{"topic": "a", "join_keys": ["j"]}, {"topic": "b", "join_keys": ["k"]}],
        "output": {"namespace": "n", "source": "s"},
    }
)


def put(key: dict[str, Any], value: dict[str, Any], input: int = 0) -> ReplayedChange:
    return ReplayedChange(input=input, op="c", key=key, value=value)


def schemas(*changes: ReplayedChange) -> list[InputSchema]:
    return replay_schemas(FILE, dict(enumerate(changes, 1)), JOIN)


def types(schema: dict[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in schema["fields"]}


def test_fields_of_rows_may_be_null_and_those_of_keys_where_some_key_has_it_so() -> None:
    first, second = schemas(
        put({"id": 1}, {"id": 1, "price": 1.5, "name": None}),
        put({"id": 2}, {"name": "x", "sold": True}),
        put({"id": None}, {"k": 5}, input=1),
    )
    assert types(dict(first.key)) == {"id": "long"}
    assert types(dict(first.row)) == {
        "id": ["null", "long"],
        "price": ["null", "double"],
        "name": ["null", "string"],
        "sold": ["null", "boolean"],
    }
    assert types(dict(second.key)) == {"id": ["null", "string"]}
    assert not first.change


def test_a_join_key_that_is_always_null_has_the_type_of_its_counterpart() -> None:
    first, second = schemas(put({"id": 1}, {"j": None, "else": None}), put({"id": 1}, {"k": 5}, input=1))
    assert types(dict(first.row)) == {"j": ["null", "long"], "else": ["null", "string"]}
    assert types(dict(second.row)) == {"k": ["null", "long"]}


@pytest.mark.parametrize(
    ("key", "value", "field", "says"),
    [
        ({"id": 2}, {"n": 1.0}, "n", "a double has a point also where it is whole"),
        ({"id": 2}, {"n": "1"}, "n", "got=\"string '1'\", allowed='long, as in line 1'"),
        ({"id": 2}, {"n": True}, "n", "got='boolean True'"),
        ({"id": 2}, {"id": "2"}, "id", "allowed='long, as in line 1'"),
        ({"id": "2"}, {}, "id", "allowed='long, as in line 1'"),
        ({"id": 2}, {"n": [1]}, "n", "allowed='long (64 bits), double, string, boolean, null'"),
        ({"id": 2}, {"m": {"x": 1}}, "m", "fields of its own"),
        ({"id": 2}, {"n": 1 << 63}, "n", "a longer number as a text"),
        ({"id": 2}, {"a-b": 1}, "a-b", "Avro has no field of this name"),
        ({"id": 2, "more": 1}, {}, None, "got=['id', 'more'], allowed=['id']"),
    ],
)
def test_what_has_no_type_is_refused_with_file_line_and_field(
    key: dict[str, Any], value: dict[str, Any], field: str | None, says: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        schemas(put({"id": 1}, {"n": 1}), put({"id": "of another"}, {"n": "input"}, input=1), put(key, value))
    assert says.lower() in str(refused.value).lower()
    assert (refused.value.details["file"], refused.value.details["line"]) == (str(FILE), 3)
    assert refused.value.details.get("field") == field


COLUMNS = {
    "a": st.integers(-(1 << 63), (1 << 63) - 1),
    "b": st.floats(allow_nan=False, allow_infinity=False),
    "c": st.text(st.characters(exclude_categories=["Cs"])),
    "d": st.booleans(),
}


@given(
    st.lists(
        st.tuples(
            st.fixed_dictionaries({name: st.none() | column for name, column in COLUMNS.items()}),
            st.fixed_dictionaries({}, optional={name: st.none() | column for name, column in COLUMNS.items()}),
        ),
        min_size=1,
    )
)
def test_each_change_fits_its_schema_and_comes_back_as_the_same_json(
    rows: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    schema, _ = schemas(*(put(key, value) for key, value in rows))
    for key, value in rows:
        for part, row in ((schema.key, key), (schema.row, value)):
            back = Decoder({1: part}.__getitem__)(Encoder(1, part)(row))
            whole = {field["name"]: row.get(field["name"]) for field in part["fields"]}
            assert orjson.dumps(back) == orjson.dumps(whole)
