"""`lyrebird index replay-dead` on real servers: a mended mapping takes a letter, a dry run writes nothing."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from include.cli.index import commands as index
from include.clock import SystemClock
from include.index.generations.active import change_fed
from include.index.server.elasticsearch import ElasticsearchIndex
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.kafka.writer import KafkaWriter
from include.log.ports import TopicSpec
from include.log.publishing.dead_letter import DeadLetter
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Elasticsearch
from tests.support.documents.topic import MAPPING, DocumentTopic

DEPLOYMENT = """
cluster: {{name: local, type: test}}
kafka: {{bootstrap: "{kafka}"}}
registry: {{url: "{registry}"}}
elasticsearch: {{url: "{elasticsearch}"}}
indexes:
  {name}: {{application: a, topic: {name}, entity: order, mapping: mapping.json}}
"""


def test_letters_are_tried_and_then_written_once_the_mapping_takes_them(
    kafka: str, registry_url: str, elasticsearch_url: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = DEPLOYMENT.format(kafka=kafka, registry=registry_url, elasticsearch=elasticsearch_url, name=unique)
    (tmp_path / "all.yaml").write_text(text)
    mended = copy.deepcopy(MAPPING)
    mended["properties"]["order"]["properties"]["note"] = {"type": "keyword"}
    (tmp_path / "mapping.json").write_text(json.dumps(mended))
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    writer = KafkaWriter(kafka, f"{unique}.writer", {})
    topic = DocumentTopic(unique, KafkaAdmin(kafka, {}), writer, ConfluentRegistry(registry_url), partitions=1)
    topic.put(1, note="no number")
    topic.spoil(2, b"\x01rubbish")
    reader = KafkaReader(kafka, {})
    dead = topics.dead(unique, "a")
    KafkaAdmin(kafka, {}).ensure(TopicSpec(dead, 1, topics.policy(dead)))
    records = list(reader.read(unique, 0, 0, reader.end_offsets(unique)[0]))
    writer.begin()
    for record in records:
        letter = DeadLetter(record, "a", "refused", SystemClock().now_us())
        writer.append(dead, letter.key, letter.value, headers=letter.headers)
    writer.commit()
    server = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    try:
        assert CliRunner().invoke(index.command, ["create", unique]).exit_code == 0
        tried = CliRunner().invoke(index.command, ["replay-dead", unique, "--dry-run", "--json"])
        ((told,),) = [of["topics"] for of in json.loads(tried.output)["indexes"]]
        assert (told["read"], told["done"], len(told["refused"]), tried.exit_code) == (2, 1, 1, 1)
        assert server.get(f"{unique}-v1", "1") is None
        # Another generation that is fed, of before the field was there.
        older = copy.deepcopy(MAPPING)
        del older["properties"]["order"]["properties"]["note"]
        server.create(f"{unique}-v2", {"mappings": older})
        change_fed(server, unique, add=[2])
        done = CliRunner().invoke(index.command, ["replay-dead", unique])
        assert f"{unique}-v2 from {unique}: 2 letters, 1 written" in done.output
        assert "2 letters, 1 written, 0 stale, 1 still refused" in done.output
        assert "wire format" in done.output
        assert done.exit_code == 1
        for name in (f"{unique}-v1", f"{unique}-v2"):
            found = server.get(name, "1")
            assert found is not None
            assert found.source["order"]["note"] == "no number"
        again = json.loads(CliRunner().invoke(index.command, ["replay-dead", unique, "--json"]).output)
        assert [of["topics"][0]["stale"] for of in again["indexes"]] == [1, 1]
    finally:
        server.client.indices.delete(index=f"{unique}-v1,{unique}-v2", ignore_unavailable=True)
        server.close()
        reader.close()
        writer.close()
