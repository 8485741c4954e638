"""The restart budget: how often an application may be started again by itself within a window.

Airflow's retries are spent for good, however long the application ran in between; this is not (as systemd's
`StartLimitBurst` in `StartLimitIntervalSec`). The history outlives retries and clears:
the operator keeps it with the task.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["RestartBudget"]


@dataclass(frozen=True)
class RestartBudget:
    """At most `most` restarts in any `window_s` seconds."""

    most: int
    window_s: float

    def spend(self, history: Iterable[int], now_us: int) -> tuple[bool, list[int]]:
        """Ask for one restart at `now_us`.

        Args:
            history: times of earlier restarts, microseconds; the order is free.
            now_us: the time of this one. A time before those of the history counts them all.

        Returns:
            Whether it is granted, and the history to keep: with this restart when it is.
        """
        recent = sorted(at for at in history if at > now_us - self.window_s * 1_000_000)
        if len(recent) >= self.most:
            return False, recent
        return True, [*recent, now_us]
