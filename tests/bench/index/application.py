"""The indexing application as a user starts it, watched from outside: by its progress document and its processes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from include.index.definition import index_named
from include.index.generations.active import change_fed
from include.index.mapping.declared import creation
from include.index.metadata import metadata_mapping
from include.index.name import IndexName
from include.index.progress.document import read_progress
from include.index.server.elasticsearch import ElasticsearchIndex
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from tests.bench.index.order_documents import ENTITY, MAPPING, Filled
from tests.bench.processes import cpu_by_kind

__all__ = ["Run", "deployed", "indexed"]

_WITHIN_S: Final = 600.0
_REST_S: Final = 2.0
_DEPLOYMENT: Final = """
cluster: {{name: local, type: bench}}
kafka: {{bootstrap: "{kafka}"}}
registry: {{url: "{registry}"}}
elasticsearch: {{url: "{elasticsearch}"}}
indexes:
  {name}: {{application: index_{name}, topic: {topic}, entity: {entity}, mapping: mapping.json, coerced: [order.lines]}}
"""


@dataclass
class Run:
    """What `documents` took once the application was warm: `wall_s`, and CPU seconds by kind of process.

    `start_s` and `start_cpu_s` are what it took until its first documents were acknowledged.
    """

    documents: int = 0
    wall_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    start_s: float = 0.0
    start_cpu_s: float = 0.0

    def told(self) -> dict[str, Any]:
        """Plain values."""
        started = {"start_s": self.start_s, "start_cpu_s": self.start_cpu_s}
        return {"documents": self.documents, "wall_s": self.wall_s, "cpu_s": sum(self.cpu_s.values())} | {
            "cpu_by_process": self.cpu_s,
            **started,
        }


def deployed(folder: Path, name: str, topic: str, servers: dict[str, str]) -> Deployment:
    """A deployment with one index, made on the server too."""
    folder.mkdir()
    mapping = {"dynamic": "strict", "properties": {ENTITY: MAPPING, "metadata": metadata_mapping()}}
    (folder / "mapping.json").write_text(json.dumps(mapping))
    (folder / "bench.yaml").write_text(_DEPLOYMENT.format(name=name, topic=topic, entity=ENTITY, **servers))
    deployment = Deployment.load(folder, {})
    definition = index_named(deployment, name)
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    index.create(str(IndexName(name, definition.generation)), creation(name, definition, mapping))
    change_fed(index, name, add=[definition.generation])
    index.close()
    return deployment


def indexed(deployment: Deployment, name: str, filled: Filled, state: Path) -> Run:
    """Start the application, let it index what can be read, then measure how it indexes the rest."""
    environment = os.environ | {
        "LYREBIRD_DEPLOYMENT": str(deployment.folder),
        "LYREBIRD_STATE": str(state),
        "PYTHONPATH": str(PROJECT_ROOT),
    }
    command = [sys.executable, "spark_apps/index_documents.py", "--application", f"index_{name}"]
    log = state / "application.log"
    state.mkdir()
    with log.open("wb") as out:
        process = psutil.Popen(command, cwd=PROJECT_ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    run, begun_s = Run(filled.documents), time.monotonic()
    try:
        _until(process, index, name, filled)
        run.start_s = time.monotonic() - begun_s
        time.sleep(_REST_S)
        before = cpu_by_kind(process)
        run.start_cpu_s = sum(before.values())
        filled.release()
        begun_s = time.monotonic()
        _until(process, index, name, filled)
        run.wall_s, after = time.monotonic() - begun_s, cpu_by_kind(process)
        run.cpu_s = {part: after[part] - before[part] for part in after}
    except TimeoutError as error:
        raise SystemExit(f"the application did not do it: {error}; {log.read_text()[-2000:]}") from error
    finally:
        index.close()
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
        try:
            process.wait(60)
        except psutil.TimeoutExpired:
            process.kill()
    return run


def _until(process: psutil.Popen, index: ElasticsearchIndex, name: str, filled: Filled) -> None:
    """Until all that can be read is acknowledged."""
    until_s, ends = time.monotonic() + _WITHIN_S, filled.ends()
    while _acked(index, name, filled.topic) != ends:
        if process.poll() is not None:
            raise TimeoutError(f"it ended with {process.returncode}")
        if time.monotonic() > until_s:
            raise TimeoutError(f"not all within {_WITHIN_S:g} s")
        time.sleep(0.05)


def _acked(index: ElasticsearchIndex, name: str, topic: str) -> dict[int, int]:
    info = index.describe(name)
    found = read_progress(index, info, topic) if info is not None else None
    return dict(found.acked) if found is not None else {}
