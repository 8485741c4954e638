"""Work that ends by itself ends with its task, and so do all its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from include.clock import SystemClock
from supervision.leash import leashed
from tests.support.paths import ROOT

CLOCK = SystemClock()
# Starts a worker in a session of its own, as Spark's daemon does, and tells both pids.
WORK = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = CLOCK.monotonic_s() + 20
    while not condition():
        assert CLOCK.monotonic_s() < deadline, f"not seen: {what}"
        CLOCK.sleep(0.02)


def pids(path: Path) -> list[int]:
    eventually(lambda: path.exists() and bool(path.read_text()), "the work's pids")
    return [int(pid) for pid in path.read_text().split()]


def test_a_leash_that_is_asked_to_end_takes_everything_along(tmp_path: Path) -> None:
    with subprocess.Popen(leashed([sys.executable, "-c", WORK, str(tmp_path / "pids")])) as leash:
        work = pids(tmp_path / "pids")
        leash.terminate()
        assert leash.wait(20) == 128 + signal.SIGTERM
        assert all(map(gone, work))


def test_a_task_that_is_killed_takes_everything_along(tmp_path: Path) -> None:
    task = (
        "import subprocess, sys; sys.path.insert(0, 'plugins')\n"
        "from supervision.leash import leashed\n"
        f"subprocess.run(leashed([sys.executable, '-c', {WORK!r}, {str(tmp_path / 'pids')!r}]))"
    )
    root = ROOT
    with subprocess.Popen([sys.executable, "-c", task], cwd=root) as process:
        work = pids(tmp_path / "pids")
        os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: all(map(gone, work)), "their end")
        assert all(map(gone, work))


def test_status_and_output_are_the_commands_own() -> None:
    code = "import sys; print('said'); sys.exit(7)"
    ended = subprocess.run(leashed([sys.executable, "-c", code]), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (7, "said\n")


def test_a_command_that_does_not_exist_is_told_as_such() -> None:
    ended = subprocess.run(leashed(["/does/not/exist"]), capture_output=True, text=True, check=False)
    assert ended.returncode == 127
    assert "cannot start /does/not/exist" in ended.stderr
