"""Paces work: waits that grow from try to try, and units a second."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final

from include.clock import Clock

__all__ = ["Backoff", "Between", "TokenBucket", "doubled_s"]

Between = Callable[[float, float], float]
"""A random number from the first to the second."""

_SLICE_S: Final = 0.1
# Clocks count in microseconds: one that slept may lack the last of them.
_TICK_S: Final = 2e-6


def doubled_s(failures: int, first_s: float, longest_s: float = math.inf) -> float:
    """Seconds to wait after so many failures in a row: `first_s`, twice that and so on, at most `longest_s`."""
    return min(longest_s, first_s * 2.0 ** min(failures - 1, 64))


class Backoff:
    """Seconds to wait between tries in a row, each twice the last.

    With `between` they are random, so that many who failed at once do not come back at once: decorrelated jitter, from
    `first_s` to three times the last wait (M. Brooker, Exponential Backoff And Jitter, 2015).
    """

    def __init__(self, first_s: float, longest_s: float = math.inf, between: Between | None = None) -> None:
        self._first_s, self._longest_s, self._between = first_s, longest_s, between
        self.reset()

    def reset(self) -> None:
        """A try has succeeded: the next wait is the first again."""
        self._last_s = 0.0

    def next_s(self, longest_s: float = math.inf) -> float:
        """The wait after one more failure, at most `longest_s` this time."""
        if self._between is None:
            wait_s = max(self._first_s, 2 * self._last_s)
        else:
            wait_s = self._between(self._first_s, 3 * max(self._first_s, self._last_s))
        self._last_s = min(wait_s, self._longest_s, longest_s)
        return self._last_s


class TokenBucket:
    """Bounds a rate: `per_s` units a second in the long run, 0: any number. For several threads.

    More may be taken than is there: whoever does waits afterwards. After a rest, up to `burst_s` seconds' worth is
    there at once; if `full`, from the start on.
    """

    def __init__(self, per_s: float, clock: Clock, *, burst_s: float = 0.0, full: bool = False) -> None:
        self._per_s, self._clock, self._burst_s = per_s, clock, burst_s
        # When all that was taken is paid for (a virtual clock, as in the GCRA of ITU-T I.371).
        self._paid_s = clock.monotonic_s() - (burst_s if full else 0.0)
        self._lock = threading.Lock()

    def take(self, units: float) -> float:
        """Take units now; gives when they are paid for, by the monotonic clock: in the past if they were there."""
        with self._lock:
            if self._per_s:
                self._paid_s = self._after(units, self._clock.monotonic_s())
            return self._paid_s

    def try_take(self, units: float = 1) -> bool:
        """Take units if they are there; never waits."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            paid_s = self._after(units, now_s) if self._per_s else now_s
            if paid_s > now_s + _TICK_S:
                return False
            self._paid_s = paid_s
            return True

    def owed_s(self) -> float:
        """Seconds until all that was taken is paid for; 0 or less when nothing is owed."""
        return self._paid_s - self._clock.monotonic_s()

    def pay(self, units: float, stopped: Callable[[], bool] | None = None) -> None:
        """Take units, and return when they are paid for or `stopped` says so."""
        if units:
            self.wait(self.take(units), stopped)

    def wait(self, until_s: float, stopped: Callable[[], bool] | None = None) -> None:
        """Return at the time that `take` gave, or when `stopped` says so."""
        while (left_s := until_s - self._clock.monotonic_s()) > _TICK_S and not (stopped and stopped()):
            self._clock.sleep(min(left_s, _SLICE_S) if stopped else left_s)

    def _after(self, units: float, now_s: float) -> float:
        return max(self._paid_s, now_s - self._burst_s) + units / self._per_s
