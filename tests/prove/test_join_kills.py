"""A chain of joins while its driver, its workers and the broker are killed: what comes out is what SQL says.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_join_kills.py

LYREBIRD_PROVE_KILLS says how many kills, 50 by default (about 20 minutes); LYREBIRD_PROVE_SEED their order.
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

from tests.integration.source.broker import broker
from tests.join_process import JoinProcess
from tests.join_world import JoinWorld

pytestmark = pytest.mark.prove
if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_join_kills.py", allow_module_level=True)

KILLS = int(os.environ.get("LYREBIRD_PROVE_KILLS", "50"))
SEED = int(os.environ.get("LYREBIRD_PROVE_SEED", "1"))


@pytest.mark.timeout(5400)
def test_no_kill_loses_or_doubles_an_output(unique: str, registry_url: str, s3: Any, tmp_path: Path) -> None:
    draw, done = random.Random(SEED), Counter[str]()
    with broker(tmp_path / "kafka") as kafka:
        world = JoinWorld(unique, kafka.address, registry_url, s3, tmp_path)
        world.change(200)
        process = JoinProcess(f"join_{unique}", tmp_path)
        while sum(done.values()) < KILLS:
            until_s = time.monotonic() + draw.uniform(4, 20)
            while time.monotonic() < until_s:
                world.change(draw.randint(1, 8))
                if draw.random() < 0.03:
                    world.truncate()
                world.heartbeat()
                time.sleep(0.2)
            kind = draw.choice(["driver", "driver", "driver and disk", "worker", "worker", "broker"])
            if kind == "worker" and not process.kill_worker():
                continue
            if kind == "broker":
                kafka.kill()
                time.sleep(draw.uniform(0, 2))
                kafka.start()
            elif kind != "worker":
                process.kill()
                if kind == "driver and disk":
                    shutil.rmtree(tmp_path / "state" / "state", ignore_errors=True)
            done[kind] += 1
            process.revived()
            print(f"{sum(done.values())} of {KILLS}: {kind}", flush=True)
        # Kills may have come right behind a TRUNCATE.
        world.change(100)
        try:
            world.wait(lambda: process.revived() and world.equal(), within_s=240)
        finally:
            said = process.tail()
            process.kill()
        print(dict(done), f"{len(world.table(world.second))} outputs")
        assert len(world.table(world.second)) > 5, said
        world.close()
