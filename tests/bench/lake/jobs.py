"""`python -m tests.bench.lake.jobs`: many small ranges, a Spark job for each and several in one job.

A topic with many partitions of few records is stored by groups of their own, in turn, all of it at once. Nothing is
judged: what a job costs depends on the machine. Ends with 1 when a run does not store all there is.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from unittest import mock

import yaml
from pyspark.sql import SparkSession

from include.clock import SystemClock
from include.lake import groups_spark as stream
from include.lake.definition import declared_groups
from include.lake.host import GroupHost
from include.log.running.batches_spark import session
from include.metrics.progress import RunFolder
from include.settings.deployment import Deployment
from tests.bench.lake.place import LakePlace, lake_placed

__all__ = ["main"]

_TOPIC = "small"


def main() -> int:
    """Run in rounds, tell; 1 when something was left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--records", type=int, default=20, help="of each partition, 1 KB each")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found: dict[int, list[tuple[int, float]]] = {1: [], stream._TOGETHER: []}
    with lake_placed(apart=False) as place:
        place.fill(_TOPIC, arguments.partitions * arguments.records, partitions=arguments.partitions)
        spark = session("bench", {"spark.master": "local[2]", "spark.log.level": "ERROR"})
        try:
            _run(spark, place, "warm", stream._TOGETHER, arguments.partitions)
            for number in range(arguments.rounds):
                for together, runs in found.items():
                    runs.append(_run(spark, place, f"{number}-{together}", together, arguments.partitions))
        finally:
            spark.stop()
    for together, runs in found.items():
        seconds = [each for _, each in runs]
        told = f"{statistics.median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f})"
        print(f"{arguments.partitions} ranges, at most {together} in a job: {runs[0][0]} jobs, {told}")
    return 0


def _run(spark: SparkSession, place: LakePlace, name: str, together: int, partitions: int) -> tuple[int, float]:
    """How many jobs a group needs to store it all, and how many seconds."""
    folder = Path(place.folder) / name
    folder.mkdir()
    group = {
        "kind": "backup",
        "application": "lake",
        "run": "schedule",
        "topics": [_TOPIC],
        "prefix": f"bench/{name}",
        "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
    }
    (folder / "d.yaml").write_text(
        yaml.safe_dump({"kafka": place.kafka, "store": place.store, "lake": {"small": group}})
    )
    deployment, clock = Deployment.load(folder, {}), SystemClock()
    ((driver, report, pool),) = stream.build(spark, deployment, declared_groups(deployment), clock)
    host = GroupHost("lake", [(driver, report)], RunFolder(folder, clock), clock, lambda: False)
    with (
        mock.patch.object(stream, "_TOGETHER", together),
        mock.patch.object(pool, "submit", wraps=pool.submit) as submit,
    ):
        begun_s = time.perf_counter()
        host.drain(flush=True)
        took_s = time.perf_counter() - begun_s
    pool.close()
    left = driver.planner.waiting()
    if len(left) != partitions or any(left.values()):
        raise SystemExit(f"{name}: {sum(left.values())} records of {len(left)} partitions wait")
    return submit.call_count, took_s


if __name__ == "__main__":
    sys.exit(main())
