"""What a person must know of a join while it runs: keys without outputs, records set aside, a growing delay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.clock import Clock
from include.log import topics
from include.metrics.incidents import Keeper
from include.metrics.stream_incidents import StreamIncidents

__all__ = ["JoinIncidents"]


class JoinIncidents:
    """The open incidents of one join; `after_batch` once a batch."""

    def __init__(self, join: str, topic: str, application: str, lag_s: float, keeper: Keeper, clock: Clock) -> None:
        """`lag_s`: a delay that is longer is told of."""
        self._join, self._topic, self._application = join, topic, application
        self._stream = StreamIncidents(join, topic, lag_s, f"lyrebird join status {join}", keeper, clock)

    def after_batch(self, refused: Mapping[str, int], incomplete: int, commit_us: int | None) -> None:
        """Open, keep up or end what the batch tells of.

        Args:
            refused: topic → records that were set aside in it.
            incomplete: join keys that lack outputs, of the whole state.
            commit_us: when what the join is complete to was committed at its source; None: the batch does not tell.
        """
        self._incomplete(incomplete)
        for topic, count in refused.items():
            self._stream.refused(
                topic, count, topics.dead(topic, self._application), f"lyrebird audit join {self._join}"
            )
        self._stream.lag(commit_us)
        self._stream.save()

    def open(self) -> list[dict[str, Any]]:
        """As progress.json has them."""
        return self._stream.open()

    def _incomplete(self, incomplete: int) -> None:
        ledger, key = self._stream.ledger, f"incomplete:{self._join}"
        if not incomplete:
            ledger.end(key)
            return
        ledger.note(
            key,
            "incomplete",
            self._join,
            f"{incomplete:,} join keys of {self._topic} lack outputs, as records of them change more than "
            "max_product_per_change; each is named in the dead-letter topic of its input",
            f"lyrebird join status {self._join}",
        )
