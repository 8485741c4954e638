"""Jobs that come along: the offline detector, and three that show what else the model carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["JOBS"]

JOBS: Final[Mapping[str, str]] = {
    "battery": "include.eventtime.jobs.battery.Battery",
    "moved_while_locked": "include.eventtime.jobs.locked.MovedWhileLocked",
    "offline": "include.eventtime.jobs.offline.Offline",
    "sessions": "include.eventtime.jobs.sessions.Sessions",
}
"""Short name → dotted name of the process."""
