"""The section `documents`: refusals name the place, and nothing private can get into the shop's document."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.shop.privacy import PRIVATE_FIELDS
from demo.shop.schema import TABLES
from include.document.database import Replica, tls_options
from include.document.definition import database_of, definition_of, definitions, hook
from include.document.schema import body_avro, check_columns, key_avro
from include.document.signals import Inputs
from include.errors import SettingsError, Terminal
from include.log.registry.compatibility import unreadable
from include.record.schema import Column
from include.settings.deployment import Deployment
from tests.support.documents.order_harness import COLUMNS, DEFINITION
from tests.support.paths import ROOT

SHIPPED = ROOT / "include" / "deployment" / "documents.yaml"


def deployment(folder: Path, **changes: Any) -> Deployment:
    """The shipped definition with parts of its entry changed."""
    entry = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))["documents"]["assembled_order"] | changes
    (folder / "documents.yaml").write_text(yaml.safe_dump({"documents": {"assembled_order": entry}}))
    application = {"entry": "spark_apps/assemble_documents.py", "topics": ["assembled_order"]}
    other = {"entry": "spark_apps/assemble_documents.py", "topics": []}
    rest = {"applications": {"assemble_orders": application, "other": other}, "sources": {"shop": {"host": "h"}}}
    (folder / "rest.yaml").write_text(yaml.safe_dump(rest))
    return Deployment.load(folder, env={})


def shop_columns(table: str) -> dict[str, Column]:
    """The columns of a table of the shop, as its statement declares them."""
    out: dict[str, Column] = {}
    for line in TABLES[table].splitlines()[1:-1]:
        name, _, rest = line.strip().partition(" ")
        if name in {"CONSTRAINT", "KEY", "UNIQUE", "REFERENCES", ")"} or name.isupper():
            continue
        kind = rest.split()[0].split("(")[0].rstrip(",")
        scale = (12, 2) if kind == "decimal" else (None, None)
        out[name] = Column(name, kind, "unsigned" in rest, *scale)
    return out


@pytest.mark.parametrize(
    ("changes", "path", "names"),
    [
        ({"sourse": "shop"}, "documents.assembled_order.sourse", "allowed"),
        ({"source": "shpo"}, "documents.assembled_order.source", "'shop'"),
        ({"application": "nobody"}, "documents.assembled_order.application", "assemble_orders"),
        ({"application": "other"}, "applications.other.topics", "assembled_order"),
        ({"signals": ["partners", "payments"]}, "documents.assembled_order.signals.1", "'partners'"),
        ({"read_from": {"host": "h", "user": "u"}}, "documents.assembled_order.read_from.password", "required"),
        ({"read_rows_per_s": -1}, "documents.assembled_order.read_rows_per_s", "0"),
        ({"fields": {"state": "state"}}, "documents.assembled_order.fields", "order_id"),
        (
            {"computed": {"state": {"hook": "include.document.hooks.lines_total", "type": "long"}}},
            "documents.assembled_order.computed.state",
            "already",
        ),
        (
            {"computed": {"x": {"hook": "include.document.hooks.nothing", "type": "long"}}},
            "documents.assembled_order.computed.x.hook",
            "no such hook",
        ),
        (
            {"lookups": {"partner": {"table": "partners", "where": {"id": "partner_id"}}}},
            "documents.assembled_order.lookups.partner",
            "either `fields` or `value`",
        ),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place(
    tmp_path: Path, changes: dict[str, Any], path: str, names: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        definitions(deployment(tmp_path, **changes))
    assert refused.value.details["path"] == path
    assert ".yaml" in str(refused.value)
    assert names in str(refused.value)


def test_an_application_that_writes_no_documents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="exactly one topic"):
        definition_of(deployment(tmp_path), "other")


def test_the_shipped_definition_is_right_and_reads_these_topics(tmp_path: Path) -> None:
    topic, definition = definition_of(deployment(tmp_path), "assemble_orders")
    assert topic == "assembled_order"
    assert set(Inputs(topic, definition).all()) == {
        "cdc.shop.shop.orders",
        "cdc.shop.shop.order_lines",
        "cdc.shop.shop.order_entries",
        "cdc.shop.shop.addresses",
        "cdc.shop.shop.partners",
        "cdc.shop.shop.businesses",
        "cdc.shop.shop.verticals",
        "cdc.shop.shop.cancellation_policies",
        "cdc.shop.control",
        "assembled_order.requests",
    }


def test_no_private_column_of_the_shop_is_read_into_a_document(tmp_path: Path) -> None:
    _, definition = definition_of(deployment(tmp_path), "assemble_orders")
    shown = {f"orders.{column}" for column in flat(definition.fields)}
    passed_through: set[str] = set()
    for lookup in definition.lookups.values():
        fields = [lookup.value] if lookup.value else list(flat(lookup.fields))
        shown |= {f"{lookup.table}.{column}" for column in fields}
        passed_through |= {f"{hop.table}.{column}" for hop in lookup.hops for column in hop.where}
    assert not shown & PRIVATE_FIELDS
    assert not any(table.startswith("payments.") for table in shown | passed_through)


def test_the_schema_of_the_shops_document_holds_what_search_must_answer_and_nothing_private(tmp_path: Path) -> None:
    topic, definition = definition_of(deployment(tmp_path), "assemble_orders")
    check_columns(definition, shop_columns)
    names = shape(body_avro(topic, definition, shop_columns))
    assert names == {
        "order_id", "order_row_id", "state", "total_price", "currency", "created_at", "updated_at", "user_id",
        "business_id", "vertical", "rollback_cause",
        "entry", "entry.channel", "entry.campaign", "entry.referrer",
        "delivery_address", "delivery_address.street", "delivery_address.city", "delivery_address.postal_code",
        "delivery_address.country", "delivery_address.location", "delivery_address.location.lat",
        "delivery_address.location.lon",
        "lines", "lines.line_no", "lines.name", "lines.description", "lines.category", "lines.quantity", "lines.price",
        "partner", "partner.name", "partner.site",
        "cancellation_policy", "cancellation_policy.name", "cancellation_policy.free_until_minutes",
    }  # fmt: skip
    private = {field.partition(".")[2] for field in PRIVATE_FIELDS} - {"name", "id", "order_id"}
    assert not {name.rpartition(".")[2] for name in names} & private
    assert key_avro(topic, definition, shop_columns)["fields"] == [{"name": "order_id", "type": "long"}]


def test_a_field_more_or_less_keeps_older_documents_readable() -> None:
    columns = {table: {c.name: c for c in of} for table, of in COLUMNS.items()}
    more = body_avro("t", DEFINITION, columns.__getitem__)
    lookups = {name: lookup for name, lookup in DEFINITION.lookups.items() if name != "lines"}
    fewer = body_avro("t", DEFINITION.model_copy(update={"lookups": lookups, "computed": {}}), columns.__getitem__)
    assert not unreadable(more, fewer)
    assert not unreadable(fewer, more)


def test_a_key_that_is_no_integer_or_text_is_refused() -> None:
    columns = {c.name: c for c in COLUMNS["orders"]} | {"order_id": Column("order_id", "double")}
    with pytest.raises(SettingsError) as refused:
        key_avro("t", DEFINITION, lambda _: columns)
    assert refused.value.details["column"] == "order_id"


def test_a_column_that_a_deeper_look_up_needs_is_checked_too() -> None:
    columns = {table: {c.name: c for c in of} for table, of in COLUMNS.items()}
    del columns["partners"]["region_id"]
    with pytest.raises(Terminal) as refused:
        check_columns(DEFINITION, columns.__getitem__)
    assert (refused.value.details["table"], refused.value.details["column"]) == ("partners", "region_id")


def test_a_hook_that_is_no_function_is_refused() -> None:
    with pytest.raises(SettingsError, match="a hook is a function"):
        hook("include.document.definition.__all__")


def flat(fields: Any) -> list[str]:
    """Columns of `fields`."""
    return [c for shape_ in fields.values() for c in ([shape_] if isinstance(shape_, str) else shape_.values())]


def shape(kind: Any, path: str = "") -> set[str]:
    """Paths of all fields of an Avro schema."""
    if isinstance(kind, list):
        return set().union(*(shape(each, path) for each in kind))
    if isinstance(kind, dict) and kind["type"] == "array":
        return shape(kind["items"], path)
    if not isinstance(kind, dict) or kind["type"] != "record":
        return set()
    out: set[str] = set()
    for field in kind["fields"]:
        name = f"{path}.{field['name']}" if path else field["name"]
        out |= {name} | shape(field["type"], name)
    return out


def test_documents_are_read_from_the_source_or_from_the_replica_that_they_name(tmp_path: Path) -> None:
    server = {"host": "primary", "user": "u", "password": "p", "fallbacks": ["other:3307"], "tls": "required"}
    account = {"host": "replica", "user": "r", "password": "q"}
    (tmp_path / "sources.yaml").write_text(yaml.safe_dump({"sources": {"shop": server | {"databases": ["shop"]}}}))
    made = Deployment.load(tmp_path, env={})
    primary = database_of(made, DEFINITION)
    assert (primary.places, primary.tls, primary.replica) == ([("primary", 3306), ("other", 3307)], "required", False)
    replica = database_of(made, DEFINITION.model_copy(update={"read_from": Replica.model_validate(account)}))
    assert (replica.places, replica.user, replica.replica, replica.fallbacks) == ([("replica", 3306)], "r", True, ())
    assert tls_options(primary)["ssl"].verify_mode == ssl.CERT_NONE
    assert tls_options(replica) == {}
    with pytest.raises(SettingsError, match="`tls_ca` cannot be read"):
        tls_options(replica.model_copy(update={"tls": "verified", "tls_ca": str(tmp_path / "none.pem")}))
