"""`python -m tests.bench.index.rebuild`: a generation made from its topic, beside ready NDJSON sent to the same node.

Documents of 1 KB of JSON. Ours is `lyrebird index rebuild` as a user starts it: records read from Kafka, decoded, given
metadata and digests, sent with versions, acknowledged, noted. Beside it two threads send the same documents, ready as
NDJSON, into an index with the same settings (no refresh, no replica). And documents of the assembler, on servers of its
own (`tests.bench.index.documents`): one at a time, as the original made an index anew, and set-wise. Rounds are
interleaved, and who begins one takes turns; medians are told of all but the first, in which the node's compilers learn
its work. A rebuild's time is that of all its steps, without the start of its processes' interpreter. Ends with 1 when a
bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from elasticsearch import Elasticsearch

from include.index.definition import index_named
from include.index.generations.rebuild.run import FILLING
from include.index.mapping.declared import creation
from include.index.mapping.file import mapping_of
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from tests.bench.index.application import deployed
from tests.bench.index.client import _checked, _parts, _requests
from tests.bench.index.order_documents import Filled
from tests.bench.servers import halves, served
from tests.support.servers.addresses import elasticsearch_url, registry_url

__all__ = ["main"]

_PARTITIONS: Final = 2
_CLIENTS: Final = 2
_LEAST: Final = 0.8
_LEAST_OF_ONES: Final = 10.0
_REBUILD: Final = "rebuild"
_READY: Final = "ready NDJSON"
_SET_WISE: Final = "set-wise"
_ONE: Final = "one at a time"
_NAME: Final = "rebuilt"


def main() -> int:
    """Fill, rebuild and send in rounds, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {_REBUILD: [], _READY: []}
    assembled: dict[str, list[float]] = {_SET_WISE: [], _ONE: []}
    with (
        tempfile.TemporaryDirectory() as name,
        served(["kafka", "registry", "elasticsearch"], Path(name) / "stack", halves(apart=False)[0]) as env,
    ):
        servers = {
            "kafka": env["LYREBIRD_KAFKA"],
            "registry": registry_url(env),
            "elasticsearch": elasticsearch_url(env),
        }
        deployment = deployed(Path(name) / "deployment", _NAME, "bench.rebuilt", servers)
        filled = Filled(servers["kafka"], servers["registry"], "bench.rebuilt", arguments.documents, _PARTITIONS)
        filled.release()
        filled.close()
        client = Elasticsearch(servers["elasticsearch"], request_timeout=120, max_retries=0)
        for number in range(arguments.rounds + 1):
            for way in (_REBUILD, _READY) if number % 2 else (_READY, _REBUILD):
                load = os.getloadavg()[0]
                run = (
                    _rebuild(client, deployment)
                    if way == _REBUILD
                    else _ndjson(client, deployment, f"ready-v{number + 1}", arguments.documents)
                )
                if number:
                    found[way].append({**run, "load": load})
                print(f"{way}: {run['documents'] / run['seconds']:,.0f}/s, load {load:.1f}", file=sys.stderr)
            for way, rate in _assembled().items() if number else ():
                assembled[way].append(rate)
                print(f"assembled {way}: {rate:,.0f}/s", file=sys.stderr)
        client.close()
    return _tell(found, assembled, as_json=arguments.json)


