"""Definition of a finding: something that a person should know before capture trusts a server's binlog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FindingLevel", "ServerFinding"]

FindingLevel = Literal["refuse", "warn"]
"""refuse: capture does not start; warn: it does, with what the finding says."""


@dataclass(frozen=True, slots=True)
class ServerFinding:
    """`place` is a variable, a grant, a database or `table.column`."""

    place: str
    problem: str
    fix: str
    level: FindingLevel = "refuse"
