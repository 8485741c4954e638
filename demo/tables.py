"""The tables' share of the demo: what they hold when the shop has closed, and which transaction that is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from demo.part_summary import ClosePart, PartSummary, awaited
from include.clock import Clock

if TYPE_CHECKING:
    from include.lake.tables.status import TableStatus

__all__ = ["CLOSINGS", "caught_up", "told_of"]

_WITHIN_S: Final = 300.0
_LOOK_EVERY_S: Final = 2.0


def caught_up(clock: Clock) -> PartSummary:
    """What each table holds, once it has taken in all that there is; it is waited for, but five minutes at most."""
    from include.lake.tables.definition import declared_tables
    from include.lake.tables.delta_log import DeltaLog, storage_options
    from include.lake.tables.status import table_status
    from include.lake.tables.versions import kept_tables
    from include.log.kafka.log import KafkaAdmin, KafkaReader
    from include.settings.connections import Kafka, StoreSettings
    from include.settings.deployment import Deployment
    from include.store.s3 import store_of

    deployment = Deployment.load()
    kafka, connection = deployment.one("kafka", Kafka), deployment.one("store", StoreSettings)
    entries, options = declared_tables(deployment), storage_options(connection)
    admin = KafkaAdmin(kafka.bootstrap, kafka.options)
    with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader, closing(store_of(connection)) as store:

        def log_of(folder: str) -> DeltaLog:
            return DeltaLog(f"s3://{connection.bucket}/{folder}", options, clock)

        def look() -> PartSummary:
            names = admin.names()
            statuses = [
                table_status(name, entry, topic, generations, log_of, reader, admin, clock)
                for name, entry in entries.items()
                for topic, generations in sorted(kept_tables(store, entry, names).items())
            ]
            return told_of([each for each in statuses if each is not None])

        return awaited(look, clock, _WITHIN_S, _LOOK_EVERY_S)


CLOSINGS: Final[tuple[ClosePart, ...]] = (caught_up,)


def told_of(found: Sequence[TableStatus]) -> PartSummary:
    """A line for each table; good when each is complete to a position, and nothing of its topic waits."""
    width = max((len(table.topic) for table in found), default=0)
    lines = ["tables on the lake"] if found else ["no table is on the lake"]
    for table in found:
        positions = "; ".join(f"{source} {gtids}" for source, gtids in table.positions.items())
        waits = f", {table.waiting:,} offsets wait" if table.waiting else ""
        lines.append(
            f"  {table.topic:{width}}  {table.rows:,} rows, version {table.version}, "
            f"complete to {positions or 'nothing yet'}{waits}"
        )
    good = bool(found) and all(table.positions and not table.waiting for table in found)
    return PartSummary(tuple(lines), {"tables": [table.to_json() for table in found]}, good)
