"""One suite for the double and the real server: what rebuilds and promotions rely on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from include.errors import Terminal, Transient
from include.index.bulk.request import document_line
from include.index.identity import DocumentIdentity
from include.index.mapping.declared import creation
from include.index.metadata import LIVING
from include.index.server.admin import IndexAdmin
from include.index.server.auto_create import require_no_auto_create
from include.index.server.durability import require_durable
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.elasticsearch_admin import ElasticsearchAdmin
from include.index.server.memory_admin import MemoryAdmin
from include.index.server.port import SearchIndex
from include.settings.connections import Elasticsearch
from tests.support.documents.topic import MAPPING, one_topic

DEFINITION = one_topic("t")


@dataclass
class Harness:
    """One server, and names on it that are this test's own."""

    index: SearchIndex
    admin: IndexAdmin
    alias: str

    def make(self, generation: int, *, leads: bool = False) -> str:
        name = f"{self.alias}-v{generation}"
        body = creation(self.alias, DEFINITION, MAPPING)
        aliases = {self.alias: {"filter": LIVING, "is_write_index": True}} if leads else {}
        self.index.create(name, {**body, "aliases": aliases})
        return name

    def write(self, name: str, *documents: tuple[str, int, bool]) -> None:
        lines = []
        for n, (doc_id, version, deleted) in enumerate(documents):
            metadata = json.dumps({"doc_id": doc_id, "version": version, "deleted": deleted}).encode()
            body = None if deleted else b'{"state":"completed"}'
            lines.append(document_line(n, DocumentIdentity(doc_id, version), "order", body, metadata).data)
        assert self.index.bulk(name, b"".join(lines)).status == 200

    def leads_to(self) -> str | None:
        info = self.index.describe(self.alias)
        return info.name if info else None


@pytest.fixture(params=["memory", "elasticsearch"])
def world(request: pytest.FixtureRequest, unique: str) -> Iterator[Harness]:
    if request.param == "memory":
        server = MemoryAdmin()
        yield Harness(server, server, unique)
        return
    settings = Elasticsearch(url=request.getfixturevalue("elasticsearch_url"))
    index = ElasticsearchIndex(settings)
    admin = ElasticsearchAdmin(settings, index.client)
    try:
        yield Harness(index, admin, unique)
    finally:
        for name in [f"{unique}-v{n}" for n in (1, 2, 3, 10)] + [f"{unique}-other-v1"]:
            admin.delete(name)
        index.close()


def test_generations_of_an_alias_are_listed_by_number_and_no_others(world: Harness) -> None:
    assert world.admin.generations(world.alias) == []
    ten, two = world.make(10), world.make(2, leads=True)
    world.index.create(f"{world.alias}-other-v1", {"mappings": {}})
    world.write(two, ("1", 1, False), ("2", 1, False), ("3", 1, True))
    world.index.refresh(two)
    found = world.admin.generations(world.alias)
    assert [(str(one.name), one.documents, one.serving) for one in found] == [(two, 2, True), (ten, 0, False)]
    info = world.index.describe(two)
    assert info is not None
    assert found[0].uuid == info.uuid
    assert found[0].size_bytes > 0
    assert found[0].created_ms >= found[1].created_ms


def test_an_alias_moves_in_one_stroke_and_hides_tombstones_behind_the_new_index(world: Harness) -> None:
    one, two = world.make(1, leads=True), world.make(2)
    world.admin.move_alias(world.alias, two, source=one)
    info = world.index.describe(world.alias)
    assert info is not None
    assert (info.name, info.aliases[world.alias]["filter"]) == (two, LIVING)
    world.admin.move_alias(world.alias, one, source=two)
    assert world.leads_to() == one


def test_of_two_moves_from_the_same_index_one_is_refused_and_changes_nothing(world: Harness) -> None:
    one, two, three = world.make(1, leads=True), world.make(2), world.make(3)
    world.admin.move_alias(world.alias, two, source=one)
    with pytest.raises(Terminal, match="leads elsewhere"):
        world.admin.move_alias(world.alias, three, source=one)
    assert world.leads_to() == two


def test_of_two_moves_from_nowhere_one_is_refused_and_changes_nothing(world: Harness) -> None:
    one, two = world.make(1), world.make(2)
    world.admin.move_alias(world.alias, one, source=None)
    with pytest.raises(Terminal, match="leads elsewhere"):
        world.admin.move_alias(world.alias, two, source=None)
    assert world.leads_to() == one


def test_a_second_index_cannot_be_made_under_an_alias_that_leads_somewhere(world: Harness) -> None:
    one = world.make(1, leads=True)
    with pytest.raises((Terminal, Transient)):
        world.make(2, leads=True)
    assert world.leads_to() == one
    assert world.index.describe(f"{world.alias}-v2") is None


def test_an_alias_is_not_moved_to_or_from_an_index_that_is_not_there(world: Harness) -> None:
    one = world.make(1, leads=True)
    for to, source in ((f"{world.alias}-v9", one), (one, f"{world.alias}-v9")):
        with pytest.raises(Terminal, match="does not exist"):
            world.admin.move_alias(world.alias, to, source=source)
    assert world.leads_to() == one


