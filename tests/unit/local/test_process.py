"""Whom `process.stop` ends: those who were started, with what they left behind, and nobody else."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest

from include.clock import SystemClock
from include.local.process import StartedProcess, identify, stop


@pytest.fixture
def leader() -> Iterator[subprocess.Popen[str]]:
    """A process that leads a group of its own, and tells the pid of a child that outlives it."""
    text = "sleep 60 >&- & echo $!; exec sleep 60"
    with subprocess.Popen(["sh", "-c", text], stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        yield child
        child.kill()


def child_of(leader: subprocess.Popen[str]) -> psutil.Process:
    assert leader.stdout
    return psutil.Process(int(leader.stdout.readline()))


@pytest.mark.parametrize("age_s", [3_600.0, psutil.boot_time() + 3_600.0])
def test_a_stranger_that_has_the_pid_of_one_that_ended_is_left_alone(
    leader: subprocess.Popen[str], age_s: float
) -> None:
    """Also one of before the machine's last start, whose pids say nothing any more."""
    child = child_of(leader)
    now = identify(leader.pid)
    assert now
    assert stop([(StartedProcess(leader.pid, time.time() - age_s), 0.0)], SystemClock()) == []
    assert identify(leader.pid) == now
    assert child.is_running()
    child.kill()


def test_what_a_leader_left_in_its_group_ends_with_it(leader: subprocess.Popen[str]) -> None:
    child, running = child_of(leader), identify(leader.pid)
    assert running
    leader.kill()
    leader.wait()
    assert child.is_running()
    stop([(running, 0.0)], SystemClock())
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
