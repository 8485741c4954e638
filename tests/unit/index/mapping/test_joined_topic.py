"""Topics that joins write, as the indexer reads them: keys of several inputs, nulls of left joins, the mapping."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import orjson
import pytest

from demo.shop.schema import TABLES
from include.audit.search.expected import reading_of
from include.index.definition import IndexTopic, index_named
from include.index.feed import Feed
from include.index.identity import DocumentIdentity, identify
from include.index.mapping.avro_types import avro_form
from include.index.mapping.check import compare
from include.index.mapping.file import mapping_of
from include.index.mapping.starter import starter_index
from include.index.mapping.value_types import RecordType as RecordForm
from include.index.metadata import TopicOrigin
from include.index.states import States
from include.join.config.deployed import declared_joins
from include.join.config.fields import field_plan
from include.join.config.schema import InputSchema, OutputSchemas, output_schemas
from include.log.memory import MemoryRegistry
from include.log.ports import Record
from include.record import version
from include.record.codec import Decoder, Encoder
from include.record.json.formats import Keys, Values
from include.record.schema import Column, TableSchema
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from tests.support.shipped_environment import ENV

TOPIC = "shop.order_lines"
KEY = {"order_row_id": 17, "line_id": 40, "payment_id": None, "partner_id": 3, "address_id": 9}
ROW = {"order_row_id": 17, "line_no": 2, "name": "Ñoquis", "price": Decimal("7.70"), "amount": None, "payment_id": None}


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return Deployment.load(PROJECT_ROOT / "include" / "deployment", ENV)


def table(name: str) -> TableSchema:
    """A table of the shop, read from the statement that makes it."""
    columns, key = [], []
    for line in TABLES[name].partition("(")[2].splitlines():
        found = re.match(r"\s*([a-z_]+) (enum|[a-z]+)(?:\((.*?)\))?( unsigned)? (?:NOT )?NULL(.*)", line)
        if found is None:
            continue
        column, kind, inner, unsigned, rest = found.groups()
        precision, scale = (int(n) for n in inner.split(",")) if kind == "decimal" else (None, None)
        labels = tuple(re.findall(r"'(.*?)'", inner)) if kind == "enum" else ()
        columns.append(Column(column, kind, bool(unsigned), precision, scale, labels=labels))
        key += [column] if "PRIMARY KEY" in rest else []
    return TableSchema("shop", name, tuple(columns), tuple(key))


@pytest.fixture(scope="module")
def schemas(deployment: Deployment) -> OutputSchemas:
    """Of `shop.order_lines`, through all joins that it is made by."""
    joins = declared_joins(deployment)
    made: dict[str, OutputSchemas] = {}
    for name in ("order_rows", "order_rows_paid", "order_rows_sold", "order_lines"):
        join = joins[name]
        inputs = []
        for each in join.file.join:
            if each.topic in made:
                known = made[each.topic]
                inputs.append(InputSchema.of(known.key, known.value, topic=str(each.topic)))
            else:
                of = table(str(each.topic).rpartition(".")[2])
                inputs.append(InputSchema.of(of.key_avro("shop"), of.envelope_avro("shop"), topic=of.table))
        plan = field_plan(join.places, join.file, [each.fields for each in inputs])
        made[join.topic] = output_schemas(join.file, plan, inputs)
    return made[TOPIC]


def test_the_shipped_mapping_takes_every_field_of_the_joined_rows_and_has_no_other(
    deployment: Deployment, schemas: OutputSchemas
) -> None:
    form = avro_form(schemas.value)
    mapping = mapping_of(deployment, index_named(deployment, "order_lines"))
    assert isinstance(form, RecordForm)
    assert mapping["properties"]["order_line"]["properties"].keys() == form.fields.keys()
    found = list(compare(form, mapping, "order_line"))
    assert {each.verdict for each in found} & {"missing", "unsent"} == set()
    # No column of the shop is as long, and none holds a time of another century.
    bounds = ("32,766 bytes", "8,191 characters", "before 1970", "the normalizer's form")
    assert [str(each) for each in found if not any(bound in each.reason for bound in bounds)] == []


def test_the_shipped_mapping_is_the_first_one_but_for_codes_and_texts(
    deployment: Deployment, schemas: OutputSchemas
) -> None:
    first = starter_index({"order_line": avro_form(schemas.value)}).mapping()["properties"]
    mine = mapping_of(deployment, index_named(deployment, "order_lines"))["properties"]
    changed = {
        name
        for name, field in first["order_line"]["properties"].items()
        if field["type"] != mine["order_line"]["properties"][name]["type"]
    }
    codes = {"state", "currency", "category", "method", "payment_status", "postal_code", "country"}
    assert changed == codes | {"partner_site", "city"}
    assert mine["metadata"] == first["metadata"]


def record(registry: MemoryRegistry, schemas: OutputSchemas, row: dict[str, Any] | None, rank: int = 7) -> Record:
    key_schema, value_schema = schemas.key, schemas.value
    key = Encoder(registry.register(f"{TOPIC}-key", key_schema, "BACKWARD"), key_schema)(KEY)
    value = None
    if row is not None:
        empty = {field["name"]: None for field in value_schema["fields"]} | dict.fromkeys(_never_null(value_schema), 1)
        value = Encoder(registry.register(f"{TOPIC}-value", value_schema, "BACKWARD"), value_schema)({**empty, **row})
    headers = (version.to_header(version.pack(1, 2 * rank + (row is not None))), ("versions", b"7,,1204"))
    return Record(TOPIC, 1, 5, key, value, headers, 0)


def _never_null(schema: dict[str, Any]) -> list[str]:
    return [field["name"] for field in schema["fields"] if not isinstance(field["type"], list)]


def test_the_key_of_a_row_has_the_keys_of_all_its_inputs_and_null_where_a_left_join_found_none(
    schemas: OutputSchemas,
) -> None:
    registry = MemoryRegistry()
    put, gone = record(registry, schemas, ROW), record(registry, schemas, None)
    assert Keys(registry, "schema")(put.key) == "[17,40,null,3,9]"
    assert identify(put, Decoder(registry.schema)) == DocumentIdentity("[17,40,null,3,9]", version.pack(1, 15))
    assert identify(gone, Decoder(registry.schema)) == DocumentIdentity("[17,40,null,3,9]", version.pack(1, 14))


def test_a_row_is_the_body_as_it_is_with_nulls_for_what_the_left_join_did_not_find(schemas: OutputSchemas) -> None:
    registry = MemoryRegistry()
    written = Values(registry, "plain")(record(registry, schemas, ROW).value)
    assert written is not None
    body = orjson.loads(written)
    assert (body["name"], body["price"], body["line_no"]) == ("Ñoquis", "7.70", 2)
    assert (body["payment_id"], body["amount"], body["method"]) == (None, None, None)


def test_the_audit_expects_of_a_joined_topic_what_the_indexer_makes_of_it(schemas: OutputSchemas) -> None:
    registry = MemoryRegistry()
    feed = Feed(TopicOrigin("local", "test", TOPIC, 1), IndexTopic(entity="order_line"))
    reading = reading_of(States(feed, registry))
    living, deleted = (reading(record(registry, schemas, row)) for row in (ROW, None))
    assert living is not None
    assert deleted is not None
    assert (living.doc_id, living.kind, living.version) == ("[17,40,null,3,9]", "living", version.pack(1, 15))
    assert (deleted.doc_id, deleted.kind, deleted.version) == ("[17,40,null,3,9]", "deleted", version.pack(1, 14))
