"""Opens and ends a join's incidents: keys without outputs, records set aside, a growing delay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from include.clock import Clock
from include.incidents.kind import IncidentKind
from include.incidents.stream import StreamIncidents, lag_kind, refused_kind
from include.log import topics
from include.metrics.progress import RunFolder

__all__ = ["INCOMPLETE", "LAG", "REFUSED", "JoinIncidents"]

_STAGE, _PAGE = "joins", "joins.md#running-a-join"
REFUSED: Final = refused_kind(_STAGE, _PAGE, "Look at them, then compare the outputs: `lyrebird audit join {name}`.")
LAG: Final = lag_kind(_STAGE, _PAGE, "See what is slow, or stands: `lyrebird join status {name}`, `lyrebird status`.")
INCOMPLETE: Final = IncidentKind("incomplete", _STAGE, "error", _PAGE,
    opens="a record would change more outputs than `max_product_per_change`", ends="no join key lacks outputs",
    text="{count:,} join keys of {product} lack outputs, as records of them change more than max_product_per_change; "
         "each is named in the dead-letter topic of its input",
    fix="`lyrebird join status {name}`; raise `max_product_per_change` and rebuild the outputs.")  # fmt: skip


class JoinIncidents(StreamIncidents):
    """The open incidents of one join; `after_batch` once a batch.

    Args:
        join: its name.
        topic: the topic that it makes.
        application: the one that runs it; names the topics of records that were set aside.
        lag_s: seconds; a delay that is longer is told of.
        folder: of its run.
        clock: when things were noticed.
    """

    def __init__(self, join: str, topic: str, application: str, lag_s: float, folder: RunFolder, clock: Clock) -> None:
        super().__init__(join, topic, folder, clock)
        self._application, self._lag_s = application, lag_s

    def after_batch(self, refused: Mapping[str, int], incomplete: int, commit_us: int | None) -> list[dict[str, Any]]:
        """Open, keep up or end what the batch tells of; those that are open, as progress.json has them.

        Args:
            refused: topic → records that were set aside in it.
            incomplete: join keys that lack outputs, of the whole state.
            commit_us: when what the join is complete to was committed at its source; None: the batch does not tell.
        """
        if incomplete:
            self._note(INCOMPLETE, count=incomplete)
        else:
            self.end(INCOMPLETE, self._name)
        for topic, count in refused.items():
            self.refused(REFUSED, count, topic, topics.dead(topic, self._application))
        self.lag(LAG, commit_us, self._lag_s)
        return self.open()
