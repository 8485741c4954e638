"""The indexer end to end: records in Kafka become documents in Elasticsearch, and a restart goes on where it was."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.audit.definition import search_audit
from include.audit.search.audit import AuditMode, audit_search
from include.audit.search.expected_spark import expected_by_spark
from include.audit.search.platform import server_sides
from include.clock import SystemClock
from include.errors import Fenced, Terminal
from include.index.definition import index_named
from include.index.generations.active import change_fed
from include.index.indexer_spark import build, run_application
from include.index.mapping.declared import creation
from include.index.mapping.file import mapping_of
from include.index.progress.document import IndexProgress, ProgressKeeper, read_progress
from include.index.server.elasticsearch import ElasticsearchIndex
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.kafka.writer import KafkaWriter
from include.log.publishing.dead_letter import DeadLetter
from include.log.registry.confluent import ConfluentRegistry
from include.log.running.batches_spark import run
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment
from tests.support.documents.topic import MAPPING, VALUE, DocumentTopic

DEPLOYMENT = """
cluster: {{name: local, type: test}}
kafka: {{bootstrap: "{kafka}"}}
registry: {{url: "{registry}"}}
elasticsearch: {{url: "{elasticsearch}"}}
indexes:
  {name}:
    application: index_{name}
    topic: {name}
    entity: order
    mapping: mapping.json
    coerced: [order.note]
    refresh_interval: 100ms
audits:
  {name}: {{index: {name}}}
