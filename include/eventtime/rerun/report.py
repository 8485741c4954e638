"""The report of a day's replay, for a person and as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from include.clock import iso
from include.eventtime.algorithm.watermark import NEVER
from include.eventtime.rerun.comparison import ReplayComparison

__all__ = ["ReplayReport"]


@dataclass(frozen=True)
class ReplayReport:
    """The findings of a day's replay.

    Args:
        job: its name.
        day: as in `Day`; so are `after` and `until`.
        watermark: to which it came.
        read: records.
        late: elements that came too late for it.
        comparison: of its outputs with the live ones.
        patience_us: by how much longer than the live run it waited for what comes late; then differences are no
            fault, but what lateness has changed.
    """

    job: str
    day: str
    after: int
    until: int
    watermark: int
    read: int
    late: int
    comparison: ReplayComparison
    patience_us: int = 0

    @property
    def clean(self) -> bool:
        """Whether it came as far as the live run, with the same outputs."""
        return self.comparison.equal and self.watermark >= self.until

    def lines(self, first: Mapping[str, Any] | None) -> list[str]:
        """For a person; `first` as in `to_json`."""
        begin = "its beginning" if self.after == NEVER else iso(self.after)
        out = [
            f"{self.job} on {self.day}, from {begin} to {iso(self.until)}: {self.read:,} records, {self.late:,} late"
        ]
        if self.watermark < self.until:
            reached = "nothing" if self.watermark == NEVER else iso(self.watermark)
            why = "the topics end there" if self.patience_us else "records or verdicts of the live run are gone"
            out.append(f"  the replay came to {reached} only: {why}")
        if self.patience_us:
            waited = f"{self.patience_us / 1_000_000:,.0f} s longer than the live run"
            out.append(f"  it waited {waited}: what differs up to where it came is due to that")
        both = f"{self.comparison.live:,} outputs live, {self.comparison.replayed:,} in the replay"
        if first is None:
            return [*out, f"  {both}: all the same"]
        found = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.comparison.found.items()))
        out.append(
            f"  {both}: {found}; the first, {first['kind']}, is {first['output']} {first['version']} of {first['key']}"
        )
        out.append(f"  at {first['time']}: live {first['live']}, in the replay {first['replayed']}")
        return out

    def to_json(self, shown: Callable[[bytes | None], Any]) -> dict[str, Any]:
        """Plain values; `shown` decodes keys and values."""
        first = self.comparison.first
        return {
            "job": self.job,
            "day": self.day,
            "after": "" if self.after == NEVER else iso(self.after),
            "until": iso(self.until),
            "watermark": "" if self.watermark == NEVER else iso(self.watermark),
            "read": self.read,
            "late": self.late,
            "patience_s": self.patience_us / 1_000_000,
            "live": self.comparison.live,
            "replayed": self.comparison.replayed,
            "found": dict(sorted(self.comparison.found.items())),
            "clean": self.clean,
            "first": None
            if first is None
            else {
                "kind": first.kind,
                "output": first.output,
                "key": shown(first.key),
                "version": first.version,
                "time": iso(first.time),
                "live": shown(first.live),
                "replayed": shown(first.replayed),
            },
        }
