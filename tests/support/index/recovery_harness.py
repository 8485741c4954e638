"""An index, its live application, a writer and a reader that never rest: for tests that lose or replace the index."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psutil
from typing_extensions import override

from include.index.generations.active import serving_or_none
from include.index.metadata import LIVING
from include.index.progress.document import IndexProgress, read_progress
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.elasticsearch_admin import ElasticsearchAdmin
from include.log.kafka.log import KafkaAdmin
from include.log.kafka.writer import KafkaWriter
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Elasticsearch
from include.settings.environment import PROJECT_ROOT
from tests.support.background import Background
from tests.support.documents.topic import MAPPING, DocumentTopic

__all__ = ["IndexRecoveryHarness", "Part", "Reader", "Writing", "placed"]

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
    refresh_interval: 200ms
audits:
  {name}: {{index: {name}}}
"""
Part = Literal["driver", "jvm", "worker"]
CANARY = 0
"""An order that is never written again: readers see it always."""
_ANSWER_S = 600


class Writing(Background):
    """Puts and deletes orders in the background, and knows what has to be there in the end. May be entered again."""

    def __init__(self, topic: DocumentTopic, keys: int, a_second: float, seed: int = 1) -> None:
        super().__init__()
        self.model: dict[str, str] = {str(CANARY): "canary"}
        self._topic, self._keys, self._pause_s = topic, keys, 10 / a_second
        self._random = random.Random(seed)
        topic.write([(CANARY, {"state": "canary"})])
        for first in range(1, keys, 500):
            self._write(range(first, min(first + 500, keys)))

    @override
    def work(self) -> None:
        while not self.over.wait(self._pause_s):
            self._write([self._random.randrange(1, 2 * self._keys) for _ in range(10)])

    def _write(self, keys: Any) -> None:
        states: list[tuple[int, dict[str, Any] | None]] = []
        for key in keys:
            if self._random.random() < 0.2:
                states.append((key, None))
                self.model.pop(str(key), None)
            else:
                state = f"s{self._topic.version + len(states)}"
                states.append((key, {"state": state}))
                self.model[str(key)] = state
        self._topic.write(states)


class Reader(Background):
    """Asks the alias for the canary all the time; `failures` are the times it did not get it."""

    def __init__(self, index: ElasticsearchIndex, alias: str) -> None:
        super().__init__()
        self.asked, self.failures = 0, list[str]()
        self._index, self._alias = index, alias

    @override
    def work(self) -> None:
        query = {"term": {"metadata.doc_id": str(CANARY)}}
        while not self.over.wait(0.02):
            self.asked += 1
            try:
                found = self._index.client.search(index=self._alias, query=query).body["hits"]["hits"]
            except Exception as error:  # noqa: BLE001 - whatever it is, a reader has not got an answer
                self.failures.append(repr(error))
            else:
                if len(found) != 1:
                    self.failures.append(f"{len(found)} canaries")