"""


@dataclass
class Indexer:
    """One application, started and stopped as a guardian would, in this process."""

    spark: SparkSession
    deployment: Deployment
    index: ElasticsearchIndex
    reader: KafkaReader
    folder: Path
    name: str
    runs: int = 0

    def run(self, *generations: int) -> None:
        """Run until the topic and its resolved topic are indexed to their ends, in each of the generations."""
        self.runs += 1
        folder = RunFolder(self.folder / f"run-{self.runs}", SystemClock())
        folder.path.mkdir()
        metrics = Metrics(self.name)
        application = f"index_{self.name}"
        prepared = build(self.spark, self.deployment, application, self.name, run_folder=folder, metrics=metrics)
        stopper = threading.Thread(target=self._stop_when_done, args=(folder, generations or (1,)))
        stopper.start()
        try:
            with prepared.indexing.beside():
                run(
                    prepared.rows,
                    lambda _, batch: prepared.indexing.on_batch(batch),
                    application=f"index_{self.name}",
                    run_folder=folder,
                    metrics=metrics,
                    trigger_s=0.1,
                    keep_session=True,
                )
        finally:
            (folder.path / "stop").touch()
            stopper.join()

    def progress(self, generation: int = 1) -> IndexProgress:
        info = self.index.describe(f"{self.name}-v{generation}")
        assert info is not None
        return read_progress(self.index, info, self.name) or IndexProgress(self.name)

    def document(self, order_id: int) -> Any:
        found = self.index.get(f"{self.name}-v1", str(order_id))
        return None if found is None else found.source

    def dead(self) -> list[DeadLetter]:
        topic = topics.dead(self.name, f"index_{self.name}")
        (end,) = self.reader.end_offsets(topic).values()
        return [DeadLetter.parse(record) for record in self.reader.read(topic, 0, 0, end)]

    def _stop_when_done(self, folder: RunFolder, generations: tuple[int, ...]) -> None:
        until = time.monotonic() + 90
        ends = self.reader.end_offsets(self.name)
        resolved = self.reader.end_offsets(topics.resolved(self.name))
        while time.monotonic() < until and not folder.stop_requested():
            now = [self.progress(generation) for generation in generations]
            if all(each.acked == ends and each.resolved_acked == resolved for each in now):
                break
            time.sleep(0.2)
        (folder.path / "stop").touch()


@pytest.fixture
def topic(kafka: str, registry_url: str, unique: str) -> Iterator[DocumentTopic]:
    writer = KafkaWriter(kafka, f"{unique}.writer", {})
    yield DocumentTopic(unique, KafkaAdmin(kafka, {}), writer, ConfluentRegistry(registry_url))
    writer.close()


@pytest.fixture
def indexer(
    spark: SparkSession, kafka: str, registry_url: str, elasticsearch_url: str, unique: str, tmp_path: Path
) -> Iterator[Indexer]:
    text = DEPLOYMENT.format(kafka=kafka, registry=registry_url, elasticsearch=elasticsearch_url, name=unique)
    (tmp_path / "all.yaml").write_text(text)
    (tmp_path / "mapping.json").write_text(json.dumps(MAPPING))
    deployment = Deployment.load(tmp_path, {})
    definition = index_named(deployment, unique)
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    index.create(f"{unique}-v1", creation(unique, definition, mapping_of(deployment, definition)))
    reader = KafkaReader(kafka, {})
    yield Indexer(spark, deployment, index, reader, tmp_path, unique)
    index.client.indices.delete(index=f"{unique}-v1", ignore_unavailable=True)
    index.close()
    reader.close()


def test_records_become_documents_and_a_restart_goes_on_from_the_index(topic: DocumentTopic, indexer: Indexer) -> None:
    topic.write([(n, {"state": "completed"}) for n in range(1, 9)])
    topic.put(3, state="cancelled")
    topic.delete(4)
    topic.spoil(5, b"\x01rubbish")
    topic.put(6, note="no number")
    topic.resolve()
    indexer.run()

    assert indexer.document(1)["order"] == {"order_id": 1, "state": "completed", "total_price": None, "note": None}
    metadata = indexer.document(1)["metadata"]
    assert (metadata["cluster_name"], metadata["cluster_type"], metadata["topic"]) == ("local", "test", topic.name)
    assert (metadata["doc_id"], metadata["version"], metadata["deleted"]) == ("1", 1, False)
    assert indexer.document(3)["order"]["total_price"] == "12.30"
    assert "order" not in indexer.document(4)
    assert indexer.document(4)["metadata"]["deleted"]
    assert indexer.document(5)["order"]["state"] == "completed"
    dead = {(letter.record.key, letter.record.value is None) for letter in indexer.dead()}
    assert dead == {(topic.key(5), False), (topic.key(6), False)}
    assert any("document_parsing_exception" in letter.reason for letter in indexer.dead())
    complete = indexer.progress().complete
    assert complete is not None
    assert str(complete.gtids) == "0-1-1"

    topic.put(1, state="cancelled")
    topic.resolve()
    indexer.run()
    assert indexer.document(1)["order"]["state"] == "cancelled"
    assert len(indexer.dead()) == 2
    complete = indexer.progress().complete
    assert complete is not None
    assert str(complete.gtids) == "0-1-2"


def test_an_index_without_progress_is_read_again_from_the_beginning_and_no_dead_letter_is_doubled(
    topic: DocumentTopic, indexer: Indexer
) -> None:
    topic.write([(n, {"state": "completed"}) for n in range(1, 5)])
    topic.spoil(2, b"\x01rubbish")
    topic.resolve()
    indexer.run()
    before = {n: indexer.document(n) for n in range(1, 5)}
    info = indexer.index.describe(f"{topic.name}-v1")
    assert info is not None
    indexer.index.client.delete(index="lyrebird-progress", id=f"{info.uuid}.{topic.name}")
    indexer.run()
    assert {n: indexer.document(n) for n in range(1, 5)} == before
    assert len(indexer.dead()) == 1


def test_a_new_column_is_in_the_mapping_before_its_documents_and_a_type_that_does_not_fit_stops_the_stage(
    topic: DocumentTopic, indexer: Indexer
) -> None:
    topic.put(1)
    city = {"name": "city", "type": ["null", "string"], "default": None}
    topic.write_as({**VALUE, "fields": [*VALUE["fields"], city]})
    topic.put(2, city="Rome")
    topic.resolve()
    indexer.run()
    assert indexer.document(2)["order"]["city"] == "Rome"
    assert indexer.dead() == []
    info = indexer.index.describe(f"{topic.name}-v1")
    assert info is not None
    assert info.mapping["properties"]["order"]["properties"]["city"]["fields"]["keyword"]["type"] == "keyword"

    topic.write_as({**VALUE, "fields": [*VALUE["fields"][:2], {"name": "total_price", "type": "boolean"}]})
    topic.put(3, total_price=True)
    topic.resolve()
    told = rf"{topic.name}.*order\.total_price: boolean into double.*lyrebird index rebuild {topic.name}"
    with pytest.raises(Terminal, match=told):
        indexer.run()
    assert indexer.document(3) is None
    assert indexer.dead() == []


def test_a_generation_that_is_made_beside_the_serving_one_catches_up_without_a_new_record(
    topic: DocumentTopic, indexer: Indexer
) -> None:
    topic.write([(n, {"state": "completed"}) for n in range(1, 20)])
    topic.delete(4)
    topic.resolve()
    indexer.run()
    indexer.index.create(f"{topic.name}-v2", {"mappings": MAPPING})
    change_fed(indexer.index, topic.name, add=[2])
    indexer.run(1, 2)
    for n in range(1, 20):
        one, two = (indexer.index.get(f"{topic.name}-v{generation}", str(n)) for generation in (1, 2))
        assert one == two
    assert indexer.progress(2).searchable == indexer.progress(1).acked
    indexer.index.client.indices.delete(index=f"{topic.name}-v2")


def test_an_index_that_is_lost_or_was_never_made_ends_the_application_with_the_command_to_run(
    topic: DocumentTopic, indexer: Indexer
) -> None:
    topic.put(1)
    topic.resolve()
    indexer.index.client.indices.delete(index=f"{topic.name}-v1")
    with pytest.raises(Terminal, match=f"lyrebird index create {topic.name}"):
        indexer.run()


def test_a_second_application_for_the_same_index_fences_the_first(
    topic: DocumentTopic, indexer: Indexer, tmp_path: Path
) -> None:
    topic.put(1)
    topic.resolve()
    folder, metrics = RunFolder(tmp_path, SystemClock()), Metrics("first")
    application = f"index_{indexer.name}"
    first = build(indexer.spark, indexer.deployment, application, indexer.name, run_folder=folder, metrics=metrics)
    indexer.run()
    with pytest.raises(Fenced):
        run(
            first.rows,
            lambda _, batch: first.indexing.on_batch(batch),
            application=application,
            run_folder=folder,
            metrics=metrics,
            trigger_s=0.1,
            keep_session=True,
        )


@pytest.mark.parametrize("mode", ["digest", "bisect"])
def test_spark_expects_the_same_as_one_process_and_the_audit_agrees(
    topic: DocumentTopic, indexer: Indexer, mode: AuditMode
) -> None:
    topic.write([(n, {"state": "completed"}) for n in range(1, 30)])
    topic.delete(7)
    topic.resolve()
    indexer.run()
    indexer.index.client.delete(index=f"{topic.name}-v1", id="9")
    spec = search_audit(indexer.deployment, topic.name)
    with server_sides(indexer.deployment) as sides:
        alone = audit_search(spec, sides, mode=mode)
    folding = functools.partial(expected_by_spark, indexer.spark, indexer.deployment)
    with server_sides(indexer.deployment, folding) as sides:
        by_spark = audit_search(spec, sides, mode=mode)
    assert alone.missing == by_spark.missing == ("9",)
    assert alone.findings == by_spark.findings == 1
    assert alone.expected == by_spark.expected == 28


def test_an_application_of_two_indexes_fills_both_and_one_that_fails_ends_the_other(
    topic: DocumentTopic,
    indexer: Indexer,
    kafka: str,
    registry_url: str,
    elasticsearch_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two, folder = indexer.name, f"{indexer.name}-more", indexer.folder
    writer = KafkaWriter(kafka, f"{two}.writer", {})
    more = DocumentTopic(two, KafkaAdmin(kafka, {}), writer, ConfluentRegistry(registry_url))
    text = DEPLOYMENT.format(kafka=kafka, registry=registry_url, elasticsearch=elasticsearch_url, name=one)
    entry = (
        f"  {two}: {{application: index_{one}, topic: {two}, entity: order, mapping: mapping.json, "
        "coerced: [order.note]}\n"
    )
    (folder / "all.yaml").write_text(text.replace("audits:\n", f"{entry}audits:\n"))
    deployment = Deployment.load(folder, {})
    definition = index_named(deployment, two)
    run_folder = folder / "run-both"
    run_folder.mkdir()
    monkeypatch.setenv("LYREBIRD_RUN", str(run_folder))
    monkeypatch.setenv("LYREBIRD_STATE", str(folder / "state"))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            run_application(f"index_{one}", deployment, keep_session=True)
        except BaseException as error:  # noqa: BLE001 - looked at in the test's thread
            failures.append(error)

    def lives() -> tuple[int, int]:
        indexer.index.refresh(one)
        indexer.index.refresh(two)
        return tuple(indexer.index.client.count(index=name).body["count"] for name in (one, two))

    indexer.index.create(f"{two}-v1", creation(two, definition, mapping_of(deployment, definition)))
    try:
        topic.write([(n, {"state": "completed"}) for n in range(1, 6)])
        more.write([(n, {"state": "cancelled"}) for n in range(1, 4)])
        for each in (topic, more):
            each.spoil(1, b"\x01rubbish")
            each.resolve()
        thread = threading.Thread(target=work)
        thread.start()
        until = time.monotonic() + 90
        while lives() != (5, 3) and thread.is_alive() and time.monotonic() < until:
            time.sleep(0.3)
        assert lives() == (5, 3), failures
        told = json.loads((run_folder / "progress.json").read_text())
        assert told["parts"].keys() == {one, two}
        # Another process takes one of them over, and this one ends for both.
        info = indexer.index.describe(f"{two}-v1")
        assert info is not None
        other = ProgressKeeper(indexer.index, info, two, "somebody else", SystemClock())
        while time.monotonic() < until:
            # What the first one writes at the same moment comes before.
            with contextlib.suppress(Fenced):
                other.claim()
                break
        more.put(9)
        thread.join(90)
        assert not thread.is_alive()
        assert [type(error) for error in failures] == [Fenced]
        for name, group in ((one, f"index_{one}.{one}.dead"), (two, f"index_{one}.{two}.dead")):
            assert sum(indexer.reader.committed(group, name).values()) > 0
    finally:
        (run_folder / "stop").touch()
        writer.close()
        indexer.index.client.indices.delete(index=f"{two}-v1", ignore_unavailable=True)
