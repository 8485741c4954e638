"""A bound on how often something is done, over all threads of a process."""

from __future__ import annotations

import threading

from include.clock import Clock

__all__ = ["RateCap"]


class RateCap:
    """A token bucket: `per_s` a second in the long run, as many at once after a rest (one at least)."""

    def __init__(self, per_s: float, clock: Clock) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s)
        self._left = self._most
        self._at_s = clock.monotonic_s()
        self._clock = clock
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether it may be done now; never waits."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_s)
            self._at_s = now_s
            if self._left < 1:
                return False
            self._left -= 1
            return True
