"""The restart budget: how often an application may be started again by itself within a window.

Airflow's retries are spent for good, however long the application ran in between; this is not (as systemd's
`StartLimitBurst` in `StartLimitIntervalSec`). The history outlives retries and clears:
the operator keeps it with the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["CrashLoop", "Restart", "RestartBudget"]


@dataclass(frozen=True)
class CrashLoop:
    """An application that restarts did not help; it is tried again slowly until it has run for a while.

    Attributes:
        since_us: when its budget was used up.
        next_us: when it is tried again, after its last crash.
        well_after_s: how long it has to run to be well.
    """

    since_us: int
    next_us: int
    well_after_s: float

    def is_over(self, ran_us: int) -> bool:
        """Whether a generation that runs, or ran, for so long was well."""
        return ran_us >= self.well_after_s * 1_000_000


@dataclass(frozen=True)
class Restart:
    """What follows a crash.

    Attributes:
        at_us: when to start again; None: not by itself.
        history: to keep.
        down: to keep; None: it is not down.
    """

    at_us: int | None
    history: Sequence[int]
    down: CrashLoop | None = None


@dataclass(frozen=True)
class RestartBudget:
    """At most `most` restarts in any `window_s` seconds; where they do not help, one every `then_every_s`, if any."""

    most: int
    window_s: float
    then_every_s: float | None = None

    def after_crash(
        self, history: Iterable[int], now_us: int, *, down: CrashLoop | None, ran_us: int, idle_us: int
    ) -> Restart:
        """Decides when an application that has crashed, or stood still, is started again.

        Args:
            history: as of `spend`.
            now_us: the time.
            down: as kept after its last crash.
            ran_us: how long the generation ran, with progress, that has just crashed.
            idle_us: how long it then did nothing. That does not count: one that hangs at every start would never use
                the budget up else.
        """
        history = [at + idle_us for at in history]
        slow_us = None if self.then_every_s is None else now_us + round(self.then_every_s * 1_000_000)
        if down is not None and slow_us is not None and not down.is_over(ran_us):
            return Restart(slow_us, history, CrashLoop(down.since_us, slow_us, down.well_after_s))
        granted, history = self.spend(history, now_us)
        if granted:
            return Restart(now_us, history)
        return Restart(slow_us, history, CrashLoop(now_us, slow_us, self.window_s) if slow_us is not None else None)

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
