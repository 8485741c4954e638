"""Processes that must not outlive another: the death signal, and finding all that carry a mark.

A mark is an environment variable that only one generation of an application carries; children inherit it, also those
that leave the process group (the Python workers of Spark do). Linux only: prctl and /proc. Standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from pathlib import Path

__all__ = ["die_with_parent", "end_all_marked", "marked", "start_time"]

_PR_SET_PDEATHSIG = 1
# Loaded before any fork: a child between fork and exec must not load libraries.
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Let the kernel SIGKILL this process when its parent ends. For `preexec_fn`; `parent` is the starter's pid."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before the request stood
        os._exit(128 + signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def start_time(pid: int) -> float:
    """When a process started, in seconds since the epoch, as psutil's `create_time()` reckons it (± 1 s).

    Raises:
        ProcessLookupError: there is no such process.
    """
    try:
        # The name, in parentheses, may hold blanks and parentheses itself.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError as error:
        raise ProcessLookupError(pid) from error
    boot = next(
        int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")
    )
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def marked(name: str, value: str) -> list[int]:
    """Pids, other than our own, of living processes whose environment at exec held `name=value`."""
    mark = f"{name}={value}".encode()
    pids = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            # A zombie's environment reads empty, another user's not at all: neither is ours to wait for.
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    pids.append(int(entry))
    return pids


def end_all_marked(name: str, value: str, *, within_s: float) -> list[int]:
    """SIGKILL all marked processes and wait until they are gone; may be called again. Returns those still there."""
    deadline = time.monotonic() + within_s
    while left := marked(name, value):
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        select.select([], [], [], 0.05)
    return left
