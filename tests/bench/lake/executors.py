"""`make bench-lake`, scale: one one-core executor of Spark, two, one more in mid-run, and one killed in mid-run.

Each run is an application of its own on a Spark of its own: groups store a topic of eight partitions, and it ends.
Bounds on speed hold where cores are free for the executors, beside the driver's, Kafka's and the store's; where they
are not, figures are told and not judged. After every run the chains are audited and records counted: nothing may be
lost or doubled. Ends with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any, Final

from include.settings.environment import PROJECT_ROOT
from tests.bench.lake.place import RECORD_BYTES, LakePlace, lake_placed
from tests.bench.lake.spark_run import WARM

__all__ = ["main"]

_PARTITIONS: Final = 8
_TIMES: Final = 1.7
_ADDED_TIMES: Final = 1.2
# Two executors, the driver's JVM and Python, Kafka, the store.
_CORES: Final = 6
_CUT_RECORDS: Final = 24_576
# Of the same topic: a run is long beside what starts it, and where an executor comes, beside the seconds that it needs.
_GROUPS: Final = 3
_CHANGED_GROUPS: Final = 8
_TOPICS: Final = {WARM: "scale.warm", "all": "scale.events"}
_SCALED: Final = ("one", "two")
_CHANGED: Final = {"added": "one executor, and another that came", "killed": "two executors, and one that was killed"}


def main() -> int:
    """Run in rounds, tell; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mb", type=int, default=300, help=f"payload of the topic, 10^6 bytes; {_GROUPS} groups store it"
    )
    parser.add_argument("--rounds", type=int, default=2, help="of one executor and two")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    records = arguments.mb * 1_000_000 // RECORD_BYTES // _PARTITIONS * _PARTITIONS
    found: dict[str, list[dict[str, Any]]] = {"one": [], "two": [], "added": [], "killed": []}
    with lake_placed(apart=False) as place:
        place.fill(_TOPICS[WARM], 2 * _PARTITIONS, partitions=_PARTITIONS)
        place.fill(_TOPICS["all"], records, partitions=_PARTITIONS)
        for _ in range(arguments.rounds):
            for name, executors in (("one", 1), ("two", 2)):
                found[name].append(_run(place, f"{name}-{len(found[name])}", records, executors))
        for name, executors in (("added", 1), ("killed", 2)):
            found[name].append(_run(place, name, records, executors, change=name))
    return _tell(found, records, arguments)


def _run(place: LakePlace, name: str, records: int, executors: int, *, change: str = "") -> dict[str, Any]:
    """One run, in a process of its own."""
    print(f"{name}: {executors} executor{'s' * (executors > 1)}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    count = _CHANGED_GROUPS if change else _GROUPS
    folder = place.folder / name
    folder.mkdir()
    group = {
        "kind": "backup",
        "application": "bench",
        "run": "schedule",
        "policy": {"max_records": _CUT_RECORDS},
        "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim", "compression": "BLOCK", "level": 1}}}],
    }
    topics = {WARM: _TOPICS[WARM], **{f"all_{number}": _TOPICS["all"] for number in range(count)}}
    groups = {each: {**group, "topics": [topic], "prefix": f"{name}/{each}"} for each, topic in topics.items()}
    # JSON is YAML.
    (folder / "lake.yaml").write_text(json.dumps({"kafka": place.kafka, "store": place.store, "lake": groups}))
    whole = records * count
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.lake.spark_run"],
        input=json.dumps({"folder": str(folder), "executors": executors, "change": change, "records": whole}),
        cwd=PROJECT_ROOT,
        env={**os.environ, "LYREBIRD_STATE": str(place.folder / "state"), "PYTHONPATH": str(PROJECT_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr[-2000:]}")
    one = dict(json.loads(done.stdout.splitlines()[-1]))
    return one | {"mb": whole * RECORD_BYTES / 1e6, "whole": one["stored"] == [records] * count}


def _tell(found: dict[str, list[dict[str, Any]]], records: int, arguments: argparse.Namespace) -> int:
    cores = len(os.sched_getaffinity(0))
    rates = {name: statistics.median(each["mb"] / each["wall_s"] for each in all_) for name, all_ in found.items()}
    costs = {name: statistics.median(1000 * each["cpu_s"] / each["mb"] for each in found[name]) for name in _SCALED}
    times = rates["two"] / rates["one"]
    changes = {name: found[name][0]["rates"]["after"] / found[name][0]["rates"]["before"] for name in _CHANGED}
    wrong = [name for name, all_ in found.items() if any(each["findings"] or not each["whole"] for each in all_)]
    missed = [f"{name}: lost or doubled" for name in wrong]
    if cores >= _CORES:
        missed += ["two executors"] * (times < _TIMES) + ["one more in mid-run"] * (changes["added"] < _ADDED_TIMES)
    if arguments.json:
        told = {"mb_s": rates, "cpu_ms_a_mb": costs, "times": times, "changes": changes, "runs": found}
        print(json.dumps(told | {"missed": missed}))
        return 1 if missed else 0
    for name in _SCALED:
        print(f"{name} one-core executor{'s' * (name == 'two')}: {rates[name]:.0f} MB/s, {costs[name]:.1f} CPU ms a MB")
    for name, word in _CHANGED.items():
        before, after = (found[name][0]["rates"][when] * RECORD_BYTES / 1e6 for when in ("before", "after"))
        print(f"{word} in mid-run: {before:.0f} MB/s before, {after:.0f} after, {changes[name]:.2f} x")
    for value, wanted, what in (
        (times, _TIMES, "two executors beside one"),
        (changes["added"], _ADDED_TIMES, "one executor after another came, beside before"),
    ):
        judged = ("held" if value >= wanted else "MISSED") if cores >= _CORES else f"not judged on {cores} cores"
        print(f"{judged}: {what}: {value:.2f} x, wanted {wanted:g} where {_CORES} cores are free")
    runs = sum(len(all_) for all_ in found.values())
    for name in wrong:
        faults = [each for one in found[name] for each in one["findings"]] or [one["stored"] for one in found[name]]
        print(f"MISSED: {name}: not each of {records:,} records is stored once: {faults[:3]}")
    if not wrong:
        print(
            f"held: each of {records:,} records is stored once, by each group of {runs} runs; their audits find nothing"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
