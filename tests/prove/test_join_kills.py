"""A chain of joins on two executors while its driver, its workers, their hosts and the broker are killed.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_join_kills.py

After each kill both joined topics become what SQL says of the tables. One of the two servers whose tables are joined
stands still for a minute at a time.
LYREBIRD_PROVE_KILLS says how many kills, 50 by default (about 40 minutes); LYREBIRD_PROVE_SEED their order.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.application_process import ApplicationProcess
from tests.support.joins.harness import JoinHarness
from tests.support.log.broker import Broker, broker
from tests.support.spark_cluster import SparkCluster

pytestmark = pytest.mark.prove
if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_join_kills.py", allow_module_level=True)

KILLS = int(os.environ.get("LYREBIRD_PROVE_KILLS", "50"))
SEED = int(os.environ.get("LYREBIRD_PROVE_SEED", "1"))


KINDS = ("driver", "driver", "driver and disk", "worker", "worker", "executor", "executor", "broker")


@pytest.mark.timeout(5400)
def test_no_kill_loses_or_doubles_an_output(unique: str, registry_url: str, s3: Any, tmp_path: Path) -> None:
    draw, done = random.Random(SEED), Counter[str]()
    cluster = SparkCluster(tmp_path)
    try:
        cluster.add()
        cluster.add()
        with broker(tmp_path / "kafka") as kafka:
            world = JoinHarness(unique, kafka.address, registry_url, s3, tmp_path)
            world.change(200)
            process = ApplicationProcess(f"join_{unique}", tmp_path, {"LYREBIRD_SPARK_MASTER": cluster.url})
            try:
                _killed(world, process, cluster, kafka, draw, done)
                # Kills may have come right behind a TRUNCATE.
                world.change(100)
                world.wait(lambda: process.revived() and world.equal(), within_s=240)
            finally:
                said = process.tail()
                process.kill()
            print(dict(done), f"{len(world.table(world.second))} outputs", flush=True)
            assert len(world.table(world.second)) > 5, said
            world.close()
    finally:
        cluster.close()


def _killed(
    world: JoinHarness,
    process: ApplicationProcess,
    cluster: SparkCluster,
    kafka: Broker,
    draw: random.Random,
    done: Counter[str],
) -> None:
    stands_until_s = 0.0
    while sum(done.values()) < KILLS:
        if not world.stopped and draw.random() < 0.1:
            stands_until_s = time.monotonic() + 60
        world.stopped = time.monotonic() < stands_until_s
        _lived(world, draw)
        kind = draw.choice(KINDS)
        if kind == "worker" and not cluster.kill_python_worker():
            continue
        if kind == "broker":
            kafka.kill()
            time.sleep(draw.uniform(0, 2))
            kafka.start()
        elif kind == "executor":
            cluster.kill()
            cluster.add()
        elif kind != "worker":
            process.kill()
            if kind == "driver and disk":
                shutil.rmtree(world.folder / "state" / "state", ignore_errors=True)
        done[kind] += 1
        began_s = time.monotonic()
        # A kill may have come right behind a TRUNCATE, so that little is left to compare.
        world.change(20)
        world.wait(lambda: process.revived() and world.equal(), within_s=240)
        stands = ", one server stands still" if world.stopped else ""
        took_s = time.monotonic() - began_s
        print(f"{sum(done.values())} of {KILLS}: {kind}{stands}, equal after {took_s:.0f} s", flush=True)
    world.stopped = False


def _lived(world: JoinHarness, draw: random.Random) -> None:
    until_s = time.monotonic() + draw.uniform(2, 10)
    while time.monotonic() < until_s:
        world.change(draw.randint(1, 8))
        if draw.random() < 0.03:
            world.truncate()
        world.heartbeat()
        time.sleep(0.2)
