"""`lyrebird index`, `search` and `audit` on real servers: what they print, and their exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from include.cli.audit import commands as audit
from include.cli.index import commands as index
from include.cli.search import commands as search
from include.errors import LyrebirdError
from include.index.bulk.request import document_line
from include.index.identity import DocumentIdentity
from include.index.server.elasticsearch import ElasticsearchIndex
from include.log.kafka.log import KafkaAdmin, KafkaWriter
from include.log.ports import TopicSpec
from include.settings.connections import Elasticsearch
from tests.support.documents.topic import MAPPING

DEPLOYMENT = """
cluster: {{name: local, type: test}}
kafka: {{bootstrap: "{kafka}"}}
registry: {{url: "{registry}"}}
elasticsearch: {{url: "{elasticsearch}"}}
indexes:
  {name}: {{application: a, topic: {name}, entity: order, mapping: mapping.json}}
audits:
  {name}: {{index: {name}}}
"""
COMMANDS = {"index": index.command, "search": search.command, "audit": audit.command}
Run = Callable[..., Result]


@pytest.fixture
def server(elasticsearch_url: str, unique: str) -> Iterator[ElasticsearchIndex]:
    found = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    yield found
    found.client.indices.delete(index=f"{unique}-v1", ignore_unavailable=True)
    found.close()


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
    return lambda name, *arguments: CliRunner().invoke(COMMANDS[name], arguments)


def test_an_index_is_created_once_and_is_as_declared(run: Run, unique: str) -> None:
    assert run("index", "create", unique).output == f"{unique}-v1 created, alias {unique}\n"
    again = json.loads(run("index", "create", unique, "--json").output)
    assert (again["index"], again["created"]) == (f"{unique}-v1", False)
    checked = run("index", "check", unique).output
    assert checked == f"{unique}-v1 is as declared\n{unique} has no schema yet: nothing can be said of its documents\n"
    status = json.loads(run("index", "status", unique, "--json").output)
    assert (status["topic"], status["waiting"], status["complete"]) == (unique, 0, None)


def test_what_a_transaction_without_an_end_hides_from_an_index_is_told(run: Run, unique: str, kafka: str) -> None:
    run("index", "create", unique)
    KafkaAdmin(kafka).ensure(TopicSpec(unique, 2))
    writer = KafkaWriter(kafka, unique)
    writer.begin()
    writer.append(unique, b"k", b"v", partition=1)
    writer.next_offsets()
    try:
        status = json.loads(run("index", "status", unique, "--json").output)
        assert (status["waiting"], status["open_transactions"]) == (0, {"1": 0})
        text = run("index", "status", unique).output
        assert "partition 1 shows nothing from 0 on, as a transaction has no end" in text
        assert f"find-hanging --topic {unique} --partition 1" in text
    finally:
        writer.close()


def test_a_live_index_that_differs_is_told_with_the_next_step(run: Run, unique: str, tmp_path: Path) -> None:
    run("index", "create", unique)
    changed = json.loads(json.dumps(MAPPING))
    changed["properties"]["order"]["properties"]["state"] = {"type": "text"}
    (tmp_path / "mapping.json").write_text(json.dumps(changed))
    result = run("index", "check", unique)
    assert result.exit_code == 1
    assert "order.state: declared text, keyword in the index" in result.output
    assert f"next: mend mapping.json, then lyrebird index rebuild {unique}" in result.output


def test_an_order_is_answered_or_said_not_to_be_there(run: Run, unique: str, server: ElasticsearchIndex) -> None:
    run("index", "create", unique)
    missing = run("search", "order", "7")
    assert missing.exit_code == 1
    assert missing.stderr == f"error: order 7 is not in index {unique}\n"
    line = document_line(0, DocumentIdentity("7", 1), "order", b'{"order_id":7}', b'{"doc_id":"7","deleted":false}')
    server.bulk(f"{unique}-v1", line.data)
    found = run("search", "order", "7", "--json")
    assert found.exit_code == 0
    assert json.loads(found.output)["order"] == {"order_id": 7}


def test_an_entity_that_no_index_holds_is_refused_with_those_that_there_are(run: Run) -> None:
    result = run("search", "invoice", "7")
    assert isinstance(result.exception, LyrebirdError)
    assert "allowed=['order']" in str(result.exception)


def test_an_audit_with_nothing_to_judge_ends_with_4_and_one_that_cannot_be_made_with_2(run: Run, unique: str) -> None:
    result = run("audit", "search", unique)
    assert result.exit_code == 4
    assert "no index serves this alias yet" in result.stdout
    run("index", "create", unique)
    result = run("audit", "search", unique, "--json")
    assert (result.exit_code, json.loads(result.stdout)["verdict"]) == (4, "nothing")
    assert run("audit", "search", "nobody").exit_code == 2
