"""`make bench-lake`: what a core stores, from a real Kafka to committed objects on the local S3 server.

Records of 1 KB of JSON. Each measurement is a process of its own on one core, which servers do not use where there are
two; rounds are interleaved, medians told. Rates are of payload for each CPU second of that process, librdkafka's
threads included: what others on the machine do costs wall time alone. In the same run: the limit of librdkafka's
consumer, requests for each cut, and the memory for 1,000 open directories. Ends with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Final

from include.log.ports import TopicInfo
from include.settings.environment import PROJECT_ROOT
from tests.bench.lake.place import RECORD_BYTES, LakePlace, lake_placed, parsed_by
from tests.bench.servers import on_cores

__all__ = ["main"]

_LIMIT: Final = "librdkafka's consumer alone"
_RAW: Final = "raw, uncompressed"
_BLOCK: Final = "raw, BLOCK zlib-1"
_JSON: Final = "JSON by date, JSON lines"
_SEQUENCE: Final = "JSON by date, SequenceFile"
_SECOR_MB_S: Final = 6.4
_DIRECTORIES: Final = 1000
_MOST_MIB: Final = 512

_VERBATIM: Final[dict[str, Any]] = {"layout": "verbatim"}
_ZLIB_1: Final = {"compression": "BLOCK", "codec": "zlib", "level": 1}
_FORMS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    _RAW: ("backup", {"sequence": _VERBATIM}),
    _BLOCK: ("backup", {"sequence": _VERBATIM | _ZLIB_1}),
    _JSON: ("partition", {"json_lines": {"content": "payload"}}),
    _SEQUENCE: ("partition", {"sequence": {"layout": "message_pack"}}),
}
_OPEN: Final[dict[str, dict[str, Any]]] = {
    "JSON lines": {"json_lines": {"content": "payload"}},
    "JSON lines, gzip": {"json_lines": {"content": "payload", "compression": {"codec": "gzip"}}},
    "SequenceFile": {"sequence": {"layout": "message_pack"}},
    "SequenceFile, BLOCK zlib-1": {"sequence": {"layout": "message_pack", **_ZLIB_1}},
}


@dataclass(frozen=True)
class Bound:
    """`got` and what must hold."""

    what: str
    got: str
    wanted: str
    held: bool


def main() -> int:
    """Fill, store in rounds, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=300, help="payload of each measurement, 10^6 bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=sorted(_FORMS), help="these ways alone")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    ways = [_LIMIT, *(arguments.only or _FORMS)]
    with lake_placed(apart=True) as place:
        records = arguments.mb * 1_000_000 // RECORD_BYTES
        events = place.fill("bench.events", records)
        rounds: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for round_ in range(arguments.rounds):
            for way in ways:
                load = os.getloadavg()[0]
                one = _run(place, events, records, way, round_) | {"load": load}
                rounds[way].append(one)
                rate = f"{one['bytes'] / 1e6 / one['cpu_s']:.0f} MB/CPU s, load {load:.1f}"
                print(f"round {round_ + 1} of {arguments.rounds}: {way}: {rate}", file=sys.stderr)
        opened = {}
        if not arguments.only:
            tenants = place.fill("bench.directories", 200 * _DIRECTORIES, tenants=_DIRECTORIES)
            for number, (form, definition) in enumerate(_OPEN.items()):
                opened[form] = _open(place, tenants, definition, number)
                print(f"{_DIRECTORIES} directories: {form}: {opened[form]['most_mb']:.0f} MiB", file=sys.stderr)
        shared = place.shared
    return _tell(rounds, opened, shared=shared, as_json=arguments.json)


def _run(place: LakePlace, topic: TopicInfo, records: int, way: str, round_: int) -> dict[str, Any]:
    if way == _LIMIT:
        return _measure(place, topic, records, {"way": "limit"})
    kind, form = _FORMS[way]
    rule = {"topics": "*", "format": form} if kind == "backup" else parsed_by(form)
    return _store(place, topic, records, kind, rule, f"bench/{list(_FORMS).index(way)}-{round_}")


def _open(place: LakePlace, topic: TopicInfo, form: dict[str, Any], number: int) -> dict[str, Any]:
    rule = parsed_by(form, {"by": "field", "name": "tenant", "field": ["tenant"]})
    return _store(place, topic, 200 * _DIRECTORIES, "partition", rule, f"bench/open-{number}")


