"""Types of other subjects stand in the schema that names them, where a reader needs them."""

from __future__ import annotations

import pytest

from include.index.mapping.json_schema_types import json_schema_form
from include.log.registry.references import whole_json_schema


@pytest.mark.parametrize("reference", ["address.json", "https://x.example/s/address.json"])
def test_json_schemas_that_refer_to_each_other_become_one_document(reference: str) -> None:
    order = {
        "$id": "https://x.example/s/order.json",
        "type": "object",
        "properties": {"to": {"$ref": "address.json"}, "note": {"$ref": "#/$defs/note"}},
        "$defs": {"note": {"type": "string"}},
    }
    address = {
        "type": "object",
        "properties": {"city": {"$ref": "a/b~c.json#/definitions/city"}, "zip": {"$ref": "#/definitions/zip"}},
        "definitions": {"zip": {"type": "integer"}},
    }
    cities = {"definitions": {"city": {"type": "boolean"}}}
    whole = whole_json_schema(order, {reference: address, "a/b~c.json": cities})
    inlined = {
        "type": "object",
        "properties": {
            "to": {"type": "object", "properties": {"city": {"type": "boolean"}, "zip": {"type": "integer"}}},
            "note": {"type": "string"},
        },
    }
    assert json_schema_form(whole) == json_schema_form(inlined)
