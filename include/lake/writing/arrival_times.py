"""How the end of a log has moved: it tells how long what waits there has, whatever timestamps producers give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

__all__ = ["ArrivalTimes"]

_EVERY_MS: Final = 5_000
_MOST: Final = 240


@dataclass(slots=True)
class ArrivalTimes:
    """Of one partition, since its driver began. Times are the driver's, in milliseconds.

    A time it tells may be too late by some seconds, and after hours by some percent of how long that has been.
    """

    _seen: list[tuple[int, int]] = field(default_factory=list)

    def note(self, end: int, now_ms: int) -> None:
        """The log ends there now."""
        if self._seen and (end <= self._seen[-1][1] or now_ms - self._seen[-1][0] < _EVERY_MS):
            return
        self._seen.append((now_ms, end))
        if len(self._seen) > _MOST:
            del self._seen[1::2]

    def since_ms(self, head: int, now_ms: int) -> int:
        """Since when the log has had an offset at `head`, as far as was seen. What is below is forgotten."""
        while self._seen and self._seen[0][1] <= head:
            del self._seen[0]
        return self._seen[0][0] if self._seen else now_ms
