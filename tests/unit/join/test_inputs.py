"""Which topics a join reads, and what is refused before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from include.errors import SettingsError
from include.join.config.check import CheckedJoin, checked_join
from include.join.config.definition import read_join
from include.join.config.deployed import spread_topics
from include.log import topics
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec
from include.log.registry.memory import MemoryRegistry
from include.record.schema import Column, TableSchema
from include.settings.deployment import Deployment

pytestmark = pytest.mark.unit

REVIEWS = topics.change("shop", "shop", "reviews")
BUSINESSES = topics.change("shop", "shop", "businesses")
COMPACT = {"cleanup.policy": "compact"}
OUTPUT = "output: {namespace: sales, source: reviewed}\n"


class Harness:
    """A log and a registry in memory, with two captured tables and a plain topic."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.registry, self.admin = folder, MemoryRegistry(), MemoryLog().admin()
        self.ids: dict[str, int] = {}
        for table, columns, key in (
            ("reviews", (Column("review_id", "int"), Column("biz_id", "int"), Column("stars", "int")), "review_id"),
            ("businesses", (Column("id", "int"), Column("name", "text")), "id"),
        ):
            schema = TableSchema("shop", table, columns, (key,))
            self.add(topics.change("shop", "shop", table), schema.key_avro("shop"), schema.envelope_avro("shop"))
        self.add("sales.notes", of("note_id", "int"), of("biz_id", ["null", "int"], "text", "string"))

    def add(self, topic: str, key: dict[str, Any], value: dict[str, Any], policy: dict[str, str] | None = None) -> None:
        self.admin.ensure(TopicSpec(topic, 1, COMPACT if policy is None else policy))
        self.registry.register(f"{topic}-key", key)
        self.ids[topic] = self.registry.register(f"{topic}-value", value, "NONE")

    def check(self, text: str, **more: Any) -> CheckedJoin:
        (self.folder / "join.yaml").write_text(text)
        places, join = read_join(self.folder / "join.yaml")
        return checked_join(places, join, self.registry, self.admin, **more)


def of(*fields: Any) -> dict[str, Any]:
    """A record of (name, type, name, type, …)."""
    named = [{"name": name, "type": kind} for name, kind in zip(fields[::2], fields[1::2], strict=True)]
    return {"type": "record", "name": "R", "fields": named}