def test_an_index_is_retired_only_while_the_one_named_serves(world: Harness) -> None:
    one, two, three = world.make(1, leads=True), world.make(2), world.make(3)
    world.admin.retire(world.alias, three, serving=one)
    assert world.index.describe(three) is None
    world.admin.move_alias(world.alias, two, source=one)
    with pytest.raises(Terminal, match="leads elsewhere"):
        world.admin.retire(world.alias, two, serving=one)
    assert world.leads_to() == two
    world.admin.retire(world.alias, one, serving=two)
    info = world.index.describe(world.alias)
    assert info is not None
    assert (info.name, info.aliases[world.alias]["filter"]) == (two, LIVING)
    with pytest.raises(Terminal, match="does not exist"):
        world.admin.retire(world.alias, one, serving=two)


def test_where_the_alias_leads_nowhere_an_index_is_retired_only_then(world: Harness) -> None:
    one, two = world.make(1), world.make(2)
    world.admin.retire(world.alias, one, serving=None)
    assert world.index.describe(one) is None
    with pytest.raises(Terminal, match="does not exist"):
        world.admin.retire(world.alias, one, serving=None)
    world.admin.move_alias(world.alias, two, source=None)
    with pytest.raises(Terminal, match="leads elsewhere"):
        world.admin.retire(world.alias, two, serving=None)
    assert world.leads_to() == two


def test_the_server_tells_that_no_write_makes_an_index(world: Harness) -> None:
    assert world.admin.auto_create() == "false"
    require_no_auto_create(world.admin, world.alias)


def test_deleting_takes_an_index_and_its_documents_and_may_be_done_again(world: Harness) -> None:
    one = world.make(1, leads=True)
    assert world.admin.delete(one)
    assert not world.admin.delete(one)
    assert world.leads_to() is None
    with pytest.raises(Terminal, match="does not exist"):
        world.admin.count(one)


def test_settings_change_and_go_back_to_their_default(world: Harness) -> None:
    one = world.make(1)
    world.admin.put_settings(one, {"refresh_interval": "-1", "number_of_replicas": 0})
    found = world.admin.settings(one)
    assert (found["refresh_interval"], found["number_of_replicas"]) == ("-1", "0")
    world.admin.put_settings(one, {"refresh_interval": None})
    assert "refresh_interval" not in world.admin.settings(one)
    with pytest.raises(Terminal, match="non dynamic"):
        world.admin.put_settings(one, {"number_of_shards": 3})


def test_an_index_that_acknowledges_before_it_writes_to_disk_is_refused(world: Harness) -> None:
    one, two = world.make(1), world.make(2)
    require_durable(world.admin, [one, two])
    world.admin.put_settings(two, {"translog.durability": "async"})
    with pytest.raises(Terminal, match=rf"may lose what it has acknowledged.*{two}"):
        require_durable(world.admin, [one, two])
    world.admin.put_settings(two, {"translog.durability": "request"})
    require_durable(world.admin, [one, two])


def test_a_mapping_takes_new_fields_and_refuses_another_type(world: Harness) -> None:
    one = world.make(1)
    world.admin.put_mapping(one, {"properties": {"order": {"properties": {"city": {"type": "keyword"}}}}})
    info = world.index.describe(one)
    assert info is not None
    assert info.mapping["properties"]["order"]["properties"]["city"] == {"type": "keyword"}
    changed: dict[str, Any] = {"properties": {"order": {"properties": {"state": {"type": "integer"}}}}}
    with pytest.raises(Terminal, match="cannot be changed"):
        world.admin.put_mapping(one, changed)


def test_rules_for_new_names_are_put_in_the_place_of_those_that_there_are(world: Harness) -> None:
    one = world.make(1)
    for name in ("a", "b"):
        rule = {name: {"path_match": f"order.{name}.*", "mapping": {"type": "long"}}}
        world.admin.put_mapping(one, {"dynamic_templates": [rule]})
        world.admin.put_mapping(one, {"properties": {"order": {"properties": {name: {"type": "long"}}}}})
        info = world.index.describe(one)
        assert info is not None
        assert info.mapping["dynamic_templates"] == [rule]


def test_a_count_sees_what_was_refreshed_and_what_matches(world: Harness) -> None:
    one = world.make(1, leads=True)
    world.admin.put_settings(one, {"refresh_interval": "-1"})
    world.write(one, ("1", 1, False), ("2", 1, True))
    world.index.refresh(one)
    world.write(one, ("3", 1, False))
    assert world.admin.count(one) == 2
    assert world.admin.count(one, LIVING) == 1
    assert world.admin.count(one, {"exists": {"field": "order.state"}}) == 1
    assert world.admin.count(one, {"exists": {"field": "_ignored"}}) == 0


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("put_mapping", [{"properties": {}}]),
        ("put_settings", [{"refresh_interval": "-1"}]),
        ("settings", []),
        ("count", []),
    ],
)
def test_an_index_that_is_not_there_is_named(world: Harness, call: str, arguments: list[Any]) -> None:
    missing = f"{world.alias}-v9"
    with pytest.raises(Terminal, match=f"does not exist.*{missing}"):
        getattr(world.admin, call)(missing, *arguments)


def test_a_server_that_is_away_is_told_by_type() -> None:
    admin = ElasticsearchAdmin(Elasticsearch(url="http://127.0.0.1:1"))
    with pytest.raises(Transient, match="does not answer"):
        admin.generations("x")
