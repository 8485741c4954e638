"""The report of an audit of a join's state, in words and as JSON, with the command that comes next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from include.audit.joins.report import counted, judged, named

__all__ = ["KINDS", "SHOWN", "StateReport"]

KINDS: Final = ("missing", "extra", "stale", "altered", "misplaced")
SHOWN: Final = 20
"""Keys of a kind that are named."""


@dataclass(frozen=True)
class StateReport:
    """The result, and up to where it holds.

    Args:
        join: its name.
        at: when it was made.
        positions: source → what was judged, as GTIDs.
        buckets: how many were read.
        expected: rows of inputs that join something; those that a first stage has to find count twice.
        held: rows of the state.
        found: kind → so many rows.
        rows: kind → some of them, in words.
        uncovered: tables whose changes are not judged.
        unreadable: records of inputs that nobody can read, which the join set aside.
    """

    join: str
    at: str
    positions: Mapping[str, str]
    buckets: int
    expected: int
    held: int
    found: Mapping[str, int]
    rows: Mapping[str, tuple[str, ...]]
    uncovered: tuple[str, ...] = ()
    unreadable: int = 0

    @property
    def clean(self) -> bool:
        """Whether the state is what the inputs say."""
        return not self.found

    @property
    def next_command(self) -> str:
        """What to run now; empty when clean."""
        return "" if self.clean else f"lyrebird join rebuild {self.join}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        findings = sum(self.found.values())
        return {**asdict(self), "clean": self.clean, "findings": findings, "next_command": self.next_command}

    def lines(self) -> list[str]:
        """For a person: the verdict, some rows of each kind, the next step."""
        return [
            f"state of {self.join}: {counted(self.found, KINDS)}",
            f"  the inputs have {self.expected:,} rows for it, {self.buckets} buckets hold {self.held:,}",
            *judged(self.positions, self.uncovered, self.unreadable),
            *named(self.found, self.rows, KINDS),
            *([f"next: {self.next_command}"] if self.next_command else []),
        ]
