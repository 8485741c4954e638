"""`python -m tests.bench.index.task`: what a Spark worker alone does for the indexer, a CPU second of its process.

Documents of 1 KB are read from Kafka, made into lines and sent to a stub that accepts all, as in
`tests.bench.index.throughput`, but in one process without Spark: what is missing there to this figure is the JVM's, the
driver's and Spark's workers'.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from include.index.definition import IndexTopic
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.index.worker import WorkerPlan, work_off
from include.log.planning.slices import Slice
from include.settings.connections import Elasticsearch, Registry
from include.settings.environment import PROJECT_ROOT
from tests.bench.index.application import deployed
from tests.bench.index.order_documents import ENTITY, Filled
from tests.bench.index.throughput import stub
from tests.bench.servers import halves, served
from tests.support.servers.addresses import registry_url

__all__ = ["main"]

_NAME: Final = "task"
_WARM: Final = 5000
_SHARE: Final = 100_000


def main() -> int:
    """Fill, have it worked off in processes of their own, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(_worked_off(json.load(sys.stdin))))
        return 0
    rates = []
    with tempfile.TemporaryDirectory() as name, stub() as url:
        base = Path(name)
        with served(["kafka", "registry"], base / "stack", halves(apart=False)[0]) as env:
            servers = {"kafka": env["LYREBIRD_KAFKA"], "registry": registry_url(env), "elasticsearch": url}
            deployed(base / _NAME, _NAME, f"bench.{_NAME}", servers)
            at = (servers["kafka"], servers["registry"])
            filled = Filled(*at, f"bench.{_NAME}", arguments.documents, 2)
            filled.release()
            asked = json.dumps(servers | {"ends": filled.ends()})
            filled.close()
            for _ in range(arguments.rounds):
                command = [sys.executable, "-m", "tests.bench.index.task", "--worker"]
                # On stdin, as the registry's address has its password.
                done = subprocess.run(
                    command, cwd=PROJECT_ROOT, input=asked, stdout=subprocess.PIPE, text=True, check=True
                )
                found = json.loads(done.stdout.splitlines()[-1])
                rates.append(found["documents"] / found["cpu_s"])
                print(f"{found['documents']:,} documents, {rates[-1]:,.0f} a CPU second", file=sys.stderr)
    print(f"a worker alone: {sorted(rates)[len(rates) // 2]:,.0f} documents for each CPU second")
    return 0


def _worked_off(asked: dict[str, Any]) -> dict[str, float]:
    """Index all in shares as Spark cuts them; the first few, which import and connect, are not measured."""
    topic = f"bench.{_NAME}"
    plan = WorkerPlan(
        index=f"{_NAME}-v1",
        feeds=(Feed(TopicOrigin("local", "bench", topic, 1), IndexTopic(entity=ENTITY)),),
        bootstrap=asked["kafka"],
        kafka_options={},
        elasticsearch=Elasticsearch(url=asked["elasticsearch"]),
        registry=Registry(url=asked["registry"]),
        bulk_bytes=5_000_000,
    )
    documents, begun_cpu_s = 0, 0.0
    for share, (partition, start, end) in enumerate(_shares(asked["ends"])):
        if share == 1:
            begun_cpu_s = time.process_time()
        told = work_off(plan, [Slice(topic, partition, start, end)])
        if told.waiting or told.fault or told.dead:
            raise SystemExit(f"not all was taken: {told.reason or told.fault or told.dead[0].reason}")
        documents += told.total("indexed") if share else 0
    return {"documents": documents, "cpu_s": time.process_time() - begun_cpu_s}


def _shares(ends: dict[str, int]) -> list[tuple[int, int, int]]:
    shares = [(0, 0, _WARM)]
    for name, end in ends.items():
        start = _WARM if name == "0" else 0
        shares += [(int(name), at, min(at + _SHARE, end)) for at in range(start, end, _SHARE)]
    return shares


if __name__ == "__main__":
    sys.exit(main())
