"""Avro types of other schemas stand in the schema that names them, where a reader needs them."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import fastavro.schema
import pytest

from include.index.mapping.avro_types import avro_form
from include.record.references import whole_avro

CITY: Any = {"type": "record", "name": "City", "namespace": "geo", "fields": [{"name": "name", "type": "string"}]}
ADDRESS: Any = {
    "type": "record",
    "name": "shop.Address",
    "fields": [{"name": "city", "type": "geo.City"}, {"name": "before", "type": ["null", "Address"]}],
}
ORDER: Any = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "to", "type": "Address"},
        {"name": "others", "type": {"type": "array", "items": "shop.Address"}},
        {"name": "cities", "type": {"type": "map", "values": "geo.City"}},
        {"name": "plain", "type": ["null", "Plain"], "default": None},
    ],
}
PLAIN: Any = {"type": "enum", "name": "Plain", "symbols": ["a", "b"]}


def test_avro_types_stand_where_they_are_used_first_and_values_are_read_by_them() -> None:
    whole = whole_avro(ORDER, {"shop.Address": ADDRESS, "geo.City": CITY, "Plain": PLAIN})
    city = {"name": "Bern"}
    order = {"to": {"city": city, "before": None}, "others": [], "cities": {"b": city}, "plain": "b"}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(whole), order)
    written.seek(0)
    assert fastavro.schemaless_reader(written, fastavro.parse_schema(whole), None) == order
    form: Any = avro_form(whole)
    assert form.fields["to"].fields["city"] == avro_form(CITY)


def test_a_name_that_nobody_knows_stays_for_the_reader_to_refuse() -> None:
    schema = {"type": "record", "name": "A", "fields": [{"name": "b", "type": "no.Such"}]}
    assert whole_avro(schema, {"geo.City": CITY}) == schema


def test_a_type_that_came_by_its_name_is_not_defined_again_by_one_that_has_it_inside() -> None:
    address = {**ADDRESS, "fields": [{"name": "city", "type": CITY}]}
    order = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "at", "type": "geo.City"}, {"name": "to", "type": "shop.Address"}],
    }
    whole = whole_avro(order, {"shop.Address": address, "geo.City": CITY})
    value = {"at": {"name": "Bern"}, "to": {"city": {"name": "Biel"}}}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(whole), value)
    written.seek(0)
    assert fastavro.schemaless_reader(written, fastavro.parse_schema(whole), None) == value


def test_another_type_of_the_same_name_stays_for_the_reader_to_refuse() -> None:
    other = {**CITY, "fields": []}
    schema = {
        "type": "record",
        "name": "A",
        "fields": [{"name": "b", "type": "geo.City"}, {"name": "c", "type": other}],
    }
    with pytest.raises(fastavro.schema.SchemaParseException, match="redefined"):
        fastavro.parse_schema(whole_avro(schema, {"geo.City": CITY}))
