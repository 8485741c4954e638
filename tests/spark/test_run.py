"""A supervised application as a process: how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

PROGRAM = """
import sys
import threading
from include.clock import SystemClock
from include.errors import LyrebirdError, Terminal, Transient
from include.log.running.batches_spark import read_stream, run, session
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from pathlib import Path

bootstrap, topic, folder, sink = sys.argv[1:]
done, asked = Path(folder) / "done", threading.Event()

def on_batch(df, plan):
    if sink == "refuses":
        raise Terminal("the sink refuses", topic=topic, fix="Ask it why.")
    if sink == "full":
        (Path(folder) / "begun").touch()
        asked.wait()
        raise Transient("the sink is full")
    rows = df.count()
    (Path(folder) / "begun").touch()
    SystemClock().sleep(1)
    with done.open("a") as file:
        file.write(f"{rows}\\n")

spark = session("program", {"spark.master": "local[1]", "spark.driver.memory": "512m"})
try:
    run(
        read_stream(spark, bootstrap=bootstrap, topics=[topic]), on_batch, application="program",
        run_folder=RunFolder(Path(folder), SystemClock()), metrics=Metrics("program"), asked=asked,
    )
except LyrebirdError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(1)
print("ended")
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(log: Any, unique: str, tmp_path: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[str]] = []

    def starter(sink: str = "takes") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, log.bootstrap, unique, str(tmp_path), sink],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield starter
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.mark.parametrize("how", ["stop file", "SIGTERM"])
def test_a_drain_finishes_the_running_batch_and_ends_with_exit_0(
    how: str, log: Any, unique: str, start: Start, tmp_path: Path
) -> None:
    log.topic(unique)
    log.write(unique, b"1", b"2", b"3")
    process = start()
    wait_for(tmp_path / "begun", process)
    if how == "stop file":
        (tmp_path / "stop").touch()
    else:
        process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.endswith("ended\n")
    assert (tmp_path / "done").read_text().splitlines()[0] == "3"
    assert "Traceback" not in err
    assert json.loads((tmp_path / "progress.json").read_text())["application"] == "program"


def test_a_batch_that_fails_ends_the_process_with_one_line(log: Any, unique: str, start: Start, tmp_path: Path) -> None:
    log.topic(unique)
    log.write(unique, b"1")
    process = start("refuses")
    _out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err.splitlines()[-1] == f"error: the sink refuses (topic='{unique}'). Ask it why."


def test_a_batch_that_waits_for_its_sink_hears_of_a_signal(log: Any, unique: str, start: Start, tmp_path: Path) -> None:
    log.topic(unique)
    log.write(unique, b"1")
    process = start("full")
    wait_for(tmp_path / "begun", process)
    process.send_signal(signal.SIGTERM)
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("error: the sink is full")
