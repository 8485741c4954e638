"""Both search audits over a topic without keys, whose documents have computed ids; the whole is in tests/prove."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from include.audit.definition import SearchAuditSpec
from include.audit.search.audit import AuditMode
from include.audit.search.expected import ExpectedDocuments
from include.index.definition import IndexDefinition
from include.index.progress.document import NOTES, IndexProgress, note_id
from include.log.memory import MemoryLog
from include.log.ports import Record, TopicSpec
from include.record.codec import frame
from include.record.key import pseudo_key
from tests.support.search.audit_harness import TOPIC
from tests.support.search.audit_proof import NodeAuditHarness

CLICKS = 600
PARTITIONS = 4
DEFINITION = IndexDefinition.model_validate(
    {
        "application": "index_clicks",
        "topic": TOPIC,
        "entity": "order",
        "key": "none",
        "versions": "offset",
        "mapping": "m.json",
    }
)


class ClickHarness(NodeAuditHarness):
    """Clicks in JSON take the place of orders; one in seven says nothing."""

    def __init__(self, url: str, alias: str) -> None:
        super().__init__(url, alias)
        self.spec = SearchAuditSpec(TOPIC, alias, DEFINITION, TOPIC)
        # A log of its own, as the orders' topic is compacted.
        self.log = MemoryLog()
        self.admin, self.reader = self.log.admin(), self.log.reader()
        self.admin.ensure(TopicSpec(TOPIC, PARTITIONS))
        self._following = ExpectedDocuments(self.reader)
        self._schema = self.registry.register("clicks", {"type": "object"}, language="JSON")
        self._writer = self.log.writer("clicks")

    def click(self, numbers: range) -> None:
        self._writer.begin()
        for n in numbers:
            value = frame(self._schema, json.dumps({"order_id": n, "state": "clicked"}).encode()) if n % 7 else None
            self._writer.append(TOPIC, None, value, partition=n % PARTITIONS)
        self._writer.commit()

    def line(self, record: Record) -> bytes:
        found = self.reading(IndexProgress(TOPIC)).of(record)
        if found is None or found.body is None:
            return b""
        action = {"index": {"_id": found.doc_id, "version": found.version, "version_type": "external"}}
        said = self._metadata.living(record.partition, record.offset, found.doc_id, found.version, found.body)
        return json.dumps(action).encode() + b'\n{"order":' + found.body + b',"metadata":' + said + b"}\n"

    def numbers(self) -> list[int]:
        """Of all documents, sorted."""
        self.index.refresh(self.name)
        hits = self.real.client.search(index=self.name, size=10_000, source_includes=["order"]).body["hits"]["hits"]
        return sorted(hit["_source"]["order"]["order_id"] for hit in hits)


@pytest.fixture
def world(elasticsearch_url: str, unique: str) -> Iterator[ClickHarness]:
    found = ClickHarness(elasticsearch_url, unique)
    try:
        found.click(range(1, CLICKS + 1))
        found.catch_up()
        yield found
    finally:
        found.close()


def test_a_replay_from_the_beginning_makes_no_second_document_and_both_audits_are_clean(world: ClickHarness) -> None:
    whole = [n for n in range(1, CLICKS + 1) if n % 7]
    assert world.numbers() == whole
    world.real.client.delete(index=NOTES, id=note_id(world.info, TOPIC))
    world.catch_up()
    assert world.numbers() == whole
    modes: tuple[AuditMode, ...] = ("digest", "bisect")
    for mode in modes:
        report = world.audit(mode)
        assert report.clean
        assert (report.expected, report.indexed, report.unreadable) == (len(whole), len(whole), 0)


@pytest.mark.parametrize("mode", ["digest", "bisect"])
def test_lost_clicks_are_named_by_their_computed_ids_and_mended(world: ClickHarness, mode: AuditMode) -> None:
    lost = sorted(pseudo_key("c", "t", TOPIC, p, offset) for p in range(PARTITIONS) for offset in (20, 21, 99))
    there = [key for key in lost if world.real.get(world.name, key) is not None]
    assert len(there) > PARTITIONS
    for key in there:
        world.lose(key)
    report = world.audit(mode)
    assert sorted(report.missing) == there
    assert report.findings == len(there)
    assert world.repair(mode=mode).clean
    world.click(range(CLICKS + 1, CLICKS + 50))
    world.catch_up()
    assert world.audit(mode).clean
    assert world.numbers() == [n for n in range(1, CLICKS + 50) if n % 7]
