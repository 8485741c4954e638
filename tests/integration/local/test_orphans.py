"""Servers of a test run end with it, also when it is killed and runs none of its clean-up."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.paths import ROOT

STACK = """
import sys, time
from pathlib import Path
from include.local.stack import Stack
stack = Stack(Path(sys.argv[1]) / "state", free_ports=True)
stack.up(["mail", "s3"])
print("up", flush=True)
time.sleep(600)
"""
SERVER = """
import sys, time
from pathlib import Path
from tests.support.servers import running
with running("mariadb-11.4", Path(sys.argv[1]) / "server"):
    print("up", flush=True)
    time.sleep(600)
"""


def processes_of(folder: Path) -> list[str]:
    """Whatever names the folder in its command line."""
    found = []
    for each in psutil.process_iter():
        try:
            if str(folder) in " ".join(each.cmdline()) and each.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{each.pid} {each.name()}")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def eventually(check: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 60
    while not check():
        assert time.monotonic() < until_s
        time.sleep(0.1)


@pytest.mark.parametrize("program", [STACK, SERVER], ids=["stack", "server"])
def test_servers_of_a_test_run_that_was_killed_are_gone(program: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        assert run.stdout.readline() == "up\n"
        assert len(processes_of(tmp_path)) > 1
        run.kill()
    eventually(lambda: processes_of(tmp_path) == [])
