"""What joins the demo by `WITH=a,b`: each stage beyond order search declares its part here when it lands."""

from __future__ import annotations

from dataclasses import dataclass, field

from include.errors import SettingsError
from include.local.demo import joins, lake
from include.local.demo.told import Closing

__all__ = ["EXTRAS", "ORDER_SEARCH", "Part", "parts"]


@dataclass(frozen=True)
class Part:
    """A stage's share of the demo: DAGs that are started once the source is captured, DAGs of its verdict.

    `streams` run for ever, `verdicts` end; both are DAG ids. `applications` name the rows of the live screen.
    `closings` say what the part has come to, in the summary.
    """

    name: str
    streams: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    applications: tuple[str, ...] = field(default=())
    closings: tuple[Closing, ...] = ()


ORDER_SEARCH = Part(
    name="order search",
    streams=("stream_assemble_orders", "stream_index_orders"),
    verdicts=("audit_search",),
    applications=("capture-shop", "assemble_orders", "index_orders"),
)
"""The main job, always there."""

EXTRAS: dict[str, Part] = {
    "lake": Part(
        name="lake",
        streams=("stream_lake_backup", "stream_lake_partition"),
        applications=("lake_backup", "lake_partition"),
        closings=lake.CLOSINGS,
    ),
    "joins": Part(
        name="joins",
        streams=("stream_join_shop",),
        verdicts=("audit_join",),
        applications=("join_shop",),
        closings=joins.CLOSINGS,
    ),
}
"""Name as given in WITH= -> part."""


def parts(names: str) -> list[Part]:
    """The main job and the parts named in `names` (separated by commas); an unknown name is refused with the list."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in EXTRAS:
            allowed = ", ".join(sorted(EXTRAS)) or "none: order search is all that there is so far"
            raise SettingsError("no such part of the demo", got=name, allowed=allowed, fix="Leave it out of WITH=.")
    return [ORDER_SEARCH, *(EXTRAS[name] for name in dict.fromkeys(wanted))]
