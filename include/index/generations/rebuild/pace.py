"""Measures how fast a long piece of work goes, and estimates how long it still takes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from include.clock import Clock

__all__ = ["Pace", "RebuildProgress"]

_WINDOW_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How far it is: offsets done of `total`, how many a second lately, seconds to the end (None: not known yet)."""

    done: int
    total: int
    per_s: float
    left_s: float | None

    @property
    def text(self) -> str:
        """For people: `540,000 of 1,000,000 offsets, 24,500/s, 0:00:19 left`."""
        left = "" if self.left_s is None else f", {_hours(self.left_s)} left"
        return f"{self.done:,} of {self.total:,} offsets, {self.per_s:,.0f}/s{left}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        left = None if self.left_s is None else round(self.left_s, 1)
        return {"done": self.done, "total": self.total, "per_s": round(self.per_s, 1), "left_s": left}


class Pace:
    """Rates over the last half minute, so that a slow begin or an outage is soon forgotten."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def reached(self, done: int, total: int) -> RebuildProgress:
        """Note that `done` of `total` are done by now."""
        now_s = self._clock.monotonic_s()
        self._seen.append((now_s, done))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= _WINDOW_S:
            self._seen.popleft()
        since_s, before = self._seen[0]
        per_s = (done - before) / (now_s - since_s) if now_s > since_s else 0.0
        left_s = 0.0 if done >= total else (total - done) / per_s if per_s > 0 else None
        return RebuildProgress(done, total, per_s, left_s)


def _hours(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
