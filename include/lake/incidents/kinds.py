"""Incidents of the lake: their kinds, and the command to run next."""

from __future__ import annotations

import re
from typing import Final, Literal

from include.errors import Fenced, LyrebirdError, Terminal
from include.metrics.incidents import Incident

__all__ = ["IncidentKind", "LeftStanding", "end_incident", "next_command"]

IncidentKind = Literal[
    "lost", "quarantine", "late", "hanging", "standing", "store", "log", "registry", "disk", "fenced", "stopped"
]
"""lost: records went before they were stored; quarantine: parsers refuse records; late: what waits is older than the
upload policy allows, and a minute; hanging: a transaction has had no end for longer than the policy's age; standing: a
partition that must not go on; store, log, registry, disk: refuses or does not answer for a minute; fenced: a newer
revision has taken over; stopped: the application has ended for a cause that a restart does not mend. The last two end
the process."""

_COMMAND: Final = re.compile(r"`(lyrebird [^`]+)`")
_AUDIT: Final = "lyrebird lake audit"
_THEN: Final = " Then start it again (under Airflow: clear its task)."
_NEXT_RUN: Final = " Then the next run goes on."


class LeftStanding(Terminal):
    """A run on a schedule has ended and left partitions behind that must not go on: their incident is open."""


def next_command(text: str, group: str = "", topic: str = "") -> str:
    """The first command that an advice names; else the one that shows the group or the topic."""
    for command in _COMMAND.findall(text):
        if command == _AUDIT and topic:
            return f"{_AUDIT} {topic}"
        if "…" not in command and command != _AUDIT:
            return str(command)
    options = {"--group": group, "--topic": topic}
    return " ".join(["lyrebird lake status", *(f"{name} {value}" for name, value in options.items() if value)])


def end_incident(application: str, error: LyrebirdError, at_us: int, *, again: bool = False) -> Incident:
    """What an application ends with, where starting it again would help nobody; `again`: it runs on a schedule."""
    kind: IncidentKind = "fenced" if isinstance(error, Fenced) else "stopped"
    how, then = ("was taken over", "") if kind == "fenced" else ("has stopped", _NEXT_RUN if again else _THEN)
    text = f"{application} {how}: {str(error).rstrip('.')}.{then}"
    return Incident(f"{kind}:{application}:{at_us}", kind, "", text, next_command(error.fix))
