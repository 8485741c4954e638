"""Operating-system processes: start one in its own group, know it again later, stop exactly that one.

A process is known by its pid *and* its start time, as pids are used again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from include.clock import Clock

__all__ = ["Launch", "StartedProcess", "alive", "identify", "memory_mb", "run", "start", "stop", "tail", "written"]

# The kernel's boot time, from which start times are reckoned, moves a little when the wall clock is set.
_START_TOLERANCE_S = 2.0
_READ_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Launch:
    """How to start one server: everything that a later supervisor needs to start it again.

    `uid`/`gid` are set only when root starts a server for another account. `grace_s` is the time between SIGTERM to
    the leader and SIGKILL to its group.
    """

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    log: str
    uid: int | None = None
    gid: int | None = None
    grace_s: float = 30.0

    def to_json(self) -> dict[str, Any]:
        """Plain values; holds secrets, so the file must be private."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Launch:
        """The inverse of `to_json`."""
        return cls(**{**value, "argv": tuple(value["argv"])})


@dataclass(frozen=True)
class StartedProcess:
    """A process that was started: pid and start time (seconds since the epoch, as psutil gives it)."""

    pid: int
    started: float


def start(launch: Launch) -> subprocess.Popen[bytes]:
    """Start `launch` in a new session (so a new process group) with output appended to its log file.

    Raises OSError when the program cannot be started.
    """
    log = Path(launch.log)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - argv comes from the recipes
            launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
            **_account(launch),
        )


def run(launch: Launch) -> subprocess.CompletedProcess[str]:
    """Run to its end what makes a server's first files, as its account; its output is in the result, not in the log.

    Raises OSError when the program cannot be started.
    """
    return subprocess.run(  # noqa: S603 - argv comes from the recipes
        launch.argv,
        env=launch.env,
        cwd=launch.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        umask=0o077,
        **_account(launch),
    )


def _account(launch: Launch) -> dict[str, Any]:
    if launch.uid is None:
        return {}
    return {"user": launch.uid, "group": launch.gid, "extra_groups": []}


def identify(pid: int) -> StartedProcess | None:
    """The identity of the process that has `pid` now; None when there is none."""
    try:
        return StartedProcess(pid, psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def alive(running: StartedProcess) -> bool:
    """Whether this very process still runs. A zombie does not."""
    try:
        process = psutil.Process(running.pid)
        same = _same(StartedProcess(running.pid, process.create_time()), running)
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _same(one: StartedProcess, other: StartedProcess) -> bool:
    return one.pid == other.pid and abs(one.started - other.started) <= _START_TOLERANCE_S


def stop(processes: Sequence[tuple[StartedProcess, float]], clock: Clock) -> list[StartedProcess]:
    """End processes with their groups, all at once; each pair is (process, grace in seconds).

    1. SIGTERM to each leader alone: a server ends its own children, and Airflow's scheduler hangs when everyone
       in its group is told at once. 2. SIGKILL to each group whose grace is over. 3. SIGKILL to what a leader left.
    Returns those that had to be killed. Processes that are not alive (or are others by now) are left alone.
    """
    for running, _ in processes:
        if alive(running):
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.pid, signal.SIGTERM)
    begin = clock.monotonic_s()
    waiting = list(processes)
    killed: list[StartedProcess] = []
    while waiting:
        still: list[tuple[StartedProcess, float]] = []
        for running, grace_s in waiting:
            if not alive(running):
                _kill_group(running)
            elif clock.monotonic_s() - begin >= grace_s:
                killed.append(running)
                _kill_group(running)
            else:
                still.append((running, grace_s))
        waiting = still
        if waiting:
            clock.sleep(0.05)
    for running in killed:
        while alive(running):
            clock.sleep(0.02)
    return killed


def _kill_group(running: StartedProcess) -> None:
    """SIGKILL every process of the group that `running` led and that is not older than it."""
    leader = identify(running.pid)
    if running.started < psutil.boot_time() - _START_TOLERANCE_S or (leader and not _same(leader, running)):
        # A kernel gives no pid anew while a group has it: what has it by now is a stranger, with a group of its own.
        return
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            member = os.getpgid(process.pid) == running.pid
            if member and process.create_time() >= running.started - _START_TOLERANCE_S:
                os.kill(process.pid, signal.SIGKILL)


def memory_mb(running: StartedProcess) -> float:
    """Memory of the process and its children in MB; 0 when it is gone.

    Pages shared by forked children (Airflow's workers) are divided among them where the kernel tells (PSS), else
    counted for each (RSS).
    """
    try:
        leader = psutil.Process(running.pid)
        family: Iterable[psutil.Process] = [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    total = 0
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            try:
                total += process.memory_full_info().pss
            except psutil.AccessDenied:
                total += process.memory_info().rss
    return total / 1024 / 1024


def tail(log: Path, lines: int = 8) -> list[str]:
    """The last lines of a log file that say something; empty when there is no such file."""
    return [line.rstrip() for line in written(log, most=16384).splitlines() if line.strip()][-lines:]


def written(log: Path, since: int = 0, *, most: int = _READ_BYTES) -> str:
    """What a log holds from byte `since` on, the last `most` bytes of it; empty when there is no such file.

    A log that is shorter by now was rotated meanwhile, and is read from its begin.
    """
    if not log.exists():
        return ""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(since if since <= size else 0, size - most))
        return file.read().decode("utf-8", "replace")
