"""What a person must know of any stream that copies topics: records set aside, a growing delay."""

from __future__ import annotations

from typing import Any, Final

from include.clock import Clock
from include.metrics.incidents import IncidentLedger, Keeper

__all__ = ["StreamIncidents"]

_QUIET_US: Final = 3_600_000_000


class StreamIncidents:
    """The open incidents of one stream; `save` at the end of each batch.

    Args:
        name: the stream's, as people know it.
        product: what it makes.
        lag_s: a delay that is longer is told of.
        status: the command that shows how far it is.
        keeper: outlives the process.
        clock: when things were noticed.
    """

    def __init__(self, name: str, product: str, lag_s: float, status: str, keeper: Keeper, clock: Clock) -> None:
        self._name, self._product, self._lag_s, self._status = name, product, lag_s, status
        self._clock = clock
        self.ledger = IncidentLedger(keeper, clock)

    def refused(self, topic: str, count: int, dead: str, fix: str) -> None:
        """So many more records of a topic were set aside in `dead`; told of until none has come for an hour."""
        self.set_aside(
            topic,
            count,
            f"records of {topic} could not be read and were set aside in {dead}: rows of theirs are missing in "
            f"{self._product}",
            fix,
        )

    def set_aside(self, what: str, count: int, said: str, fix: str) -> None:
        """As `refused`, of anything; `said` follows the number of them."""
        if not count:
            return
        key = f"refused:{self._name}:{what}"
        found = self.ledger.find(key)
        count += found["count"] if found is not None else 0
        self.ledger.note(
            key, "refused", self._name, f"{count:,} {said}", fix, count=count, newest_us=self._clock.now_us()
        )

    def lag(self, commit_us: int | None) -> None:
        """What the stream is complete to was committed at its source at that time; None: the batch does not tell."""
        if commit_us is None:
            return
        key, age_s = f"lag:{self._name}", (self._clock.now_us() - commit_us) / 1e6
        if age_s <= self._lag_s:
            self.ledger.end(key)
        elif self.ledger.find(key) is None:
            self.ledger.note(
                key,
                "lag",
                self._name,
                f"{self._product}: {age_s:,.0f} s behind the sources, more than lag_alarm_s: {self._lag_s:,.0f} s",
                self._status,
            )

    def save(self) -> None:
        """End what is over, and keep what is open."""
        for key in self.ledger.keys("refused:"):
            found = self.ledger.find(key)
            if found is not None and self._clock.now_us() - found["newest_us"] > _QUIET_US:
                self.ledger.end(key)
        self.ledger.save()

    def open(self) -> list[dict[str, Any]]:
        """As progress.json has them."""
        return [each.to_json() for each in self.ledger.all()]
