"""`lyrebird table`: current-state tables on the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from include.cli.lazy import Lazy, LazyCommand
from include.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from include.lake.tables.definition import TableEntry
    from include.lake.tables.delta_log import DeltaLog
    from include.settings.deployment import Deployment

__all__ = ["COMMANDS", "command", "declared", "logs_of"]

COMMANDS: Final[dict[str, LazyCommand]] = {
    "status": LazyCommand("tables.status", "Version, position and delay of each table."),
    "files": LazyCommand("tables.files", "The files of a table, now or as it was, and the query that reads them."),
    "rebuild": LazyCommand("tables.rebuild", "Begin a new generation of a table, from its topic's beginning."),
    "maintain": LazyCommand("tables.maintain", "Remove files and versions that are older than a table's time travel."),
}


@click.group(name="table", cls=Lazy, table=COMMANDS)
def command() -> None:
    """Current-state tables on the lake, which any engine reads."""


def declared(deployment: Deployment) -> Mapping[str, TableEntry]:
    """All entries; raises `SettingsError` where there is none."""
    from include.lake.tables.definition import declared_tables

    entries = declared_tables(deployment)
    if not entries:
        raise SettingsError(
            "no tables are declared", file=str(deployment.folder), fix="Declare some in the section `tables`."
        )
    return entries


def logs_of(deployment: Deployment) -> Callable[[str], DeltaLog]:
    """Key of a folder in the bucket → the log of the Delta table there."""
    from include.clock import SystemClock
    from include.lake.tables.delta_log import DeltaLog, storage_options
    from include.settings.connections import StoreSettings

    store = deployment.one("store", StoreSettings)
    options, clock = storage_options(store), SystemClock()
    return lambda folder: DeltaLog(f"s3://{store.bucket}/{folder}", options, clock)
