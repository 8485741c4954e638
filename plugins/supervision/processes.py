"""Processes that must not outlive another: the death signal, finding all that carry a mark, knowing one again.

A mark is an environment variable that only one generation of an application carries; children inherit it, also those
that leave the process group (the Python workers of Spark do). Linux only: prctl and /proc. Standard library alone.

A pid names a process only together with the kernel that gave it and with the moment it was given.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HostBoot", "die_with_parent", "end_all_marked", "here", "marked", "start_ticks", "start_time"]

_PR_SET_PDEATHSIG = 1
# Loaded before any fork: a child between fork and exec must not load libraries.
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class HostBoot:
    """Where processes run: a host, and one start of its kernel. Both are empty where nobody wrote them down."""

    host: str = ""
    boot_id: str = ""

    def is_elsewhere(self, here: HostBoot) -> bool:
        """Whether what ran here may still run on another host. After a restart of this one nothing of it does.

        Containers of one machine have names of their own and one kernel: they are one host.
        """
        return bool(self.boot_id) and self.boot_id != here.boot_id and self.host != here.host


def here() -> HostBoot:
    """This process's place; `$LYREBIRD_HOST` names the host where its own name changes, as that of a container does."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return HostBoot(os.environ.get("LYREBIRD_HOST") or os.uname().nodename, boot_id)


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
    ticks = start_ticks(pid)
    boot = next(
        int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")
    )
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since the kernel did: exact, and no setting of the wall clock moves it.

    Raises:
        ProcessLookupError: there is no such process.
    """
    try:
        # The name, in parentheses, may hold blanks and parentheses itself.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError as error:
        raise ProcessLookupError(pid) from error


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
