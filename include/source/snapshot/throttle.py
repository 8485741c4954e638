"""A limit on a rate that several threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from include.clock import Clock

__all__ = ["Throttle"]

_SLICE_S: Final = 0.1


class Throttle:
    """Lets `per_second` units pass, 0: all. Who takes more than is due waits before the next, not in the middle."""

    def __init__(self, per_second: int, clock: Clock) -> None:
        self._per_second, self._clock = per_second, clock
        self._free_s = clock.monotonic_s()
        self._lock = threading.Lock()

    def take(self, units: int, stopped: Callable[[], bool]) -> None:
        """Account for `units`, and wait until they are paid for or `stopped` says so."""
        if not self._per_second or not units:
            return
        with self._lock:
            self._free_s = max(self._free_s, self._clock.monotonic_s()) + units / self._per_second
            until_s = self._free_s
        while not stopped() and (left_s := until_s - self._clock.monotonic_s()) > 0:
            self._clock.sleep(min(left_s, _SLICE_S))