def _assembled() -> dict[str, float]:
    """Documents a second of a round of the assembler's bench, each way."""
    command = [sys.executable, "-m", "tests.bench.index.documents", "--rounds", "1", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "LYREBIRD_TEST_ENV"}
    done = subprocess.run(command, cwd=PROJECT_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    try:
        rates = json.loads(done.stdout.splitlines()[-1])["documents_a_s"]
    except (IndexError, ValueError) as error:
        raise SystemExit(f"the assembler's bench did not come to its end: exit code {done.returncode}") from error
    return {_SET_WISE: rates[_SET_WISE], _ONE: rates[_ONE]}


def _rebuild(client: Elasticsearch, deployment: Deployment) -> dict[str, float]:
    environment = os.environ | {"LYREBIRD_DEPLOYMENT": str(deployment.folder), "PYTHONPATH": str(PROJECT_ROOT)}
    command = [sys.executable, "-m", "include", "index", "rebuild", _NAME, "--new", "--tasks", "2", "--json"]
    begun_s, times = time.perf_counter(), os.times()
    done = subprocess.run(command, cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, check=False)
    wall_s, after = time.perf_counter() - begun_s, os.times()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    # The index that serves is empty here, so that all documents are more than it has: only the time is of interest.
    result = next((line["rebuilt"] for line in lines if "rebuilt" in line), None)
    if result is None:
        raise SystemExit(f"the rebuild did not end: {done.stderr.strip().splitlines()[-1:]}")
    cpu_s = after.children_user + after.children_system - times.children_user - times.children_system
    client.indices.delete(index=result["index"])
    counts = result["counts"]
    if counts["indexed"] + counts["folded"] != counts["read"]:
        raise SystemExit(f"not every record became a document: {counts}")
    return {"documents": counts["indexed"], "seconds": result["seconds"], "wall_s": wall_s, "cpu_s": cpu_s}


def _ndjson(client: Elasticsearch, deployment: Deployment, index: str, documents: int) -> dict[str, float]:
    definition = index_named(deployment, _NAME)
    body = creation(_NAME, definition, mapping_of(deployment, definition))
    client.indices.create(index=index, mappings=body["mappings"], settings={**body["settings"], **FILLING})

    def send(lines: bytes) -> None:
        _checked(client.bulk(operations=lines, filter_path="errors"))  # type: ignore[arg-type]

    seconds = cpu_s = 0.0
    with ThreadPoolExecutor(_CLIENTS) as threads:
        # Made part by part, so that ready ones fit into memory; what that takes is not measured.
        for actions in _parts(index, documents):
            requests = list(_requests(actions))
            begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
            list(threads.map(send, requests))
            seconds += time.perf_counter() - begun_s
            cpu_s += time.process_time() - begun_cpu_s
    client.indices.refresh(index=index)
    client.indices.delete(index=index)
    return {"documents": documents, "seconds": seconds, "wall_s": seconds, "cpu_s": cpu_s}


def _tell(found: dict[str, list[dict[str, float]]], assembled: dict[str, list[float]], *, as_json: bool) -> int:
    rates = {way: statistics.median(run["documents"] / run["seconds"] for run in runs) for way, runs in found.items()}
    made = {way: statistics.median(each) for way, each in assembled.items()}
    part, times = rates[_REBUILD] / rates[_READY], rates[_REBUILD] / made[_ONE]
    held = part >= _LEAST and times >= _LEAST_OF_ONES
    if as_json:
        print(json.dumps({"rounds": found, "assembled": assembled, "part": part, "times": times, "held": held}))
        return 0 if held else 1
    print(f"{'':24} {'documents/s':>12} {'a CPU s':>9} {'seconds':>8}")
    for way, runs in found.items():
        cpu = statistics.median(run["documents"] / run["cpu_s"] for run in runs)
        seconds = statistics.median(run["seconds"] for run in runs)
        print(f"{way:24} {rates[way]:12,.0f} {cpu:9,.0f} {seconds:8.1f}")
    for way, rate in made.items():
        print(f"{'assembled ' + way:24} {rate:12,.0f}")
    loads: list[Any] = [run["load"] for runs in found.values() for run in runs]
    print(f"load when a measurement began: {min(loads):.1f} to {max(loads):.1f}")
    said = "held" if part >= _LEAST else "MISSED"
    print(f"{said}: a rebuild's rate as part of ready NDJSON's: {part:.0%}, wanted {_LEAST:.0%}")
    said = "held" if times >= _LEAST_OF_ONES else "MISSED"
    print(f"{said}: documents assembled one at a time, as the original did: {times:.1f} times their rate, wanted 10")
    print(f"{rates[_REBUILD] / made[_SET_WISE]:.1f} times the rate of the assembler's set-wise ones")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
