"""How long to wait before trying again: decorrelated jitter, so that many captures do not come back all at once.

Source: M. Brooker, Exponential Backoff And Jitter, 2015: sleep = min(cap, random_between(base, sleep * 3)).
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Between", "next_pause"]

Between = Callable[[float, float], float]
"""A random number from the first to the second."""


def next_pause(last_s: float, shortest_s: float, longest_s: float, between: Between) -> float:
    """Seconds to wait after a pause of `last_s` (0: none yet)."""
    return min(longest_s, between(shortest_s, max(shortest_s, last_s * 3)))
