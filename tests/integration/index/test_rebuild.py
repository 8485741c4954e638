"""Generations on real servers: rebuilt, promoted, rolled back, dropped, and rebuilt from nothing but the topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from include.cli.index import commands as index
from include.index.bulk.request import document_line
from include.index.generations.active import read_fed, serving
from include.index.identity import DocumentIdentity
from include.index.metadata import Metadata, TopicOrigin
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.elasticsearch_admin import ElasticsearchAdmin
from include.log.kafka.log import KafkaAdmin
from include.log.kafka.writer import KafkaWriter
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Elasticsearch
from tests.support.documents.topic import MAPPING, DocumentTopic

DEPLOYMENT = """
cluster: {{name: test, type: data}}
kafka: {{bootstrap: "{kafka}"}}
registry: {{url: "{registry}"}}
elasticsearch: {{url: "{elasticsearch}"}}
indexes:
  {name}:
    {{application: a, topic: {name}, entity: order, mapping: mapping.json, coerced: [order.note], bulk_bytes: 200000}}
"""
DOCUMENTS = 3000
Run = Callable[..., Result]


@pytest.fixture
def server(elasticsearch_url: str, unique: str) -> Iterator[ElasticsearchIndex]:
    settings = Elasticsearch(url=elasticsearch_url)
    found = ElasticsearchIndex(settings)
    yield found
    admin = ElasticsearchAdmin(settings, found.client)
    for stored in admin.generations(unique):
        admin.delete(str(stored.name))
    found.close()


@pytest.fixture
def topic(kafka: str, registry_url: str, unique: str) -> Iterator[DocumentTopic]:
    writer = KafkaWriter(kafka, f"writer.{unique}")
    yield DocumentTopic(unique, KafkaAdmin(kafka), writer, ConfluentRegistry(registry_url), partitions=3)
    writer.close()


@pytest.fixture
def run(
    kafka: str,
    registry_url: str,
    elasticsearch_url: str,
    unique: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: ElasticsearchIndex,
) -> Run:
    text = DEPLOYMENT.format(kafka=kafka, registry=registry_url, elasticsearch=elasticsearch_url, name=unique)
    (tmp_path / "all.yaml").write_text(text)
    (tmp_path / "mapping.json").write_text(json.dumps(MAPPING))
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))

    def call(*arguments: str, fails: bool = False) -> Result:
        found = CliRunner().invoke(index.command, arguments)
        assert fails or found.exception is None, (found.output, found.exception)
        return found

    return call


def last(found: Result) -> Any:
    return json.loads(found.stdout.splitlines()[-1])


def states(run: Run, name: str) -> list[tuple[int, str, int]]:
    rows = last(run("generations", name, "--json"))["generations"]
    return [(row["generation"], row["state"], row["documents"]) for row in rows]


def test_generations_are_made_from_the_topic_promoted_rolled_back_and_dropped(
    run: Run, topic: DocumentTopic, server: ElasticsearchIndex, unique: str
) -> None:
    fields = {"state": "completed", "total_price": Decimal("12.30"), "note": "1"}
    topic.write([(n, fields) for n in range(DOCUMENTS)])
    topic.write([(n, {**fields, "state": "updated"}) for n in range(0, DOCUMENTS, 3)])
    topic.write([(n, None) for n in range(0, DOCUMENTS, 10)])
    living = DOCUMENTS - DOCUMENTS // 10

    # Nothing is there but the topic: as after the loss of every index.
    assert run("rebuild", unique, "--dry-run").stdout.startswith(f"{unique}-v1 is new; readers have no index\n1. note")
    done = last(run("rebuild", unique, "--tasks", "2", "--json"))
    assert done["proof"]["findings"] == 0
    assert [each["expected"] for each in done["proof"]["audit"]] == [living]
    counts = done["rebuilt"]["counts"]
    assert counts["read"] == sum(count for name, count in counts.items() if name != "read")
    assert run("promote", unique).stdout == f"readers of {unique} have {unique}-v1 from now on\n"

    # A second one beside it, compared with the first, while readers keep that.
    topic.write([(n, fields) for n in range(0, DOCUMENTS, 10)])
    rebuilt = run("rebuild", unique)
    # Nobody feeds the first here: what it has not read yet speaks against neither.
    assert f"{DOCUMENTS // 10:,} documents were written meanwhile and are not judged" in rebuilt.stdout
    assert rebuilt.stdout.splitlines()[-1] == f"next: lyrebird index promote {unique} --generation 2"
    assert serving(server, unique).name == f"{unique}-v1"
    assert read_fed(server, unique) == (1, 2)
    assert states(run, unique) == [(1, "serving", living), (2, "fed", DOCUMENTS)]
    assert run("promote", unique).exit_code == 0
    assert serving(server, unique).name == f"{unique}-v2"
    back = run("promote", unique, "--generation", "1", "--wait", "0", "--dry-run", fails=True)
    assert "behind" in str(back.exception)
    assert run("drop", unique, "--generation", "1", "--yes").exit_code == 0
    assert states(run, unique) == [(2, "serving", DOCUMENTS)]

    # Equal ones, and one document altered by hand.
    done = last(run("rebuild", unique, "--json"))
    (equal,) = done["proof"]["equality"]
    assert (equal["findings"], equal["documents"]) == (0, {"old": DOCUMENTS, "new": DOCUMENTS})
    assert last(run("promote", unique, "--dry-run", "--json")) | {"proof": None} == {
        "index": f"{unique}-v3",
        "before": f"{unique}-v2",
        "moved": False,
        "against": [],
        "proof": None,
    }
    metadata = Metadata(TopicOrigin("test", "data", unique, 1)).living(0, 5, "1", 1 << 52, b"{}")
    server.bulk(f"{unique}-v3", document_line(0, DocumentIdentity("1", 1 << 52), "order", b"{}", metadata).data)
    unfit = run("promote", unique, "--json", fails=True)
    assert "1 documents differ" in str(unfit.exception)
    assert serving(server, unique).name == f"{unique}-v2"
