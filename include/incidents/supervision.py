"""Incidents of what keeps applications running, and how a guardian's note of an end reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from include.incidents.kind import IncidentKind

__all__ = ["DOWN", "RESTARTED", "how_ended", "is_crash"]

DOWN: Final = IncidentKind("down", "supervision", "critical", "operations.md#how-applications-are-kept-running",
    opens="an application crashes or stands still, and its restarts did not help: it is tried again slowly",
    ends="it has run for `restarts.window_s`",
    text="{application} is down: {because}, and {most} restarts did not help. It is tried again every "
    "{every_s:g} s. Its last words: {last_words}",
    fix="`lyrebird logs {application}`")  # fmt: skip
RESTARTED: Final = IncidentKind("restarted", "supervision", "warning",
    "operations.md#how-applications-are-kept-running",
    opens="an application has crashed or stood still and runs again, of which one mail an hour tells at most",
    ends="it is told", text="{application} was started again {times}, and runs. Its last end: {how}, {at}. Its log of "
    "before is {log}.",
    fix="`lyrebird status` counts restarts of a day.")  # fmt: skip


def is_crash(end: Mapping[str, Any]) -> bool:
    """Whether a generation crashed or stood still. `end`: as exits.json has it.

    Not when somebody had asked for its end, its host was restarted, or it gave up, which its task's failure tells.
    """
    # Older guardians wrote that their host was restarted as a problem.
    by_itself = end.get("why") is None and end.get("rc") != 0 and end.get("problem") != "its host was restarted"
    return by_itself or end.get("why") == "stalled"


def how_ended(end: Mapping[str, Any]) -> str:
    """In two words: `signal 9`, `status 3`, `stalled`."""
    rc = end.get("rc")
    by_itself = f"signal {-rc}" if isinstance(rc, int) and rc < 0 else f"status {rc}"
    return str(end.get("why") or end.get("problem") or by_itself)
