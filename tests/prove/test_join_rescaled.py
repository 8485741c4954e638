"""A chain of joins whose executors and buckets become more and fewer: its state is what the inputs say, row by row.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_join_rescaled.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.application_process import ApplicationProcess
from tests.support.joins.harness import JoinHarness
from tests.support.spark_cluster import SparkCluster

pytestmark = pytest.mark.prove
if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_join_rescaled.py", allow_module_level=True)

_LYREBIRD = Path(sys.executable).with_name("lyrebird")
JOINS = ("reviewed", "owned")


def lyrebird(folder: Path, *words: str) -> Any:
    """What the command says; it has to end with 0."""
    environment = {"LYREBIRD_DEPLOYMENT": str(folder), "LYREBIRD_STATE": str(folder / "by-hand")}
    done = subprocess.run(
        [_LYREBIRD, *words, "--json"], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout
    return json.loads(done.stdout)


def lived(world: JoinHarness, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        world.change(5)
        world.heartbeat()
        time.sleep(0.2)


def rebucketed(folder: Path, name: str, buckets: int) -> None:
    """Export and import into so many buckets; the rows are the same."""
    out = str(folder / f"{name}-{buckets}")
    exported = lyrebird(folder, "state", "export", name, out)
    imported = lyrebird(folder, "state", "import", name, out, "--buckets", str(buckets))
    assert imported["buckets"] == buckets
    assert imported["rows"] == exported["rows"] > 10
    assert imported["digest"] == exported["digest"]
    file = folder / "joins" / f"{name}.yaml"
    file.write_text("\n".join(_with(line, buckets) for line in file.read_text().splitlines()))


def _with(line: str, buckets: int) -> str:
    return f"buckets: {buckets}" if line.startswith("buckets:") else line


def verified(folder: Path, name: str) -> None:
    """Every row of the inputs stands in the state as it is, in its bucket, and no other does."""
    report = lyrebird(folder, "state", "verify", name)
    assert report["found"] == {}
    assert report["held"] == report["expected"] > 5


def waits_for_verification(folder: Path) -> bool:
    """Both joins of the application: nobody has looked at what was imported."""
    progress = json.loads((folder / "run" / "progress.json").read_text())
    return all("verified" in progress["parts"].get(name, {}).get("waiting_for", "") for name in JOINS)


@pytest.mark.timeout(1800)
def test_executors_and_buckets_come_and_go_and_the_state_stays_what_the_inputs_say(
    unique: str, kafka: str, registry_url: str, s3: Any, tmp_path: Path
) -> None:
    cluster = SparkCluster(tmp_path)
    world = JoinHarness(unique, kafka, registry_url, s3, tmp_path, buckets=(16, 16))
    process: ApplicationProcess | None = None
    try:
        for _ in range(2):
            cluster.add()
        world.change(200)
        process = ApplicationProcess(f"join_{unique}", tmp_path, {"LYREBIRD_SPARK_MASTER": cluster.url})
        world.wait(world.equal, within_s=240)
        lived(world, 10)
        for _ in range(6):
            cluster.add()
        # Each of them is a JVM that starts.
        world.wait(lambda: cluster.executors == 8, within_s=300)
        lived(world, 20)
        world.wait(world.equal, within_s=240)
        assert cluster.executors == 8
        for _ in range(5):
            cluster.kill()
        lived(world, 20)
        world.wait(world.equal, within_s=240)
        assert cluster.executors == 3
        assert process.starts == 1
        assert process.stop() == 0
        for name in JOINS:
            verified(tmp_path, name)
        for buckets in (64, 16):
            for name in JOINS:
                rebucketed(tmp_path, name, buckets)
            world.change(40)
            process.revived()
            world.wait(lambda: waits_for_verification(tmp_path), within_s=240)
            assert not world.equal()
            for name in JOINS:
                verified(tmp_path, name)
            lived(world, 10)
            world.wait(world.equal, within_s=240)
            assert process.stop() == 0
        for name in JOINS:
            verified(tmp_path, name)
            report = lyrebird(tmp_path, "audit", "join", name)
            assert report["found"] == {}
            assert report["held"] == report["expected"] > 5
    finally:
        if process is not None:
            process.kill()
        cluster.close()
        world.close()