@pytest.fixture
def world(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def joined(first: str, second: str) -> str:
    return f"join:\n  - {{{first}, join_keys: [biz_id]}}\n  - {{{second}}}\n{OUTPUT}"


BY_TOPIC = f"topic: {BUSINESSES}, join_keys: [id], aliases: [{{from: id, to: biz_id}}]"


def test_a_schema_id_stands_for_the_topic_that_it_is_registered_for(world: Harness) -> None:
    by_id = BY_TOPIC.replace(f"topic: {BUSINESSES}", f"schema_id: {world.ids[BUSINESSES]}")
    found = world.check(joined(f"schema_id: {world.ids[REVIEWS]}", by_id))
    assert [each.topic for each in found.inputs] == [REVIEWS, BUSINESSES]
    assert [each.schema.change for each in found.inputs] == [True, True]


def test_a_newer_version_of_the_schema_is_what_the_output_is_made_from(world: Harness) -> None:
    old = world.ids[REVIEWS]
    columns = (Column("review_id", "int"), Column("biz_id", "int"), Column("stars", "int"), Column("more", "text"))
    newer = TableSchema("shop", "reviews", columns, ("review_id",))
    world.registry.register(f"{REVIEWS}-value", newer.envelope_avro("shop"), "NONE")
    found = world.check(joined(f"schema_id: {old}", BY_TOPIC))
    assert [field["name"] for field in found.output.value["fields"]] == ["review_id", "biz_id", "stars", "more", "name"]


def test_a_schema_of_several_topics_is_refused_with_their_list(world: Harness) -> None:
    schema = world.registry.schema(world.ids["sales.notes"])
    world.add("sales.copies", of("note_id", "int"), schema)
    with pytest.raises(SettingsError, match="several topics") as refused:
        world.check(joined(f"schema_id: {world.ids['sales.notes']}", BY_TOPIC))
    assert refused.value.details["topics"] == ["sales.copies", "sales.notes"]
    assert refused.value.details["path"] == "join.0.schema_id"


def test_a_schema_that_nobody_registered_is_refused(world: Harness) -> None:
    with pytest.raises(SettingsError, match="nobody registered"):
        world.check(joined("schema_id: 999", BY_TOPIC))


def test_a_topic_that_is_not_there_is_refused_with_those_that_it_may_mean(world: Harness) -> None:
    with pytest.raises(SettingsError, match="there is no such topic") as refused:
        world.check(joined("topic: sales.note", BY_TOPIC))
    assert "sales.notes" in str(refused.value)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_forgets_rows_is_joined_only_when_it_is_named(world: Harness, policy: str) -> None:
    world.add("sales.short", of("note_id", "int"), of("biz_id", "int", "text", "string"), {"cleanup.policy": policy})
    text = joined("topic: sales.short", BY_TOPIC)
    with pytest.raises(SettingsError, match="forgets rows"):
        world.check(text)
    assert world.check(text, forgetting=["sales.short"]).inputs[0].topic == "sales.short"


def test_where_rows_of_a_plain_topic_stood_is_kept_unless_the_key_says_it(world: Harness) -> None:
    found = world.check(joined("topic: sales.notes", BY_TOPIC))
    assert [each.located for each in found.inputs] == [True, False]
    assert "sales.notes stood is kept" in found.notes[0]
    world.add("sales.states", of("biz_id", "int"), of("biz_id", "int", "state", "string"))
    assert [each.located for each in world.check(joined("topic: sales.states", BY_TOPIC)).inputs] == [False, False]


def test_rows_that_are_spread_by_other_columns_than_their_key_are_located(world: Harness) -> None:
    found = world.check(joined(f"topic: {REVIEWS}", BY_TOPIC), spread=[REVIEWS])
    assert [each.located for each in found.inputs] == [True, False]


def test_columns_that_spread_a_table_are_known_from_its_source() -> None:
    sources = {"sources": {"shop": {"databases": ["shop", "old"], "partition_by": {"orders": ["a"], "x.y": ["b"]}}}}
    assert spread_topics(Deployment(Path(), sources, {})) == {
        topics.change("shop", "shop", "orders"),
        topics.change("shop", "old", "orders"),
        topics.change("shop", "x", "y"),
    }


def test_a_key_that_determines_no_row_is_said(world: Harness) -> None:
    text = joined(f"topic: {REVIEWS}", BY_TOPIC).replace("source: reviewed", "source: reviewed, pkey: [biz_id]")
    found = world.check(text)
    assert not found.plan.determined
    assert "compete for one output" in found.notes[0]


def test_a_topic_is_not_joined_with_itself(world: Harness) -> None:
    with pytest.raises(SettingsError, match="joined with itself"):
        world.check(joined("topic: sales.notes", "topic: sales.notes, join_keys: [biz_id]"))


def test_json_is_refused_by_name(world: Harness) -> None:
    world.registry.register("sales.json-key", of("id", "int"))
    world.registry.register("sales.json-value", {"type": "object"}, "NONE", "JSON")
    world.admin.ensure(TopicSpec("sales.json", 1, COMPACT))
    with pytest.raises(SettingsError, match="records in Avro"):
        world.check(joined("topic: sales.json", BY_TOPIC))


def test_a_topic_without_a_schema_is_refused(world: Harness) -> None:
    world.admin.ensure(TopicSpec("sales.new", 1, COMPACT))
    with pytest.raises(SettingsError, match="no schema of this topic"):
        world.check(joined("topic: sales.new", BY_TOPIC))
