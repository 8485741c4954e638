"""The report of a dark launch: what it has found, and whether to switch.

Reports of several processes add up. Advice to switch needs enough samples, and of those compared no more than the bound
that differ, did not settle or had no answer; lag is no reason against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from include.clock import iso
from include.errors import SettingsError
from include.search.dark_launch.compare import AnswerDifference

__all__ = ["Advice", "DarkReport", "ExampleDifference"]

_EXAMPLES: Final = 5
"""Kept of each kind and field."""
_LEAST: Final = 100
_LONGEST: Final = 200
_NOTHING: Final = "–"


@dataclass(frozen=True, slots=True)
class ExampleDifference:
    """One difference as it was read."""

    name: str
    question: str
    doc_id: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice whether to switch, and why or why not. `sure`: enough was compared to say so."""

    switch: bool
    reason: str
    sure: bool = True


@dataclass
class DarkReport:
    """`outcomes`: equal, lag, differs, unsettled, failed. `found`: samples with a difference, by kind or field."""

    began_us: int
    ended_us: int
    outcomes: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    examples: list[ExampleDifference] = field(default_factory=list)
    longest_lag_s: float = 0.0

    @classmethod
    def begin(cls, now_us: int) -> DarkReport:
        """Nothing yet."""
        return cls(now_us, now_us)

    @property
    def samples(self) -> int:
        """Samples that were decided."""
        return sum(self.outcomes.values())

    def compared(self, question: str, outcome: str, found: Sequence[AnswerDifference], lag_s: float = 0.0) -> None:
        """Count a decided sample."""
        self.outcomes[outcome] += 1
        if outcome == "lag":
            self.longest_lag_s = max(self.longest_lag_s, lag_s)
        self.found.update({each.name for each in found})
        for each in found:
            self._keep(ExampleDifference(each.name, question, each.doc_id, _text(each.old), _text(each.new)))

    def failed(self, question: str, reason: str) -> None:
        """Keep why a sample had no answer; `compared` counts it."""
        self._keep(ExampleDifference("failed", question, "", "", reason))

    def drop(self, reason: str) -> None:
        """Count a sample that was not compared."""
        self.dropped[reason] += 1

    def advice(self, bound: float, least: int = _LEAST) -> Advice:
        """Switch or not; `bound` is the share of samples that may differ."""
        bad = self.samples - self.outcomes["equal"] - self.outcomes["lag"]
        if self.samples < least:
            return Advice(False, f"{self.samples:,} samples were compared, {least:,} are needed", sure=False)
        share = bad / self.samples
        said = f"{bad:,} of {self.samples:,} samples are not the same ({share:.3%}), the bound is {bound:.3%}"
        if late := self.outcomes["unsettled"]:
            said += f"; {late:,} were not decided before the deadline: raise it, or look why the index lags"
        if share > bound:
            return Advice(False, said)
        lost = sum(self.dropped.values())
        if lost > self.samples:
            said = f"{lost:,} samples were dropped, more than were compared: lower the sample rate"
            return Advice(False, said, sure=False)
        return Advice(True, said)

    def add(self, other: DarkReport) -> None:
        """Take in another process's report."""
        self.began_us = min(self.began_us, other.began_us)
        self.ended_us = max(self.ended_us, other.ended_us)
        self.outcomes += other.outcomes
        self.found += other.found
        self.dropped += other.dropped
        self.longest_lag_s = max(self.longest_lag_s, other.longest_lag_s)
        for each in other.examples:
            self._keep(each)

    def lines(self, bound: float, least: int = _LEAST) -> list[str]:
        """For people."""
        advice = self.advice(bound, least)
        out = [f"{self.samples:,} samples from {iso(self.began_us)} to {iso(self.ended_us)}"]
        out += [f"  {name:10} {self.outcomes[name]:>9,}" for name in ("equal", "lag", "differs", "unsettled", "failed")]
        if self.outcomes["lag"]:
            out.append(f"  longest lag {self.longest_lag_s:.1f} s")
        out += [f"  dropped ({reason}) {number:,}" for reason, number in sorted(self.dropped.items())]
        for name, number in self.found.most_common():
            out.append(f"{name}: {number:,} sample{'s' if number != 1 else ''}")
            out += [f"  {_said(each)}" for each in self.examples if each.name == name]
        out += [f"failed: {_said(each)}" for each in self.examples if each.name == "failed"]
        return [*out, f"{'switch' if advice.switch else 'do not switch'}: {advice.reason}"]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "began": self.began_us,
            "ended": self.ended_us,
            "outcomes": dict(self.outcomes),
            "found": dict(self.found),
            "dropped": dict(self.dropped),
            "longest_lag_s": self.longest_lag_s,
            "examples": [
                {"name": e.name, "question": e.question, "doc_id": e.doc_id, "old": e.old, "new": e.new}
                for e in self.examples
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DarkReport:
        """Inverse of `to_json`; raises `SettingsError`."""
        try:
            return cls(
                int(value["began"]),
                int(value["ended"]),
                Counter({str(k): int(n) for k, n in value["outcomes"].items()}),
                Counter({str(k): int(n) for k, n in value["found"].items()}),
                Counter({str(k): int(n) for k, n in value["dropped"].items()}),
                [ExampleDifference(**each) for each in value["examples"]],
                float(value["longest_lag_s"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SettingsError("not a report of a dark launch", reason=repr(error)) from error

    def _keep(self, example: ExampleDifference) -> None:
        there = [each for each in self.examples if each.name == example.name]
        if len(there) < _EXAMPLES and example.doc_id not in {each.doc_id for each in there if each.doc_id}:
            self.examples.append(example)


def _said(example: ExampleDifference) -> str:
    values = f": old {example.old}, new {example.new}" if {example.old, example.new} - {"", _NOTHING} else ""
    return f"{example.doc_id} in {example.question}{values}" if example.doc_id else f"{example.question}{values}"


def _text(value: Any) -> str:
    text = _NOTHING if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
