"""`lyrebird index mapping`, `create`, `check` on a real registry and a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from include.cli.index import commands as index
from include.errors import LyrebirdError
from include.index.server.elasticsearch import ElasticsearchIndex
from include.log.registry.confluent import ConfluentRegistry
from include.record.schema import Column, TableSchema
from include.settings.connections import Elasticsearch
from tests.support.documents.topic import VALUE

DEPLOYMENT = """
registry: {{url: "{registry}"}}
elasticsearch: {{url: "{elasticsearch}"}}
indexes:
  {name}: {{application: a, topic: {name}, entity: order, mapping: mappings/{name}.yaml{more}}}
"""
Run = Callable[..., Result]


@pytest.fixture
def registry(registry_url: str) -> Iterator[ConfluentRegistry]:
    found = ConfluentRegistry(registry_url)
    yield found
    found.close()


@pytest.fixture
def declare(
    registry_url: str, elasticsearch_url: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    def write(more: str) -> None:
        text = DEPLOYMENT.format(registry=registry_url, elasticsearch=elasticsearch_url, name=unique, more=more)
        (tmp_path / "all.yaml").write_text(text)

    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    write("")
    yield write
    server = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    server.client.indices.delete(index=f"{unique}-v1", ignore_unavailable=True)
    server.close()


@pytest.fixture
def run(declare: Callable[[str], None]) -> Run:
    return lambda *arguments: CliRunner().invoke(index.command, arguments)


def value(*fields: tuple[str, Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
    kept = [field for field in VALUE["fields"] if field["name"] not in without]
    more = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
    return {**VALUE, "fields": [*kept, *more]}


def test_a_topic_gets_a_mapping_and_the_mapping_an_index_that_fits(
    run: Run, registry: ConfluentRegistry, unique: str, tmp_path: Path
) -> None:
    registry.register(f"{unique}-value", value())
    assert run("mapping", unique, "--write").exit_code == 0
    again = run("mapping", unique, "--write")
    assert isinstance(again.exception, LyrebirdError)
    assert "file exists" in str(again.exception)
    text = (tmp_path / "mappings" / f"{unique}.yaml").read_text()
    assert text == run("mapping", unique).stdout
    assert json.loads(run("mapping", unique, "--json").stdout) == yaml.safe_load(text)
    assert run("create", unique).exit_code == 0
    checked = run("check", unique)
    assert checked.exit_code == 0
    assert f"{unique}-v1 is as declared\n{unique} (schema " in checked.stdout
    assert "as order: fits" in checked.stdout


def test_what_a_newer_schema_adds_and_what_would_stop_the_indexer_is_told(
    run: Run, declare: Callable[[str], None], registry: ConfluentRegistry, unique: str
) -> None:
    registry.register(f"{unique}-value", value())
    run("mapping", unique, "--write")
    run("create", unique)
    newer = value(("note", "double"), ("city", "string"), without=("note",))
    registry.register(f"{unique}-value", newer, "NONE")
    checked = run("check", unique)
    assert checked.exit_code == 0
    assert "added    before the first such document: order.city" in checked.stdout
    registry.register(f"{unique}-value", value(("order_id", "double"), without=("order_id",)), "NONE")
    checked = run("check", unique)
    assert checked.exit_code == 1
    assert "stops    order.order_id: double into long: the fraction is cut" in checked.stdout
    assert f"lyrebird index rebuild {unique}" in checked.stdout
    declare(", coerced: [order.order_id]")
    checked = run("check", unique)
    assert checked.exit_code == 0
    assert "coerced  accepted: the fraction is cut: 5.9 becomes 5\n           order.order_id" in checked.stdout
    found = json.loads(run("check", unique, "--json").stdout)
    assert [each["place"] for each in found["topics"][0]["findings"] if each["accepted"]] == ["order.order_id"]


def test_a_change_topic_that_nobody_declared_comes_with_the_entry_to_add(
    run: Run, registry: ConfluentRegistry, unique: str
) -> None:
    table = TableSchema("shop", "orders", (Column("id", "bigint"), Column("price", "decimal", False, 9, 2)), ("id",))
    topic = f"cdc.{unique}.shop.orders"
    registry.register(f"{topic}-value", table.envelope_avro(unique), "NONE")
    found = run("mapping", topic)
    assert yaml.safe_load(found.stdout)["properties"]["orders"]["properties"] == {
        "id": {"type": "long"},
        "price": {"type": "double"},
    }
    entry = yaml.safe_load(found.stderr.split("\n", 1)[1])["indexes"]["orders"]
    assert (entry["topic"], entry["value"], entry["entity"]) == (topic, "change", "orders")


def test_a_topic_without_a_schema_is_told(run: Run) -> None:
    result = run("mapping", "nothing_here")
    assert isinstance(result.exception, LyrebirdError)
    assert "nothing_here-value" in str(result.exception)