class IndexRecoveryHarness:
    """The servers, the application as its guardian keeps it, and the commands; `topic` has at least a name."""

    def __init__(self, folder: Path, name: str, topic: Any, server: Elasticsearch) -> None:
        self.name, self.topic = name, topic
        self.index = ElasticsearchIndex(server)
        self.admin = ElasticsearchAdmin(server, self.index.client)
        self.env = os.environ | {
            "LYREBIRD_DEPLOYMENT": str(folder),
            "LYREBIRD_STATE": str(folder / "state"),
            "PYTHONPATH": str(PROJECT_ROOT),
        }
        self.starts = 0
        self._log = folder / "application.log"
        self._done = threading.Event()
        self._keeping = threading.Thread(target=self._keep, daemon=True)
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `lyrebird <arguments>`."""
        line = [sys.executable, "-m", "include", *arguments]
        return subprocess.Popen(
            line, cwd=PROJECT_ROOT, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *arguments: str) -> Any:
        """Run it to its end, with --json; the last line's value. Fails with its errors."""
        child = self.command(*arguments, "--json")
        out, told = child.communicate(timeout=_ANSWER_S)
        assert child.returncode == 0, (arguments, child.returncode, told[-3000:], out[-2000:], self.said())
        return json.loads(out.splitlines()[-1])

    def said(self) -> str:
        """The application's last words."""
        return self._log.read_text()[-2000:] if self._log.exists() else ""

    def start(self) -> None:
        """Start the application; it is started again whenever it ends."""
        self._keeping.start()

    def await_start(self) -> None:
        """Until the application has indexed something."""
        until_s = time.monotonic() + _ANSWER_S
        while time.monotonic() < until_s:
            info = serving_or_none(self.index, self.name)
            if info is not None and (found := read_progress(self.index, info, self.topic.name)) and found.acked:
                return
            time.sleep(0.5)
        raise AssertionError(self.said())

    def kill(self, part: Part) -> None:
        """End a part of the running application by SIGKILL; whatever is left of it then is not its keeper's to end."""
        assert self.process is not None
        driver = psutil.Process(self.process.pid)
        below = driver.children(recursive=True)
        names = {each: name for each in below if (name := _name(each))}
        found = {
            "driver": [driver],
            "jvm": [each for each, name in names.items() if name == "java"],
            # Spark's Python workers are children of a daemon that the JVM starts.
            "worker": [each for each, name in names.items() if name.startswith("python")][-1:],
        }[part]
        assert found, (part, sorted(names.values()), self.said())
        for each in found:
            each.kill()
        if part != "worker":
            _, alive = psutil.wait_procs([driver, *below], _ANSWER_S)
            assert not alive, (part, alive)

    def progress(self) -> IndexProgress:
        """Of the generation that serves."""
        info = serving_or_none(self.index, self.name)
        assert info is not None
        return read_progress(self.index, info, self.topic.name) or IndexProgress(self.topic.name)

    def serving(self) -> str | None:
        found = serving_or_none(self.index, self.name)
        return found.name if found else None

    def documents(self, name: str) -> dict[str, str]:
        """Living documents of an index, key to state, as searches see them."""
        self.index.refresh(name)
        body = {"size": 10_000, "query": LIVING, "_source": ["order.state", "metadata.doc_id"]}
        hits = self.index.client.search(index=name, body=body).body["hits"]["hits"]
        return {hit["_source"]["metadata"]["doc_id"]: hit["_source"]["order"]["state"] for hit in hits}

    def close(self) -> None:
        self._done.set()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        if self._keeping.is_alive():
            self._keeping.join()
        for stored in self.admin.generations(self.name):
            self.admin.delete(str(stored.name))
        self.index.close()

    def _keep(self) -> None:
        command = [sys.executable, "spark_apps/index_documents.py", "--application", f"index_{self.name}"]
        while not self._done.is_set():
            self.starts += 1
            with self._log.open("ab") as out:
                self.process = subprocess.Popen(command, cwd=PROJECT_ROOT, env=self.env, stdout=out, stderr=out)
                while self.process.poll() is None and not self._done.is_set():
                    time.sleep(0.2)
                self.process.wait(60)
            self._done.wait(1.0)


def _name(process: psutil.Process) -> str:
    """Empty for one that has ended meanwhile."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


@contextmanager
def placed(folder: Path, name: str, kafka: str, registry: str, elasticsearch: str) -> Iterator[IndexRecoveryHarness]:
    """A place of its own on these servers; nothing of it is left in Elasticsearch afterwards."""
    text = DEPLOYMENT.format(kafka=kafka, registry=registry, elasticsearch=elasticsearch, name=name)
    (folder / "all.yaml").write_text(text)
    (folder / "mapping.json").write_text(json.dumps(MAPPING))
    (folder / "state").mkdir()
    writer = KafkaWriter(kafka, f"writer.{name}")
    topic = DocumentTopic(name, KafkaAdmin(kafka), writer, ConfluentRegistry(registry), partitions=2)
    place = IndexRecoveryHarness(folder, name, topic, Elasticsearch(url=elasticsearch))
    try:
        yield place
    finally:
        place.close()
        writer.close()
