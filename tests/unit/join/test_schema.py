"""The output's schemas, and what is refused before a join starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pytest

from include.errors import SettingsError, Terminal
from include.join.config.definition import JoinFile, read_join
from include.join.config.fields import field_plan
from include.join.config.schema import InputSchema, OutputSchemas, check_join_keys, output_schemas
from include.record.schema import Column, TableSchema
from tests.support.record.random_avro import HOSTILE

pytestmark = pytest.mark.unit

REVIEWS = TableSchema(
    "d",
    "reviews",
    (Column("review_id", "int"), Column("biz_id", "bigint"), Column("user_id", "int"), Column("content", "text")),
    ("review_id",),
)
BUSINESSES = TableSchema(
    "d",
    "businesses",
    (Column("business_id", "int"), Column("name", "text"), Column("address", "text"), Column("state", "text")),
    ("business_id",),
)

FILE = """
join:
  - topic: reviews
    join_keys: [biz_id]
    exclude_fields: [content]
  - topic: businesses
    join_keys: [business_id]
    aliases: [{from: business_id, to: biz_id}]
    exclude_fields: [address, name]
output: {namespace: joinery_example, source: business_review_join, doc: Reviews}
"""


def of_table(table: TableSchema) -> InputSchema:
    return InputSchema.of(table.key_avro("s"), table.envelope_avro("s"), topic=table.table)


def plain(fields: list[dict[str, Any]], key: str = "id") -> InputSchema:
    return InputSchema.of(
        {"type": "record", "name": "K", "fields": [each for each in fields if each["name"] == key]},
        {"type": "record", "name": "V", "fields": fields},
        topic="plain",
    )


def schemas(folder: Path, text: str, inputs: list[InputSchema]) -> OutputSchemas:
    (folder / "join.yaml").write_text(text)
    places, join = read_join(folder / "join.yaml")
    check_join_keys(places, join, inputs)
    return output_schemas(join, field_plan(places, join, [each.fields for each in inputs]), inputs)


def types(schema: dict[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in schema["fields"]}


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_schema_ends_the_join_by_name(schema: Any) -> None:
    key = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "int"}]}
    for one, other, what in ((schema, key, "key"), (key, schema, "value")):
        with pytest.raises(Terminal, match=f"a join cannot read this {what}: schema .*too (deep|many types)"):
            InputSchema.of(one, other, topic="plain")


def test_the_key_is_made_of_the_inputs_keys_and_all_other_fields_may_be_null(tmp_path: Path) -> None:
    made = schemas(tmp_path, FILE, [of_table(REVIEWS), of_table(BUSINESSES)])
    assert types(made.key) == {"review_id": "int", "biz_id": "long"}
    assert types(made.value) == {
        "review_id": "int",
        "biz_id": "long",
        "user_id": ["null", "int"],
        "state": ["null", "string"],
    }
    assert made.value["doc"] == "Reviews"
    assert all(
        field.get("default", "none") is None for field in made.value["fields"] if isinstance(field["type"], list)
    )


def test_keys_of_an_optional_input_may_be_null_and_so_may_a_join_key_that_joins_nothing(tmp_path: Path) -> None:
    text = FILE.replace("[business_id]\n", "[business_id]\n    type: left\n")
    made = schemas(tmp_path, text, [of_table(REVIEWS), of_table(BUSINESSES)])
    assert types(made.key) == {"review_id": "int", "biz_id": ["null", "long"]}


def test_named_types_of_two_inputs_get_names_of_their_own(tmp_path: Path) -> None:
    def colour(symbols: list[str]) -> dict[str, Any]:
        return {"type": "enum", "name": "Colour", "symbols": symbols}

    one = plain([{"name": "id", "type": "int"}, {"name": "a", "type": colour(["x"])}, {"name": "b", "type": "Colour"}])
    two = plain([{"name": "number", "type": "int"}, {"name": "c", "type": ["null", colour(["y"])]}], key="number")
    text = """
join:
  - {topic: one, join_keys: [id]}
  - {topic: two, join_keys: [number]}
output: {namespace: n, source: s}
"""
    made = schemas(tmp_path, text, [one, two])
    fastavro.parse_schema(made.value)
    kinds = types(made.value)
    assert kinds["b"] == ["null", kinds["a"][1]["name"]]
    assert kinds["a"][1]["name"] != kinds["c"][1]["name"]


@pytest.mark.parametrize(
    ("type_", "says"),
    [
        ("string", "different types"),
        ("double", "joins nothing"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "different types"),
        ({"type": "array", "items": "int"}, "joins nothing"),
    ],
)
def test_join_keys_that_are_never_equal_are_refused(tmp_path: Path, type_: Any, says: str) -> None:
    other = plain([{"name": "business_id", "type": type_}, {"name": "name", "type": "string"}], key="business_id")
    text = FILE.replace("exclude_fields: [address, name]", "exclude_fields: [name]")
    with pytest.raises(SettingsError, match=says) as refused:
        schemas(tmp_path, text, [of_table(REVIEWS), other])
    assert "join.1.join_keys.0" in str(refused.value)


def test_whole_numbers_of_any_width_join() -> None:
    places, join = _join_of({"join_keys": ["a"]}, {"join_keys": ["b"]})
    check_join_keys(
        places, join, [plain([{"name": "a", "type": "int"}], "a"), plain([{"name": "b", "type": "long"}], "b")]
    )


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(Terminal, match="reads records of fields"):
        InputSchema.of({"type": "string"}, {"type": "record", "name": "V", "fields": []}, topic="t")


def _join_of(*inputs: dict[str, Any]) -> tuple[Any, JoinFile]:
    values = {
        "join": [{"topic": f"t{number}", **each} for number, each in enumerate(inputs)],
        "output": {"namespace": "n", "source": "s"},
    }
    return None, JoinFile.model_validate(values)
