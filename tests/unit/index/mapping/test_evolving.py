from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from include.errors import InvalidRecord, Terminal
from include.index.mapping.evolving import MappingEvolution
from include.index.server.memory_admin import MemoryAdmin
from include.index.server.port import IndexInfo
from include.log.memory import MemoryRegistry
from include.record.codec import Encoder
from include.record.json.formats import Values
from tests.support.documents.topic import MAPPING, VALUE, one_topic

NAME = "orders-v1"
CITY = {**VALUE, "fields": [*VALUE["fields"], {"name": "city", "type": ["null", "string"], "default": None}]}


class Harness:
    def __init__(self) -> None:
        self.registry = MemoryRegistry()
        self.admin = MemoryAdmin()
        self.admin.create(NAME, {"mappings": copy.deepcopy(MAPPING)})
        self.looks = 0
        info = self.admin.describe(NAME)
        assert info is not None
        definition = one_topic("docs", coerced=["order.note"])
        evolves = MappingEvolution.of(info, definition, MAPPING)
        values = Values(self.registry, "plain")
        puts = self.admin.put_mapping
        self.bodies = evolves.bodies(values, self._described, puts, self.registry, "docs", "order", "plain")

    def _described(self, name: str) -> IndexInfo | None:
        self.looks += 1
        return self.admin.describe(name)

    def encoder(self, schema: dict[str, Any]) -> Encoder:
        return Encoder(self.registry.register("docs-value", schema, "NONE"), schema)

    def fields(self) -> set[str]:
        info = self.admin.describe(NAME)
        assert info is not None
        return set(info.mapping["properties"]["order"]["properties"])


@pytest.fixture
def world() -> Harness:
    return Harness()


def test_the_mapping_has_a_new_field_before_the_first_body_that_has_it_is_handed_out(world: Harness) -> None:
    old, new = world.encoder(VALUE), world.encoder(CITY)
    assert world.bodies(old({"order_id": 1})) is not None
    assert "city" not in world.fields()
    body = world.bodies(new({"order_id": 1, "city": "Rome"}))
    assert body is not None
    assert b"Rome" in body
    assert "city" in world.fields()


def test_another_generation_grows_likewise(world: Harness) -> None:
    there = world.admin.create("orders-v2", {"mappings": copy.deepcopy(MAPPING)})
    first = MappingEvolution("orders-v1", "u", json.dumps(MAPPING), ("order.note",))
    second = first.on(there)
    assert (second.index, second.uuid) == ("orders-v2", there.uuid)
    values = Values(world.registry, "plain")
    puts = world.admin.put_mapping
    bodies = second.bodies(values, world.admin.describe, puts, world.registry, "docs", "order", "plain")
    bodies(world.encoder(CITY)({"order_id": 1, "city": "Rome"}))
    info = world.admin.describe("orders-v2")
    assert info is not None
    assert "city" in info.mapping["properties"]["order"]["properties"]
    assert "city" not in world.fields()


def test_a_schema_is_met_once_and_a_deletion_never(world: Harness) -> None:
    encode = world.encoder(VALUE)
    for n in range(3):
        world.bodies(encode({"order_id": n}))
    assert world.bodies(None) is None
    assert world.looks == 1


def test_a_broken_record_never_touches_the_mapping(world: Harness) -> None:
    value = world.encoder(CITY)({"order_id": 1, "city": "Rome"})
    for broken in (value[:-1], value + b"x", b"\x00\x00\x00\x00\x63x", b"text", b""):
        with pytest.raises(InvalidRecord):
            world.bodies(broken)
    assert world.looks == 0
    assert "city" not in world.fields()


def test_an_incompatible_schema_stops_with_its_topic_at_every_record(world: Harness) -> None:
    schema = {**VALUE, "fields": [{"name": "order_id", "type": "boolean"}]}
    value = world.encoder(schema)({"order_id": True})
    for _ in range(2):
        with pytest.raises(Terminal, match=r"docs.*order\.order_id: boolean into long.*lyrebird index rebuild orders"):
            world.bodies(value)
    assert world.looks == 2
