"""Ends the supervised applications that still run when a stack goes down.

Each has a folder `<state>/run/<application>/` with a `run.json` by its guardian: `guardian_pid`, `guardian_start`
(start time as psutil gives it) and `pid` of the application. A guardian that gets SIGTERM drains its application
first; when a guardian is killed, the kernel kills its application.
"""

from __future__ import annotations

import json
from pathlib import Path

from include.clock import Clock
from include.local import process
from include.local.process import Running

__all__ = ["end_guardians", "guardians"]

_GRACE_S = 90.0


def guardians(state: Path) -> dict[str, Running]:
    """Live guardians under `state`, by application."""
    found: dict[str, Running] = {}
    for path in sorted((state / "run").glob("*/run.json")):
        try:
            value = json.loads(path.read_text())
            running = Running(int(value["guardian_pid"]), float(value["guardian_start"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if process.alive(running):
            found[path.parent.name] = running
    return found


def end_guardians(state: Path, clock: Clock) -> list[str]:
    """Ask all guardians to drain, wait, kill those that do not end; returns the applications."""
    found = guardians(state)
    process.stop([(running, _GRACE_S) for running in found.values()], clock)
    return sorted(found)
