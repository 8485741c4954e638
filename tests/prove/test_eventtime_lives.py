"""Jobs of event time on two executors while driver, workers, executors and broker are killed, and their days once more.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_eventtime_lives.py

Three seeds by three partitionings, each with another of the jobs that come along. What was written live is what a
plain replay of the log gives, byte by byte, each output once; the day before midnight and the day behind it, from its
savepoint, come out the same in Spark, over the topics themselves and over topics that were restored from the backup.
LYREBIRD_PROVE_KILLS says how many kills a life has, 5 by default.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from demo.scooters.plan import PARTITIONS
from include.clock import SystemClock
from include.eventtime.committed import day_of
from include.eventtime.rerun.rerun_spark import verify
from include.eventtime.restored import RestoredSource
from include.lake.restore.deployed import DeployedRestore
from include.lake.restore.request import RestoreRequest
from include.log.running.batches_spark import session
from tests.support.application_process import ApplicationProcess
from tests.support.eventtime.fleet_harness import JOBS, FleetHarness
from tests.support.eventtime.job_harness import assert_equal
from tests.support.lake.driven_group import DrivenGroup
from tests.support.log.broker import Broker, broker
from tests.support.spark_cluster import SparkCluster

pytestmark = pytest.mark.prove
if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_eventtime_lives.py", allow_module_level=True)

KILLS = int(os.environ.get("LYREBIRD_PROVE_KILLS", "5"))
KINDS = ("driver", "worker", "executor", "broker", "driver")
SEEDS = (1, 2, 3)
PARTITIONINGS = (1, PARTITIONS, 7)
LIVES = [
    (seed, partitions, [*JOBS][(row + column) % len(JOBS)])
    for row, seed in enumerate(SEEDS)
    for column, partitions in enumerate(PARTITIONINGS)
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    made = SparkCluster(tmp_path_factory.mktemp("spark"))
    try:
        made.add()
        made.add()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    made = session("verify", {"spark.master": "local[2]"})
    yield made
    made.stop()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("seed", "partitions", "job"), LIVES)
def test_a_life_with_kills_is_what_its_replays_are(
    seed: int,
    partitions: int,
    job: str,
    unique: str,
    registry_url: str,
    s3: Any,
    tmp_path: Path,
    cluster: SparkCluster,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with broker(tmp_path / "kafka") as kafka:
        world = FleetHarness(job, unique, kafka.address, registry_url, s3, tmp_path, seed, partitions)
        world.send(30)
        process = ApplicationProcess(
            world.application,
            tmp_path,
            {"LYREBIRD_SPARK_MASTER": cluster.url},
            script="spark_apps/process_events.py",
        )
        try:
            world.wait(world.is_read, lambda: process.alive)
            _killed(world, process, cluster, kafka, random.Random(seed * 100 + partitions))
            world.wait(world.is_read, process.revived)
            assert process.stop() == 0, process.tail()
        finally:
            process.kill()
        expected, made = world.expected()
        written = world.written()
        assert_equal(written, expected)
        assert made.failed == []
        assert len(written) > 10
        late = world.late()
        assert len(late) == len(set(late)) == len(made.late)
        if partitions == PARTITIONS and job != "moved":
            # Nothing but what was planted.
            assert len(late) == len(world.planted) > 3
        monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path / "another-host"))
        _verified(world, spark, {})
        _verified(world, spark, _restored(world, s3))
        world.close()


def _killed(
    world: FleetHarness, process: ApplicationProcess, cluster: SparkCluster, kafka: Broker, draw: random.Random
) -> None:
    for number in range(KILLS):
        for _ in range(draw.randint(2, 4)):
            world.send(draw.randint(2, 12))
            time.sleep(draw.uniform(0, 1.5))
        kind = KINDS[number % len(KINDS)]
        if kind == "driver":
            process.kill()
        elif kind == "worker":
            cluster.kill_python_worker()
        elif kind == "executor":
            cluster.kill()
            cluster.add()
        else:
            kafka.kill()
            time.sleep(draw.uniform(0, 2))
            kafka.start()
        world.send(draw.randint(1, 5))
        process.revived()
        world.wait(world.is_read, process.revived)
        print(f"{number + 1} of {KILLS}: {kind}", flush=True)


def _restored(world: FleetHarness, s3: Any) -> dict[str, RestoredSource]:
    """Every source, backed up and written to another topic."""
    group = DrivenGroup(f"{world.name}", world.folder, world.kafka, s3)
    group.group = group.group.model_copy(update={"prefix": "raw"})
    try:
        group.flush()
        assert group.errors == []
    finally:
        group.threads.shutdown()
        group.store.close()
    deployed, found = DeployedRestore.of(world.deployment, SystemClock()), {}
    for source in (each["topic"] for each in world.sources):
        request = RestoreRequest(topic=source, target=f"again.{source}")
        deployed.perform(deployed.plan(request), lambda _done, _total: None)
        found[source] = RestoredSource(request.target, deployed.spans(request))
    return found


def _verified(world: FleetHarness, spark: SparkSession, restored: dict[str, RestoredSource]) -> None:
    """Both days: the first one from the beginning, the second from its savepoint."""
    live = 0
    for moment in (world.midnight - 1, world.midnight):
        day = day_of(moment)
        report = verify(spark, world.deployment, "job", day, lambda *_: None, restored)
        assert report.clean, report.lines(None)
        assert (report.day, report.after > 0) == (day, moment == world.midnight)
        live += report.comparison.live
    assert live == len(world.written())
