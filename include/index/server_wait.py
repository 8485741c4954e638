"""Waiting for a server that is away: long, with growing pauses, and seen to be alive meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from include.clock import Clock
from include.errors import BackPressure, LyrebirdError, Transient
from include.pace import Backoff

__all__ = ["ServerRetry"]

T = TypeVar("T")
_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 10.0


class ServerRetry:
    """Calls again what failed with `Transient` or `BackPressure`, for at most `longest_s` in one go.

    `on_wait` hears of every pause (so that a guardian sees life). When `stopped` says so it gives up at once.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        longest_s: float,
        on_wait: Callable[[LyrebirdError, float], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._on_wait = on_wait
        self._stopped = stopped

    def call(self, request: Callable[[], T]) -> T:
        """The answer of `request`; raises its last error when patience ends or a stop was asked for."""
        deadline = self._clock.monotonic_s() + self._longest_s
        backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S, random.uniform)  # noqa: S311 - spread, not secrecy
        while True:
            try:
                return request()
            except (Transient, BackPressure) as error:
                wait_s = backoff.next_s()
                if self._stopped() or self._clock.monotonic_s() + wait_s > deadline:
                    raise
                self._on_wait(error, wait_s)
                self._clock.sleep(wait_s)
