"""The harness of the audits' proof with no doubles: Kafka, the application, and a writer in its own process.

    python -m tests.support.search.indexer_harness

With its Params as JSON in the first line of stdin it writes until stdin ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson

from include.audit.definition import search_audit
from include.audit.search.audit import AuditMode, audit_and_repair, audit_search
from include.audit.search.platform import ServerSides
from include.audit.search.report import SearchReport
from include.index.metadata import Metadata, TopicOrigin
from include.index.progress.document import read_progress
from include.log.kafka.log import KafkaAdmin
from include.log.kafka.writer import KafkaWriter
from include.log.registry.confluent import ConfluentRegistry
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from tests.support.documents.topic import DocumentTopic
from tests.support.index.recovery_harness import IndexRecoveryHarness
from tests.support.search.audit_proof import Load, NodeAuditHarness, Written

__all__ = ["IndexerHarness"]

_WITHIN_S = 900


@dataclass(frozen=True)
class Params:
    """What the writer's process is to do."""

    name: str
    kafka: str
    registry: str
    version: int
    orders: int
    rate: int
    spared: list[int]


class OtherLoad:
    """A `Load` in a process of its own, so that it does not share a core's time with the audit."""

    def __init__(self, topic: DocumentTopic, params: Params) -> None:
        self.written, self.seconds = 0, 0.0
        self._topic, self._params = topic, params
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> OtherLoad:
        line = [sys.executable, "-m", "tests.support.search.indexer_harness"]
        self._process = subprocess.Popen(
            line, cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(self._params)) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "writing\n"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        try:
            out = self._process.communicate("", timeout=60)[0]
        finally:
            self._process.kill()
        assert self._process.returncode == 0
        told = json.loads(out)
        self.written, self.seconds = told["written"], told["seconds"]
        self._topic.version = told["version"]


class IndexerHarness(NodeAuditHarness):
    """`place` has made its index; the application is started by `fill`."""

    def __init__(self, place: IndexRecoveryHarness, folder: Path, kafka: str, registry: str) -> None:
        # The index, the log and who fills one from the other are those of `place`: nothing of the double's is made.
        deployment = Deployment.load(folder, place.env)
        self.place, self.topic, self.real, self.index = place, place.topic, place.index, place.index
        self.alias, self.name = place.name, f"{place.name}-v1"
        self.sides = ServerSides(deployment)
        self.reader, self.spec = self.sides.reader, search_audit(deployment, place.name)
        self.swallowed = set()
        self._metadata = Metadata(TopicOrigin("local", "test", place.name, 1))
        self._kafka, self._registry = kafka, registry

    def close(self) -> None:
        self.sides.close()

    def fill(self, orders: int) -> None:
        self.place.start()
        for start in range(1, orders + 1, 5_000):
            self.topic.write([(n, {"state": "completed"}) for n in range(start, min(start + 5_000, orders + 1))])
        self.catch_up()

    def catch_up(self, *, note: bool = True, **_more: Any) -> None:
        """Wait until the application has acknowledged all that the topic holds now."""
        ends, until_s = self.reader.end_offsets(self.place.name), time.monotonic() + _WITHIN_S
        while True:
            info = self.real.describe(self.name)
            assert info is not None
            progress = read_progress(self.real, info, self.place.name)
            if progress and all(progress.acked.get(p, 0) >= end for p, end in ends.items()):
                self.real.refresh(self.name)
                return
            assert time.monotonic() < until_s, self.place.said()
            time.sleep(0.2)

    def load(self, orders: int, rate: int, spared: set[int]) -> AbstractContextManager[Written]:
        params = Params(self.place.name, self._kafka, self._registry, self.topic.version, orders, rate, sorted(spared))
        return OtherLoad(self.topic, params)

    def make_stale(self, numbers: Sequence[int]) -> None:
        """Put the older states back, once the application has written the newer ones."""
        older = [self.real.get(self.name, str(n)) for n in numbers]
        self.topic.write([(n, {"state": "newer"}) for n in numbers])
        self.catch_up()
        client = self.real.client
        client.indices.put_settings(index=self.name, settings={"index.gc_deletes": "0s"})
        lines = [{"delete": {"_id": str(n)}} for n in numbers]
        assert not client.bulk(index=self.name, operations=lines).body["errors"]
        time.sleep(1)
        # A refresh lets go of the versions of what was deleted.
        self.real.refresh(self.name)
        for found in older:
            assert found is not None
            action = {"index": {"_id": found.doc_id, "version": found.version, "version_type": "external"}}
            self.write([orjson.dumps(action) + b"\n" + orjson.dumps(found.source) + b"\n"])
        client.indices.put_settings(index=self.name, settings={"index.gc_deletes": None})
        now = [self.real.get(self.name, str(n)) for n in numbers]
        assert [one and one.version for one in now] == [one and one.version for one in older]

    def repair(self, **more: Any) -> SearchReport:
        return audit_and_repair(self.spec, self.sides, **more)

    def audit(self, mode: AuditMode = "digest", **more: Any) -> SearchReport:
        return audit_search(self.spec, self.sides, mode=mode, **more)


def main() -> None:
    """The writer's process."""
    params = Params(**json.loads(sys.stdin.readline()))
    writer = KafkaWriter(params.kafka, f"load.{params.name}")
    topic = DocumentTopic(params.name, KafkaAdmin(params.kafka), writer, ConfluentRegistry(params.registry))
    topic.version = params.version
    world = SimpleNamespace(topic=topic, catch_up=lambda: None)
    with Load(world, params.orders, params.rate, set(params.spared)) as load:
        sys.stdout.write("writing\n")
        sys.stdout.flush()
        sys.stdin.read()
    writer.close()
    sys.stdout.write(json.dumps({"written": load.written, "seconds": load.seconds, "version": topic.version}) + "\n")


if __name__ == "__main__":
    main()
