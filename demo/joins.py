"""The joins' share of the demo: what they have made when the shop has closed, and whether documents say the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from demo.part_summary import ClosePart, PartSummary, awaited
from include.clock import Clock

if TYPE_CHECKING:
    from include.join.status import JoinStatus
    from include.search.dark_rows.report import DarkRowsReport

__all__ = ["CLOSINGS", "beside_documents", "caught_up", "told_of", "told_of_rows"]

_WITHIN_S: Final = 300.0
_LOOK_EVERY_S: Final = 1.0
_EXAMPLES: Final = 20


def caught_up(clock: Clock) -> PartSummary:
    """What each join holds, once it has read all that there is; it is waited for, but five minutes at most."""
    from include.join.config.deployed import declared_joins
    from include.join.status import join_status
    from include.log.kafka.log import KafkaAdmin, KafkaReader
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    kafka = deployment.one("kafka", Kafka)
    joins = declared_joins(deployment)
    reader, admin = KafkaReader(kafka.bootstrap, kafka.options), KafkaAdmin(kafka.bootstrap, kafka.options)
    try:
        return awaited(
            lambda: told_of([join_status(each, reader, admin) for each in joins.values()]),
            clock,
            _WITHIN_S,
            _LOOK_EVERY_S,
        )
    finally:
        reader.close()


def beside_documents(clock: Clock) -> PartSummary:
    """The dark launch of joined rows: each order's document beside the rows of index `order_lines`."""
    from include.search.dark_rows.connect import dark_rows
    from include.search.dark_rows.definition import declared_dark_rows
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    entry = declared_dark_rows(deployment)["order_lines"]
    return told_of_rows(dark_rows(deployment, entry, clock, _WITHIN_S), entry.rules.of, entry.rules.item)


CLOSINGS: Final[tuple[ClosePart, ...]] = (caught_up, beside_documents)


def told_of(found: Sequence[JoinStatus]) -> PartSummary:
    """Two lines and more for each join; good when each has said something, and is behind nothing."""
    good = bool(found) and all(each.at and not each.behind and not each.incomplete for each in found)
    values = {each.name: {"rows": sum(each.rows), "behind": each.behind} for each in found}
    return PartSummary(tuple(line for each in found for line in each.lines()), {"joins": values}, good)


def told_of_rows(report: DarkRowsReport, of: str, item: str) -> PartSummary:
    """Documents, lines and rows that were compared; good when there were some, and all of them are the same."""
    values = {**report.to_json(), "differences": [each.to_json() for each in report.examples[:_EXAMPLES]]}
    return PartSummary(tuple(report.lines(of, item)), {"dark_rows": values}, report.good)
