"""Avro types of other schemas stand in the schema that names them, where a reader needs them."""

from __future__ import annotations

import io
from typing import Any

import fastavro

from include.index.avro_form import avro_form
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
