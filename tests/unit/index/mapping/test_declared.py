from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from include.errors import SettingsError, Terminal
from include.index.definition import alias_of, index_named, indexes_of_application
from include.index.mapping.declared import check, creation, undeclared
from include.index.mapping.file import mapping_of
from include.index.metadata import FIELDS, metadata_mapping
from include.index.name import IndexName
from include.index.server.port import IndexInfo
from include.settings.deployment import Deployment
from tests.support.documents.topic import MAPPING, METADATA, one_topic

DEFINITION = one_topic("docs")


def live(mapping: dict[str, Any], **aliases: Any) -> IndexInfo:
    made = creation("orders", DEFINITION, MAPPING)
    return IndexInfo("orders-v1", "u", mapping, aliases or made["aliases"])


def test_an_index_is_created_with_an_alias_that_hides_deleted_documents() -> None:
    made = creation("orders", DEFINITION, MAPPING)
    assert made["aliases"] == {"orders": {"filter": {"term": {"metadata.deleted": False}}}}
    assert made["settings"]["refresh_interval"] == "500ms"
    assert made["mappings"] == MAPPING


def test_an_index_lies_sorted_where_that_is_declared() -> None:
    assert not [name for name in creation("orders", DEFINITION, MAPPING)["settings"] if "sort" in name]
    sorted_ = DEFINITION.model_copy(update={"sort": ["order.state", "-metadata.version"]})
    settings = creation("orders", sorted_, MAPPING)["settings"]
    assert (settings["sort.field"], settings["sort.order"]) == (["order.state", "metadata.version"], ["asc", "desc"])


@pytest.mark.parametrize("name", ["order.nosuch", "-order.note", "order.lines.quantity"])
def test_an_index_cannot_be_sorted_by_what_is_no_single_value(name: str) -> None:
    mapping = copy.deepcopy(MAPPING)
    fields = mapping["properties"]["order"]["properties"]
    fields["note"] = {"type": "text"}
    fields["lines"] = {"type": "nested", "properties": {"quantity": {"type": "integer"}}}
    with pytest.raises(Terminal, match=name.removeprefix("-")):
        creation("orders", DEFINITION.model_copy(update={"sort": [name]}), mapping)


FOLDED_FIELDS = [
    {"type": "text", "analyzer": "folded"},
    {"type": "text", "search_analyzer": "folded"},
    {"type": "keyword", "normalizer": "folded"},
    {"type": "text", "fields": {"whole": {"type": "keyword", "normalizer": "folded"}}},
]


@pytest.mark.parametrize("field", FOLDED_FIELDS)
def test_an_index_knows_how_to_fold_where_a_field_or_a_rule_names_it(field: dict[str, Any]) -> None:
    named = copy.deepcopy(MAPPING)
    named["properties"]["order"]["properties"]["city"] = field
    ruled = {**MAPPING, "dynamic_templates": [{"names": {"path_match": "order.names.*", "mapping": field}}]}
    for mapping in (named, ruled):
        made = creation("orders", DEFINITION, mapping)["settings"]["analysis"]
        assert made["analyzer"]["folded"]["filter"] == made["normalizer"]["folded"]["filter"]
        assert "asciifolding" in made["normalizer"]["folded"]["filter"]


def test_an_index_that_folds_nothing_asks_no_server_for_it() -> None:
    assert "analysis" not in creation("orders", DEFINITION, MAPPING)["settings"]


def test_a_copy_into_a_field_that_the_mapping_lacks_is_refused_before_documents_are() -> None:
    mapping = copy.deepcopy(MAPPING)
    fields = mapping["properties"]["order"]["properties"]
    fields["note"] = {"type": "text", "copy_to": "order.words"}
    with pytest.raises(Terminal, match=r"order\.words"):
        creation("orders", DEFINITION, mapping)
    fields["words"] = {"type": "text"}
    assert creation("orders", DEFINITION, mapping)["mappings"] == mapping


@pytest.mark.parametrize("name", sorted(METADATA))
def test_an_index_without_a_metadata_field_is_refused(name: str) -> None:
    mapping = copy.deepcopy(MAPPING)
    del mapping["properties"]["metadata"]["properties"][name]
    with pytest.raises(Terminal, match=name):
        check(live(mapping), "orders", MAPPING)


def test_a_doc_id_that_is_cut_or_folded_is_refused() -> None:
    mapping = copy.deepcopy(MAPPING)
    mapping["properties"]["metadata"]["properties"]["doc_id"]["ignore_above"] = 256
    with pytest.raises(Terminal, match="doc_id"):
        creation("orders", DEFINITION, mapping)


def test_an_index_made_before_a_field_was_folded_or_copied_is_told_apart() -> None:
    declared = copy.deepcopy(MAPPING)
    fields = declared["properties"]["order"]["properties"]
    fields["state"] |= {"normalizer": "folded", "copy_to": ["order.words"]}
    fields["words"] = {"type": "text", "analyzer": "folded"}
    assert check(live(MAPPING), "orders", declared) == [
        "order.words: declared text, missing in the index",
        "order.state: declared copy_to ['order.words'], copy_to unset in the index",
        "order.state: declared normalizer folded, normalizer unset in the index",
    ]