def _store(
    place: LakePlace, topic: TopicInfo, records: int, kind: str, rule: dict[str, Any], prefix: str
) -> dict[str, Any]:
    group = {"kind": kind, "application": "bench", "topics": ["*"], "prefix": prefix, "rules": [rule]}
    return _measure(place, topic, records, {"way": "store", "group": group})


def _measure(place: LakePlace, topic: TopicInfo, records: int, asked: dict[str, Any]) -> dict[str, Any]:
    asked |= {
        "kafka": place.kafka,
        "store": place.store,
        "folder": str(place.folder),
        "topic": topic.name,
        "topic_id": topic.named_id,
        "records": records,
        "record_bytes": RECORD_BYTES,
    }
    with on_cores(frozenset([max(place.cores)])):
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.lake.worker"],
            input=json.dumps(asked),
            cwd=PROJECT_ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"a measurement failed: {done.stderr.strip().splitlines()[-1:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _bounds(rates: dict[str, float], rounds: dict[str, list[dict[str, Any]]], opened: dict[str, Any]) -> list[Bound]:
    found = []
    least = min(100.0, 0.6 * rates[_LIMIT])
    for way, wanted in ((_RAW, least), (_BLOCK, 30.0), (_JSON, 30.0), (_SEQUENCE, 30.0)):
        if way in rates:
            found.append(Bound(way, f"{rates[way]:.0f} MB/s", f"{wanted:.0f}", rates[way] >= wanted))
    if _RAW in rates:
        times = rates[_RAW] / _SECOR_MB_S
        found.append(Bound(f"{_RAW}, beside Secor's published {_SECOR_MB_S}", f"{times:.1f} x", "10", times >= 10))
    stores = [each for way, all_ in rounds.items() if way != _LIMIT for each in all_] + list(opened.values())
    most = max(_writes(each) - each["files"] - 2 * each["cuts"] for each in stores)
    found.append(Bound("objects written beyond each cut's files", f"{most + 2:+d} at most", "+2", most <= 0))
    others = sum(each["requests"].get(kind, 0) for each in stores for kind in ("copy", "delete"))
    found.append(Bound("copies and deletes", str(others), "0", others == 0))
    for form, each in opened.items():
        held = each["most_mb"] < _MOST_MIB and each["files"] >= _DIRECTORIES
        what = f"memory, {each['files'] // each['cuts']:,} directories open: {form}"
        found.append(Bound(what, f"{each['most_mb']:.0f} MiB", f"less than {_MOST_MIB}", held))
    return found


def _writes(each: dict[str, Any]) -> int:
    """Objects that were written, or tried to be: whole, or in parts."""
    requests = each["requests"]
    return int(requests.get("put", 0) + requests.get("end parts", 0))


def _tell(
    rounds: dict[str, list[dict[str, Any]]], opened: dict[str, dict[str, Any]], *, shared: bool, as_json: bool
) -> int:
    rates = {
        way: statistics.median(each["bytes"] / 1e6 / each["cpu_s"] for each in all_) for way, all_ in rounds.items()
    }
    bounds = _bounds(rates, rounds, opened)
    missed = [bound.what for bound in bounds if not bound.held]
    if as_json:
        said = {"mb_a_cpu_second": rates, "rounds": rounds, "directories": opened, "missed": missed}
        print(json.dumps(said))
        return 1 if missed else 0
    print(f"{'on one core':29} {'MB/CPU s':>9} {'best':>6} {'MB/s':>6} {'stored':>7} {'cuts':>5} {'MiB':>5}  requests")
    for way, all_ in rounds.items():
        best = max(each["bytes"] / 1e6 / each["cpu_s"] for each in all_)
        wall = statistics.median(each["bytes"] / 1e6 / each["wall_s"] for each in all_)
        one = all_[0]
        stored = f"{one['stored_bytes'] / one['bytes']:.0%}" if "cuts" in one else ""
        requests = ", ".join(f"{count} {kind}" for kind, count in sorted(one.get("requests", {}).items()))
        memory = max(each["most_mb"] for each in all_)
        print(
            f"{way:29} {rates[way]:9.0f} {best:6.0f} {wall:6.0f} {stored:>7} {one.get('cuts', ''):>5} {memory:5.0f}  "
            f"{requests}"
        )
    loads = [each["load"] for all_ in rounds.values() for each in all_]
    beside = "servers on the same cores" if shared else "servers on other cores"
    print(f"{beside}; load when a measurement began: {min(loads):.1f} to {max(loads):.1f}")
    for bound in bounds:
        print(f"{'held' if bound.held else 'MISSED'}: {bound.what}: {bound.got}, wanted {bound.wanted}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
