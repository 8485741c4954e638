"""More keys than the driver's memory: Spark ranks them for a bisect, with a heap that cannot hold them.

LYREBIRD_PROVE=1 .venv/bin/pytest -s tests/prove/test_search_ranks.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from include.settings.environment import PROJECT_ROOT
from tests.support.search.ranked_keys import DEPLOYMENT, fill, key_of

if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_search_ranks.py", allow_module_level=True)

KEYS = 10_000_000
HEAP_MB = 512
_WITHIN_S = 1500
_DISK_A_KEY = 600
"""Bytes: the record in the log, what Spark sorts of it, and as much to spare."""


class Watch(threading.Thread):
    """The most memory, in MB, that each kind of a process's family held at a time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.most: dict[str, float] = {}
        self._root, self._done = psutil.Process(pid), threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.3):
            held = {"driver": 0.0, "JVM": 0.0, "workers": 0.0}
            with suppress(psutil.NoSuchProcess):
                for each in (self._root, *self._root.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess):
                        kind = "driver" if each == self._root else "JVM" if each.name() == "java" else "workers"
                        held[kind] += each.memory_info().rss / 1e6
            for kind, mb in held.items():
                self.most[kind] = max(self.most.get(kind, 0.0), round(mb))

    def end(self) -> dict[str, float]:
        self._done.set()
        self.join()
        return self.most


@pytest.mark.timeout(2400)
def test_keys_beyond_the_memory_of_the_driver_are_ranked_and_walked(
    kafka: str, registry_url: str, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fits = shutil.disk_usage(tmp_path).free // _DISK_A_KEY
    keys = min(int(os.environ.get("LYREBIRD_PROVE_KEYS", KEYS)), fits) // 9 * 9
    (tmp_path / "all.yaml").write_text(DEPLOYMENT.format(kafka=kafka, registry=registry_url, name=unique))
    records = fill(kafka, registry_url, unique, keys)
    env = os.environ | {
        "LYREBIRD_DEPLOYMENT": str(tmp_path),
        "PYTHONPATH": str(PROJECT_ROOT),
        "SPARK_LOCAL_DIRS": str(tmp_path / "spark"),
        "PYSPARK_SUBMIT_ARGS": f"--driver-memory {HEAP_MB}m pyspark-shell",
    }
    line = [sys.executable, "-m", "tests.support.search.ranked_keys", "--name", unique, "--keys", str(keys)]
    with (tmp_path / "log").open("w+") as log:
        child = subprocess.Popen(line, cwd=PROJECT_ROOT, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        watch = Watch(child.pid)
        watch.start()
        try:
            out, _ = child.communicate(timeout=_WITHIN_S)
        finally:
            child.kill()
            most = watch.end()
        log.seek(0)
        assert child.returncode == 0, log.read()[-3000:]
    told = json.loads(out.splitlines()[-1])
    with capsys.disabled():
        print(f"\n{records} records, {keys * len(key_of(0).encode()) / 1e6:.0f} MB of keys", told, most, sep="\n")
    assert told["heap_mb"] <= HEAP_MB * 1.05
    if keys == KEYS // 9 * 9:
        assert keys * len(key_of(0).encode()) > told["heap_mb"] * 1e6
    assert (told["keys"], told["living"], told["unreadable"]) == (keys, keys, 0)
    assert (told["wrong_boundaries"], told["wrong_spans"]) == (0, 0)
    assert (told["missing_right"], told["extra"]) == (True, 0)
    assert told["requests"] <= 25
    # The process that asks holds boundaries and findings, whatever the number of keys.
    assert most["driver"] < 400
    assert most["JVM"] < 2 * HEAP_MB + 200
