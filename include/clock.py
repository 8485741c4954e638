"""Time as an argument: whoever needs the time or a pause takes a `Clock`, so that tests need no patience."""

from __future__ import annotations

import datetime as dt
import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock", "iso"]


class Clock(Protocol):
    """What a stage may know of time."""

    def now_us(self) -> int:
        """Wall clock: microseconds since 1970-01-01 UTC. May jump."""

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start. Never goes back."""

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`; may return at once on a manual clock."""


class SystemClock:
    """The machine's own clock."""

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told; sleeping moves it."""

    def __init__(self, now_us: int = 0) -> None:
        self._now_us = now_us
        self._monotonic_us = 0

    def now_us(self) -> int:
        """The time it was set to, plus what it was advanced by."""
        return self._now_us

    def monotonic_s(self) -> float:
        """Seconds that it was advanced by."""
        return self._monotonic_us / 1_000_000

    def sleep(self, seconds: float) -> None:
        """Advance by `seconds` without waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move both times forward by `seconds` (0 or more)."""
        step = round(seconds * 1_000_000)
        self._now_us += step
        self._monotonic_us += step


def iso(us: int) -> str:
    """Render microseconds since the epoch as ISO 8601 with the zone, e.g. `2026-11-02T03:04:05.000006Z`."""
    moment = dt.datetime.fromtimestamp(us // 1_000_000, tz=dt.UTC).replace(microsecond=us % 1_000_000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
