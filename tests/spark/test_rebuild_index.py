"""A rebuild whose ranges are Spark jobs: beside a promoted generation, and gone on with after its driver ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.audit.search.generation_proof import prove
from include.errors import Terminal
from include.index.deployed import DeployedIndex
from include.index.generations.active import read_fed
from include.index.generations.promote import promote, standing
from include.index.generations.rebuild.deployed import carry_out, plan_of
from include.index.generations.rebuild.pace import RebuildProgress
from include.index.generations.rebuild.rebuild_spark import spark_pool
from include.index.generations.rebuild.run import ProgressReporter, RebuiltGeneration
from include.log.kafka.log import KafkaAdmin
from include.log.kafka.writer import KafkaWriter
from include.log.registry.confluent import ConfluentRegistry
from include.settings.deployment import Deployment
from tests.support.documents.topic import MAPPING, DocumentTopic

DEPLOYMENT = """
cluster: {{name: local, type: test}}
kafka: {{bootstrap: "{kafka}"}}
registry: {{url: "{registry}"}}
elasticsearch: {{url: "{elasticsearch}"}}
indexes:
  {name}: {{application: index_{name}, topic: {name}, entity: order, mapping: mapping.json, coerced: [order.note]}}
"""
DOCUMENTS = 900


@pytest.fixture
def topic(kafka: str, registry_url: str, unique: str) -> Iterator[DocumentTopic]:
    writer = KafkaWriter(kafka, f"{unique}.writer", {})
    yield DocumentTopic(unique, KafkaAdmin(kafka, {}), writer, ConfluentRegistry(registry_url))
    writer.close()


@pytest.fixture
def on(kafka: str, registry_url: str, elasticsearch_url: str, unique: str, tmp_path: Path) -> Iterator[DeployedIndex]:
    text = DEPLOYMENT.format(kafka=kafka, registry=registry_url, elasticsearch=elasticsearch_url, name=unique)
    (tmp_path / "all.yaml").write_text(text)
    (tmp_path / "mapping.json").write_text(json.dumps(MAPPING))
    with DeployedIndex.of(Deployment.load(tmp_path, {}), unique) as found:
        yield found
        for stored in found.admin.generations(unique):
            found.admin.delete(str(stored.name))


def test_ranges_are_spark_jobs_and_a_rebuild_goes_on_where_its_driver_ended(
    spark: SparkSession, topic: DocumentTopic, on: DeployedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("include.index.generations.rebuild.run._RANGE", 200)
    topic.write([(n, {"state": "completed"}) for n in range(DOCUMENTS)])
    topic.write([(n, None) for n in range(0, DOCUMENTS, 9)])
    seen: list[RebuildProgress] = []

    def work(tell: ProgressReporter) -> RebuiltGeneration:
        return carry_out(on, plan_of(on), partial(spark_pool, spark), tell, within_s=0.0)

    def die(reached: RebuildProgress) -> None:
        if reached.done:
            raise Terminal("the driver ends here")

    with pytest.raises(Terminal, match="ends here"):
        work(ProgressReporter(die, lambda _: None))
    assert plan_of(on).begun
    done = work(ProgressReporter(seen.append, lambda _: None))
    assert seen[0].total < sum(on.ends(topic.name).values())
    assert seen[-1].done == seen[-1].total
    assert done.counts["read"] == DOCUMENTS + DOCUMENTS // 9
    assert done.info.name == f"{on.alias}-v1"
    proof = prove(on, done.info, None)
    assert (proof.findings, proof.audits[0].expected) == (0, DOCUMENTS - DOCUMENTS // 9)
    found = standing(on.index, on.admin, done.plan.name, on.definition, ends=on.ends, clock=on.clock, within_s=0.0)
    assert found.refusals == ()
    promote(on.index, on.admin, found)

    again = work(ProgressReporter(seen.append, lambda _: None))
    assert (again.info.name, read_fed(on.index, on.alias)) == (f"{on.alias}-v2", (1, 2))
    (equal,) = prove(on, again.info, done.info).equalities
    assert (equal.findings, equal.documents[0]) == (0, proof.audits[0].expected)
