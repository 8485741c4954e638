"""Processes of the lake killed and stopped at every step, on real servers; Hadoop's reader finds every offset once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.log.running import batches_spark
from tests.support.kills.conductor import Conductor
from tests.support.kills.kafka_reader import Ran
from tests.support.kills.on_spark import run_on_spark
from tests.support.kills.scenarios import on_spark, scenarios
from tests.support.kills.verifier import verify
from tests.support.kills.versioned_s3 import BUCKET, versioned
from tests.support.servers.fixture import PROVE

RUNS = 200
AT_ONCE = 4

pytestmark = pytest.mark.skipif(PROVE not in os.environ, reason=f"takes minutes: set {PROVE}=1")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = batches_spark.session(
        "proof", {"spark.master": "local[2]", "spark.driver.memory": "2g", "spark.log.level": "ERROR"}
    )
    yield found
    found.stop()


@pytest.mark.timeout(7200)
def test_every_offset_is_stored_once_whatever_is_killed_or_stopped(
    spark: SparkSession, kafka: str, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began_s = time.monotonic()

    def told(ran: Ran) -> None:
        with capsys.disabled():
            print(
                f"{time.monotonic() - began_s:6.0f} s  {ran.name}{': ' if ran.problem else ''}{ran.problem}", flush=True
            )

    with versioned(tmp_path / "server") as server:
        conductor = Conductor(kafka, server, tmp_path / "runs", unique)
        runs = conductor.run_all(scenarios(), AT_ONCE, told)
        for scenario in on_spark():
            runs.append(run_on_spark(spark, conductor, scenario))
            told(runs[-1])
        ran_s = time.monotonic() - began_s
        client = server.client()
        verdict = verify(spark, client, BUCKET, runs, tmp_path / "objects")
        client.close()
    with capsys.disabled():
        print(
            f"{verdict.runs} runs in {ran_s:.0f} s; {verdict.objects} objects with {verdict.records} records"
            f" verified in {time.monotonic() - began_s - ran_s:.0f} s"
        )
    assert verdict.faults == {}
    assert verdict.runs >= RUNS