def test_check_names_every_difference() -> None:
    mapping = copy.deepcopy(MAPPING)
    fields = mapping["properties"]["order"]["properties"]
    del fields["state"]
    fields["note"] = {"type": "text", "fields": {"keyword": {"type": "keyword"}}}
    found = check(live(mapping, other={}), "orders", MAPPING)
    assert found == [
        "alias orders does not lead to orders-v1",
        "order.state: declared keyword, missing in the index",
        "order.note: declared integer, text in the index",
    ]
    assert undeclared(live(mapping), MAPPING) == ["order.note.keyword: keyword"]
    assert undeclared(live(MAPPING), MAPPING) == []
    assert check(live(MAPPING), "orders", MAPPING) == []
    assert check(live(MAPPING, orders={}), "orders", MAPPING) == ["alias orders does not hide deleted documents"]


def test_check_compares_parameters_rules_and_what_the_root_does_with_new_names() -> None:
    rules = [{"order.counts": {"path_match": "order.counts.*", "mapping": {"type": "long"}}}]
    declared = {**copy.deepcopy(MAPPING), "dynamic_templates": rules}
    fields = declared["properties"]["order"]["properties"]
    fields["state"] |= {"ignore_above": 100, "index": True, "doc_values": "true"}
    fields["counts"] = {"type": "object", "dynamic": True, "subobjects": False}
    found = copy.deepcopy(declared)
    found["dynamic_templates"], found["dynamic"] = [], "false"
    there = found["properties"]["order"]["properties"]
    there["state"] = {"type": "keyword", "ignore_above": 256}
    # As a server shows it; names of a map are data.
    there["counts"] = {"dynamic": "true", "subobjects": False, "properties": {"a": {"type": "long"}}}
    assert check(live(found), "orders", declared) == [
        "dynamic: declared strict, false in the index",
        "order.state: declared ignore_above 100, ignore_above 256 in the index",
        "dynamic_templates: order.counts is missing in the index",
    ]
    assert undeclared(live(found), declared) == []


def test_a_mapping_beyond_the_servers_limits_is_refused_before_it_is_sent() -> None:
    mapping = copy.deepcopy(MAPPING)
    mapping["properties"]["order"]["properties"] |= {f"f{n}": {"type": "keyword"} for n in range(1000)}
    with pytest.raises(Terminal, match=r"1,019 fields, at most 1,000.*flattened"):
        creation("orders", DEFINITION, mapping)


def test_metadata_fields_are_those_that_the_mapping_must_have() -> None:
    assert FIELDS == METADATA
    assert metadata_mapping() == MAPPING["properties"]["metadata"]


@pytest.mark.parametrize("text", ["orders-v1", "my-orders-v12"])
def test_names_of_indexes_round_trip(text: str) -> None:
    assert str(IndexName.parse(text)) == text


@pytest.mark.parametrize("text", ["orders", "orders-v0", "Orders-v1", "-v1", "a-v1-v2", "orders-vx"])
def test_names_that_are_no_generation_are_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        IndexName.parse(text)


def deployment(folder: Path, text: str, mapping: Any = MAPPING) -> Deployment:
    (folder / "indexes.yaml").write_text(text)
    (folder / "m.json").write_text(mapping if isinstance(mapping, str) else json.dumps(mapping))
    return Deployment.load(folder, {})


ONE = "indexes: {orders: {application: a, topic: docs, entity: order, mapping: m.json}}"


def test_an_index_is_found_by_name_application_and_topic(tmp_path: Path) -> None:
    found = deployment(tmp_path, ONE)
    definition = index_named(found, "orders")
    assert indexes_of_application(found, "a") == {"orders": definition}
    assert [alias_of(found, name) for name in ("orders", "docs", "other")] == ["orders", "orders", "other"]
    assert mapping_of(found, definition) == MAPPING


def test_an_application_may_write_several_indexes(tmp_path: Path) -> None:
    more = ", more: {application: a, topic: others, entity: order, mapping: m.json}"
    other = ", other: {application: b, topic: others, entity: order, mapping: m.json}"
    found = deployment(tmp_path, f"{ONE[:-1]}{more}{other}}}")
    assert list(indexes_of_application(found, "a")) == ["orders", "more"]


def test_unknown_names_are_refused_with_those_that_there_are(tmp_path: Path) -> None:
    found = deployment(tmp_path, ONE)
    with pytest.raises(SettingsError) as refused:
        index_named(found, "order")
    assert refused.value.details["allowed"] == ["orders"]
    with pytest.raises(SettingsError, match="application: b"):
        indexes_of_application(found, "b")
    two = ONE[:-1] + ", more: {application: b, topic: docs, entity: order, mapping: m.json}}"
    with pytest.raises(SettingsError, match="topic fills several indexes"):
        alias_of(deployment(tmp_path, two), "docs")


def test_a_wrong_key_names_file_path_and_allowed_keys(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"indexes\.yaml.*indexes\.orders\.shard.*shards"):
        index_named(deployment(tmp_path, ONE.replace("mapping: m.json", "mapping: m.json, shard: 2")), "orders")


@pytest.mark.parametrize("mapping", ["{", "[]", {"properties": {"order": {}}}])
def test_a_mapping_of_something_else_is_refused_with_its_file(tmp_path: Path, mapping: Any) -> None:
    found = deployment(tmp_path, ONE, mapping)
    with pytest.raises(SettingsError, match=r"m\.json"):
        mapping_of(found, index_named(found, "orders"))
