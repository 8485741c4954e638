"""Finds a stack's processes and the memory that they hold: everything whose environment names its state folder.

Servers, supervised applications and what they start inherit `LYREBIRD_STATE`, so nothing is missed that a list of
pids would not know, such as Spark's Python workers.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

__all__ = ["processes", "resident_mb"]


def processes(state: str | Path) -> list[psutil.Process]:
    """Living processes of the stack in `state`, this one and those that cannot be looked into left out."""
    wanted = str(Path(state).absolute())
    living = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("LYREBIRD_STATE") == wanted:
                living.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return living


def resident_mb(state: str | Path) -> int:
    """Memory of all of them, in MB; pages that several share are counted once (PSS) where the system tells."""
    total = 0
    for process in processes(state):
        try:
            total += _proportional(process.pid) or process.memory_info().rss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total // 1_000_000


def _proportional(pid: int) -> int | None:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        return None
    return None
