"""What a person must know of a join while it runs: keys without outputs, records set aside, a growing delay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from include.clock import Clock
from include.log import topics
from include.metrics.incidents import IncidentLedger, Keeper

__all__ = ["JoinIncidents"]

_QUIET_US: Final = 3_600_000_000


class JoinIncidents:
    """The open incidents of one join; `after_batch` once a batch."""

    def __init__(
        self,
        join: str,
        topic: str,
        application: str,
        lag_s: float,
        keeper: Keeper,
        clock: Clock,
    ) -> None:
        """`lag_s`: a delay that is longer is told of."""
        self._join, self._topic, self._application = join, topic, application
        self._lag_s, self._clock = lag_s, clock
        self._ledger = IncidentLedger(keeper, clock)

    def after_batch(self, refused: Mapping[str, int], incomplete: int, commit_us: int | None) -> None:
        """Open, keep up or end what the batch tells of.

        Args:
            refused: topic → records that were set aside in it.
            incomplete: join keys that lack outputs, of the whole state.
            commit_us: when what the join is complete to was committed at its source; None: the batch does not tell.
        """
        self._incomplete(incomplete)
        for topic, count in refused.items():
            if count:
                self._refused(topic, count)
        for key in self._ledger.keys("refused:"):
            found = self._ledger.find(key)
            if found is not None and self._clock.now_us() - found["newest_us"] > _QUIET_US:
                self._ledger.end(key)
        if commit_us is not None:
            self._lag(commit_us)
        self._ledger.save()

    def open(self) -> list[dict[str, Any]]:
        """As progress.json has them."""
        return [each.to_json() for each in self._ledger.all()]

    def _incomplete(self, incomplete: int) -> None:
        key = f"incomplete:{self._join}"
        if not incomplete:
            self._ledger.end(key)
            return
        self._ledger.note(
            key,
            "incomplete",
            self._join,
            f"{incomplete:,} join keys of {self._topic} lack outputs, as records of them change more than "
            "max_product_per_change; each is named in the dead-letter topic of its input",
            f"lyrebird join status {self._join}",
        )

    def _refused(self, topic: str, count: int) -> None:
        key = f"refused:{self._join}:{topic}"
        found = self._ledger.find(key)
        count += found["count"] if found is not None else 0
        self._ledger.note(
            key,
            "refused",
            self._join,
            f"{count:,} records of {topic} could not be read and were set aside in "
            f"{topics.dead(topic, self._application)}: rows of theirs are missing in {self._topic}",
            f"lyrebird audit join {self._join}",
            count=count,
            newest_us=self._clock.now_us(),
        )

    def _lag(self, commit_us: int) -> None:
        key, age_s = f"lag:{self._join}", (self._clock.now_us() - commit_us) / 1e6
        if age_s <= self._lag_s:
            self._ledger.end(key)
            return
        if self._ledger.find(key) is None:
            self._ledger.note(
                key,
                "lag",
                self._join,
                f"{self._topic} is {age_s:,.0f} s behind its sources, more than lag_alarm_s: {self._lag_s:,.0f} s",
                f"lyrebird join status {self._join}",
            )
