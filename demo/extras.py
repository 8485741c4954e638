"""Declares the parts that join the demo by `WITH=a,b`, one for each stage beyond order search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from demo import advertisers, event_time, joins, lake, tables
from demo.part_summary import ClosePart
from include.audit.history import AuditKind
from include.clock import Clock
from include.errors import SettingsError
from include.local.services import select

__all__ = ["EXTRAS", "ORDER_SEARCH", "DemoPart", "OpenWriting", "parts", "services"]

OpenWriting = Callable[[Mapping[str, str], int, Clock], AbstractContextManager[None]]
"""Of the stack's values and the seed: makes its tables when the block begins, and writes until it ends."""


@dataclass(frozen=True)
class DemoPart:
    """A stage's share of the demo: DAGs that are started once its sources are captured, DAGs of its verdict.

    `streams` run for ever, `verdicts` end; both are DAG ids. `applications` name the rows of the live screen.
    `services` are started for it beside those that the stack starts by itself, `sources` captured, `indexes` made.
    `writings` write beside the shop, until it closes. `closings` say what the part has come to, in the summary, and
    `audits` what those verdicts have found that keep it.
    """

    name: str
    services: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    writings: tuple[OpenWriting, ...] = ()
    streams: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    applications: tuple[str, ...] = field(default=())
    closings: tuple[ClosePart, ...] = ()
    audits: tuple[AuditKind, ...] = ()


ORDER_SEARCH = DemoPart(
    name="order search",
    sources=("shop",),
    indexes=("orders",),
    streams=("stream_assemble_orders", "stream_index_orders"),
    verdicts=("audit_search",),
    applications=("capture-shop", "assemble_orders", "index_orders"),
)
"""The main job, always there."""

EXTRAS: dict[str, DemoPart] = {
    "lake": DemoPart(
        name="lake",
        streams=("stream_lake_backup", "stream_lake_partition"),
        applications=("lake_backup", "lake_partition"),
        closings=lake.CLOSINGS,
    ),
    "tables": DemoPart(
        name="tables",
        streams=("stream_lake_tables",),
        verdicts=("audit_tables", "audit_documents"),
        applications=("lake_tables",),
        closings=tables.CLOSINGS,
        audits=("table", "document"),
    ),
    "joins": DemoPart(
        name="joins",
        services=("mariadb-ads",),
        sources=("ads",),
        indexes=("order_lines", "advertisers"),
        writings=(advertisers.written,),
        streams=("stream_join_shop", "stream_index_joined"),
        verdicts=("audit_join",),
        applications=("capture-ads", "join_shop", "index_joined"),
        closings=(*joins.CLOSINGS, advertisers.indexed),
    ),
    "eventtime": DemoPart(
        name="event time",
        writings=(event_time.written,),
        streams=("stream_process_scooters",),
        verdicts=("eventtime_replay",),
        applications=("process_scooters",),
        closings=event_time.CLOSINGS,
        audits=("replay",),
    ),
}
"""Name as given in WITH= -> part."""


def parts(names: str) -> list[DemoPart]:
    """The main job and the parts named in `names` (separated by commas); an unknown name is refused with the list."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in EXTRAS:
            allowed = ", ".join(sorted(EXTRAS)) or "none: order search is all that there is so far"
            raise SettingsError("no such part of the demo", got=name, allowed=allowed, fix="Leave it out of WITH=.")
    return [ORDER_SEARCH, *(EXTRAS[name] for name in dict.fromkeys(wanted))]


def services(joined: Sequence[DemoPart]) -> list[str]:
    """Names of the services that a demo of these parts is made of."""
    return [row.name for row in select()] + [name for part in joined for name in part.services]
