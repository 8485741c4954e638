"""When a dead server is started again, and when the supervisor gives up."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["RestartBackoff"]


@dataclass
class RestartBackoff:
    """Exponential back-off over deaths in a row; times are seconds of one monotonic clock.

    A run of `stable_s` or longer forgives all earlier deaths. After `limit` deaths in a row there is no further
    start. Why a limit: a server that dies five times at once will not live the sixth time, and a person who looks
    must see that at once.
    """

    limit: int = 5
    first_delay_s: float = 0.5
    longest_delay_s: float = 15.0
    stable_s: float = 60.0
    deaths: list[float] = field(default_factory=list)

    def on_death(self, now_s: float, ran_s: float) -> float | None:
        """Record a death after a run of `ran_s`; seconds to wait before the next start, None = give up."""
        if ran_s >= self.stable_s:
            self.deaths.clear()
        self.deaths.append(now_s)
        if len(self.deaths) >= self.limit:
            return None
        return min(self.first_delay_s * 2.0 ** (len(self.deaths) - 1), self.longest_delay_s)

    @property
    def span_s(self) -> float:
        """Seconds between the first and the last death in this row."""
        return self.deaths[-1] - self.deaths[0] if self.deaths else 0.0
