"""Says in the place of an audit's report that nothing was there yet to judge: neither clean nor wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

from include.errors import NothingToJudge

__all__ = ["LOST", "NOTHING", "NOTHING_STATUS", "NothingJudged", "exit_status", "judged_nothing"]

NOTHING: Final = "nothing"
"""The verdict of what has judged nothing, in reports as JSON."""
LOST: Final = "lost"
"""The same where an earlier run has judged it, so that it is gone."""
NOTHING_STATUS: Final = 4
"""Exit status of an audit that has judged nothing at all."""


class _Report(Protocol):
    @property
    def verdict(self) -> str: ...


@dataclass(frozen=True)
class NothingJudged:
    """Where a report of `what` would stand: an audit, a topic, a group of the lake.

    Args:
        what: its name.
        at: when it was looked for.
        error: what is not there yet, and what to do.
        topic: whose records would be judged; "" where it is not about one.
    """

    what: str
    at: str
    error: str
    topic: str = ""

    @classmethod
    def of(cls, what: str, at: str, nothing: NothingToJudge, topic: str = "") -> NothingJudged:
        """As the error tells it."""
        return cls(what, at, str(nothing), topic)

    @property
    def verdict(self) -> str:
        """What tells it from a report."""
        return NOTHING

    @property
    def clean(self) -> bool:
        """Never: nobody has looked."""
        return False

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the keys by which reports are judged."""
        return {**asdict(self), "verdict": self.verdict, "clean": self.clean, "findings": 0, "next_command": ""}

    def lines(self) -> list[str]:
        """For a person."""
        return [f"{self.what}: nothing to judge: {self.error}"]


def judged_nothing(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of a report, as JSON, stands for nothing that was judged."""
    return entry.get("verdict") in (NOTHING, LOST)


def exit_status(reports: Sequence[_Report]) -> int:
    """Of a command: 1 with findings; `NOTHING_STATUS` when no report judged anything; else 0."""
    verdicts = {each.verdict for each in reports}
    if "findings" in verdicts:
        return 1
    return NOTHING_STATUS if verdicts <= {NOTHING} else 0
