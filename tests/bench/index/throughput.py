"""`python -m tests.bench.index.throughput`: documents that the indexer sends for each second of CPU, and of wall time.

Documents of 1 KB of JSON, with versions, metadata and acknowledgements. Two servers: a stub that accepts all, and a
real node. Beside the application, which is started as a user would and whose processes all count (JVM, driver,
workers), elasticsearch-py's own helpers send the same documents, ready as dictionaries and as NDJSON. Rounds are
interleaved, who begins one takes turns, medians are told. A node gets a round that does not count first, as its
compilers take some 800,000 documents to be done. The application is measured once it has started and indexed its first
20,000 documents. Its first batches make Spark's JVM compile: few documents would measure that.
Ends with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from include.settings.environment import PROJECT_ROOT
from tests.bench.index.application import deployed, indexed
from tests.bench.index.order_documents import Filled
from tests.bench.servers import halves, served
from tests.support.servers.addresses import elasticsearch_url, registry_url

__all__ = ["main", "stub"]

_OURS: Final = "application"
_WAYS: Final = {_OURS: "", "parallel_bulk": "parallel", "streaming_bulk": "streaming", "ready NDJSON": "ndjson"}
_ON_NODE: Final = (_OURS, "parallel_bulk", "ready NDJSON")
_PARTITIONS: Final = 2
_LEAST_A_CPU_S: Final = 50_000
_Rounds = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Bound:
    """`got` and what must hold."""

    what: str
    got: float
    wanted: float

    @property
    def held(self) -> bool:
        return self.got >= self.wanted


def main() -> int:
    """Fill, send in rounds, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000, help="into the stub")
    parser.add_argument("--on-node", type=int, default=400_000, help="documents into the node, which takes its time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("stub", "node"), help="this server alone")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    services = ["kafka", "registry"] + ([] if arguments.only == "stub" else ["elasticsearch"])
    found: dict[str, _Rounds] = {}
    with tempfile.TemporaryDirectory() as name, served(services, Path(name) / "stack", halves(apart=False)[0]) as env:
        if arguments.only != "node":
            found["stub"] = _rounds(arguments.documents, arguments.rounds, env, tuple(_WAYS), Path(name), "")
        if arguments.only != "stub":
            node = elasticsearch_url(env)
            found["node"] = _rounds(arguments.on_node, arguments.rounds, env, _ON_NODE, Path(name), node)
    return _tell(found, as_json=arguments.json)


def _rounds(
    documents: int, rounds: int, env: dict[str, str], ways: tuple[str, ...], folder: Path, node: str
) -> _Rounds:
    found: _Rounds = {way: [] for way in ways}
    # What comes first would pay for the node's compilers: a round before the first is not counted, and each way begins
    # a round in turn.
    for round_ in range(-1 if node else 0, rounds):
        for place, way in enumerate(_turned(ways, round_)):
            name = f"{'node' if node else 'stub'}{round_ if round_ >= 0 else 'w'}{place}"
            load = os.getloadavg()[0]
            with contextlib.nullcontext(node) if node else stub() as url:
                servers = {
                    "kafka": env["LYREBIRD_KAFKA"],
                    "registry": registry_url(env),
                    "elasticsearch": url,
                }
                topic = f"bench.{name}"
                deployment = deployed(folder / name, name, topic, servers)
                if way == _OURS:
                    at = (servers["kafka"], servers["registry"])
                    filled = Filled(*at, topic, documents, _PARTITIONS)
                    run = indexed(deployment, name, filled, folder / f"state-{name}").told()
                    filled.close()
                else:
                    asked = {"url": url, "index": f"{name}-v1", "documents": documents, "way": _WAYS[way]}
                    run = _client(asked)
                if node:
                    _drop(url, f"{name}-v1")
            if round_ >= 0:
                found[way].append(run | {"load": load})
            told = f"{run['documents'] / run['cpu_s']:,.0f} a CPU s, {run['documents'] / run['wall_s']:,.0f} a second"
            print(f"{name}: {way}: {told}, load {load:.1f}", file=sys.stderr)
    return found


def _turned(ways: tuple[str, ...], turns: int) -> tuple[str, ...]:
    return ways[turns % len(ways) :] + ways[: turns % len(ways)]


@contextmanager
def stub() -> Iterator[str]:
    """The address of a server that accepts every document, in a process of its own."""
    command = [sys.executable, "-m", "tests.support.faults.elasticsearch.server"]
    with subprocess.Popen(
        command, cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdout is None:
            raise SystemExit("the stub has no output")
        yield process.stdout.readline().strip()


def _client(asked: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.index.client"],
        input=json.dumps(asked),
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"a measurement failed: {done.stderr.strip().splitlines()[-1:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _drop(url: str, index: str) -> None:
    from elasticsearch import Elasticsearch

    client = Elasticsearch(url, request_timeout=60)
    client.indices.delete(index=index)
    client.close()


def _median(rounds: list[dict[str, Any]], by: str) -> float:
    return float(statistics.median(each["documents"] / each[by] for each in rounds))


def _bounds(found: dict[str, _Rounds]) -> list[Bound]:
    bounds = []
    if "stub" in found:
        got = _median(found["stub"][_OURS], "cpu_s")
        bounds.append(Bound("documents for each CPU second, into the stub", got, _LEAST_A_CPU_S))
    if "node" in found:
        wanted = _median(found["node"]["parallel_bulk"], "wall_s")
        got = _median(found["node"][_OURS], "wall_s")
        bounds.append(Bound("documents a second, into the node, beside parallel_bulk", got, wanted))
    return bounds


def _tell(found: dict[str, _Rounds], *, as_json: bool) -> int:
    bounds = _bounds(found)
    missed = [bound.what for bound in bounds if not bound.held]
    if as_json:
        print(json.dumps({"rounds": found, "missed": missed}))
        return 1 if missed else 0
    print(f"{'':26} {'a CPU s':>9} {'best':>9} {'a second':>9}  CPU seconds of each part")
    for server, ways in found.items():
        for way, rounds in ways.items():
            best = max(each["documents"] / each["cpu_s"] for each in rounds)
            parts = ", ".join(f"{part} {s:.1f}" for part, s in rounds[-1].get("cpu_by_process", {}).items())
            rates = f"{_median(rounds, 'cpu_s'):9,.0f} {best:9,.0f} {_median(rounds, 'wall_s'):9,.0f}"
            print(f"{server + ': ' + way:26} {rates}  {parts}")
    ours = [each for ways in found.values() for each in ways[_OURS]]
    start_s = statistics.median(each["start_s"] for each in ours)
    start_cpu_s = statistics.median(each["start_cpu_s"] for each in ours)
    print(f"until the application's first documents: {start_s:.1f} s, {start_cpu_s:.1f} CPU s")
    loads = [each["load"] for ways in found.values() for rounds in ways.values() for each in rounds]
    print(f"load when a measurement began: {min(loads):.1f} to {max(loads):.1f}")
    for bound in bounds:
        print(f"{'held' if bound.held else 'MISSED'}: {bound.what}: {bound.got:,.0f}, wanted {bound.wanted:,.0f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
