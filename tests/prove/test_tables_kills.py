"""Tables of the lake while their application, its workers and the broker are killed; DuckDB reads what comes out.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_tables_kills.py

LYREBIRD_PROVE_KILLS says how many kills, 50 by default (about 15 minutes); LYREBIRD_PROVE_SEED their order.
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

from include.clock import SystemClock
from include.lake.tables.delta_log import DeltaLog
from tests.support.application_process import ApplicationProcess
from tests.support.joins.harness import JoinHarness
from tests.support.log.broker import Broker, broker
from tests.support.tables.join_tables import APPLICATION, KeptTables

pytestmark = pytest.mark.prove
if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_tables_kills.py", allow_module_level=True)

KILLS = int(os.environ.get("LYREBIRD_PROVE_KILLS", "50"))
SEED = int(os.environ.get("LYREBIRD_PROVE_SEED", "1"))
KINDS = ("driver", "driver", "driver", "driver and disk", "worker", "worker", "broker")


@pytest.mark.timeout(5400)
def test_no_kill_loses_or_doubles_a_row_or_a_version(unique: str, registry_url: str, s3: Any, tmp_path: Path) -> None:
    draw, done = random.Random(SEED), Counter[str]()
    with broker(tmp_path / "kafka") as kafka:
        world = JoinHarness(unique, kafka.address, registry_url, s3, tmp_path)
        kept = KeptTables(world)
        world.change(200)
        process = ApplicationProcess(APPLICATION, tmp_path, script="spark_apps/lake_tables.py")
        try:
            world.wait(lambda: process.revived() and kept.equal(), within_s=240)
            while done.total() < KILLS:
                _lived(world, draw)
                kind = draw.choice(KINDS)
                if _killed(kind, world, process, kafka):
                    done[kind] += 1
                    print(f"{done.total()} of {KILLS}: {kind}", flush=True)
                process.revived()
                if done.total() % 10 == 0:
                    world.wait(lambda: process.revived() and kept.equal(), within_s=240)
            world.change(100)
            world.wait(lambda: process.revived() and kept.equal(), within_s=240)
        except AssertionError as failed:
            raise AssertionError(process.tail()) from failed
        finally:
            process.kill()
        print(dict(done), {topic: _history(kept, prefix, topic) for prefix, topic, _, _ in kept.tables}, flush=True)
        world.close()


def _killed(kind: str, world: JoinHarness, process: ApplicationProcess, kafka: Broker) -> bool:
    if kind == "worker":
        return process.kill_worker()
    if kind == "broker":
        kafka.kill()
        kafka.start()
        return True
    process.kill()
    if kind == "driver and disk":
        shutil.rmtree(world.folder / "state", ignore_errors=True)
    return True


def _lived(world: JoinHarness, draw: random.Random) -> None:
    until_s = time.monotonic() + draw.uniform(2, 14)
    while time.monotonic() < until_s:
        world.change(draw.randint(1, 8))
        if draw.random() < 0.03:
            world.truncate()
        world.heartbeat()
        time.sleep(0.2)


def _history(kept: KeptTables, prefix: str, topic: str) -> int:
    """How many versions a table has: each is there once, and goes on where the one before it stood."""
    place = kept.place(prefix, topic)
    assert place is not None
    log = DeltaLog(*place, SystemClock())
    assert log.state() is not None
    versions = sorted(version for version, _, _ in log.labels())
    assert versions == list(range(versions[-1] + 1))
    before: dict[int, int] = {}
    for version in versions:
        ends = dict(log.at(version).standing.ends)
        assert all(ends.get(partition, 0) >= end for partition, end in before.items()), version
        before = ends
    return len(versions)
