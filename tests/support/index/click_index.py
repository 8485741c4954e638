"""A topic of clicks without keys, written all the time, and the index of one cluster that is filled from it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typing_extensions import override

from include.index.metadata import metadata_mapping
from include.index.progress.document import NOTES, note_id
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.kafka.writer import KafkaWriter
from include.log.ports import TopicSpec
from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import frame
from include.record.key import pseudo_key
from include.settings.connections import Elasticsearch
from tests.support.background import Background
from tests.support.index.recovery_harness import IndexRecoveryHarness

__all__ = ["At", "ClickIndexHarness", "Clicks", "click_place"]

At = tuple[int, int]
"""Partition and offset."""
PARTITIONS = 3
_TYPE = "shop"
_ABORTED_EVERY, _EMPTY_EVERY, _BROKEN_EVERY = 5, 41, 97
_BROKEN = b'{"n": '
_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"n": {"type": "integer"}, "page": {"type": "string"}},
}
_MAPPING = {
    "dynamic": "strict",
    "properties": {
        "click": {"properties": {"n": {"type": "long"}, "page": {"type": "keyword"}}},
        "metadata": metadata_mapping(),
    },
}
_DEPLOYMENT = """
cluster: {{name: {cluster}, type: {type}}}
kafka: {{bootstrap: "{kafka}"}}
registry: {{url: "{registry}"}}
elasticsearch: {{url: "{elasticsearch}"}}
indexes:
  {name}:
    application: index_{name}
    topic: {topic}
    entity: click
    key: none
    versions: offset
    mapping: mapping.json
    refresh_interval: 200ms
    bulk_bytes: 20000
audits:
  {name}: {{index: {name}}}
"""


class Clicks(Background):
    """The one writer of the topic: transactions of clicks, some of them aborted, some records empty, some not JSON.

    `numbers` are the clicks by where they are, `broken` the places of what nobody can read. May be entered again.
    """

    def __init__(self, name: str, kafka: str, registry: str, first: int) -> None:
        super().__init__()
        self.name = name
        KafkaAdmin(kafka).ensure(TopicSpec(name, PARTITIONS, {"retention.ms": "-1"}))
        self._schema = ConfluentRegistry(registry).register(f"{name}-value", _SCHEMA, language="JSON")
        self._writer, self._kafka = KafkaWriter(kafka, f"clicks.{name}"), kafka
        self._next, self._transactions = first, 0

    def write(self, count: int) -> None:
        """So many records in a transaction of their own, after one that is aborted now and then."""
        self._transactions += 1
        if self._transactions % _ABORTED_EVERY == 0:
            self._transact(count // 2)
            self._writer.abort()
        self._transact(count)
        self._writer.commit()

    def _transact(self, count: int) -> None:
        self._writer.begin()
        for n in range(self._next, self._next + count):
            said = _BROKEN if n % _BROKEN_EVERY == 0 else json.dumps({"n": n, "page": f"/p/{n % 13}"}).encode()
            value: bytes | None = frame(self._schema, said)
            if n % _EMPTY_EVERY == 0:
                value = None
            self._writer.append(self.name, None, value, partition=n % PARTITIONS)
        self._next += count

    @override
    def work(self) -> None:
        while not self.over.wait(0.1):
            self.write(40)

    def numbers(self) -> dict[At, int]:
        return {at: json.loads(said)["n"] for at, said in self._said().items() if said != _BROKEN}

    def broken(self) -> list[At]:
        return [at for at, said in self._said().items() if said == _BROKEN]

    def _said(self) -> dict[At, bytes]:
        """What committed records say, without those that say nothing."""
        reader = KafkaReader(self._kafka)
        try:
            return {
                (p, record.offset): record.value[5:]
                for p, end in reader.end_offsets(self.name).items()
                for record in reader.read(self.name, p, 0, end)
                if record.value
            }
        finally:
            reader.close()

    def close(self) -> None:
        self._writer.close()


class ClickIndexHarness(IndexRecoveryHarness):
    """One cluster's index of its clicks, beside that of others in the same Elasticsearch."""

    topic: Clicks
    cluster: str

    def unreadable(self) -> list[str]:
        """Ids of the documents that are not there, as their records cannot be read; sorted."""
        name = self.topic.name
        return sorted(pseudo_key(self.cluster, _TYPE, name, p, offset) for p, offset in self.topic.broken())

    def clicks(self, name: str) -> tuple[dict[At, int], list[str]]:
        """What an index says of each place, and all ids; fails for a place that two documents claim."""
        from elasticsearch.helpers import scan

        self.index.refresh(name)
        numbers: dict[At, int] = {}
        ids, seen = list[str](), Counter[At]()
        for hit in scan(self.index.client, index=name, size=2000):
            said = hit["_source"]["metadata"]
            at = said["partition"], said["offset"]
            numbers[at] = hit["_source"]["click"]["n"]
            seen[at] += 1
            ids.append(hit["_id"])
        assert not [at for at, count in seen.items() if count > 1]
        return numbers, ids

    def forget_progress(self) -> None:
        """As if nothing had been indexed: the next start begins at offset 0."""
        info = self.index.describe(self.name)
        assert info is not None
        self.index.client.delete(index=NOTES, id=note_id(info, self.topic.name))

    def lose(self, ids: Sequence[str]) -> None:
        """Delete documents behind everyone's back."""
        lines = [{"delete": {"_id": each}} for each in ids]
        assert not self.index.client.bulk(index=self.serving(), operations=lines).body["errors"]

    def audit(self, mode: str, *more: str) -> Any:
        """An audit's report, findings or not."""
        child = self.command("audit", "search", self.name, "--mode", mode, "--wait", "600", *more, "--json")
        out, told = child.communicate(timeout=900)
        assert child.returncode in (0, 1), (mode, told[-3000:], self.said())
        return json.loads(out.splitlines()[-1])


@contextmanager
def click_place(
    folder: Path, name: str, cluster: str, topic: str, servers: dict[str, str]
) -> Iterator[ClickIndexHarness]:
    """Index `name` of `cluster`, whose topic is empty at first; `servers` are kafka, registry and elasticsearch."""
    (folder / "state").mkdir(parents=True)
    (folder / "all.yaml").write_text(_DEPLOYMENT.format(cluster=cluster, type=_TYPE, name=name, topic=topic, **servers))
    (folder / "mapping.json").write_text(json.dumps(_MAPPING))
    clicks = Clicks(topic, servers["kafka"], servers["registry"], first=1)
    place = ClickIndexHarness(folder, name, clicks, Elasticsearch(url=servers["elasticsearch"]))
    place.cluster = cluster
    try:
        yield place
    finally:
        place.close()
        clicks.close()
