"""Section `tables` of the deployment: which topics are kept as tables of their current state, and where."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, Field

from include.errors import SettingsError
from include.lake.protocol.object_key import valid_prefix
from include.log.topics import TopicName
from include.settings.applications import Application
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = ["TableEntry", "declared_tables", "table_topics", "tables_of_application"]

SECTION = "tables"
_KINDS = ("plain", "change")


class TableEntry(Strict):
    """The tables of some topics: one each, in a folder named like the topic."""

    application: str = Field(description="the entry of `applications` that hosts it, with other tables or alone")
    topics: tuple[str, ...] = Field(min_length=1, description="topics, or patterns of them (`*`, `?`)")
    exclude: tuple[str, ...] = Field(default=(), description="patterns of topics that are left out")
    prefix: Annotated[str, AfterValidator(valid_prefix)] = Field(min_length=1, description="folder in the bucket")
    buckets: int = Field(
        default=16, ge=1, le=4096, description="parts that a table is written in, by hash of the key; for new tables"
    )
    time_travel_days: float = Field(
        default=7, ge=0, description="versions so old can be read; older ones go when the table is maintained"
    )
    lag_alarm_s: float = Field(default=600.0, gt=0, description="who is further behind the sources is told of by mail")
    every_s: float = Field(default=10, gt=0, le=3600, description="least time between two versions")
    records_per_batch: int = Field(default=500_000, ge=100, description="most offsets of a batch, of all topics")


def declared_tables(deployment: Deployment) -> dict[str, TableEntry]:
    """All entries, checked against the other sections; raises `SettingsError` with the place."""
    entries = deployment.section(SECTION, TableEntry)
    hosts = deployment.section("applications", Application)
    prefixes: dict[str, str] = {}
    for name, entry in entries.items():
        if entry.application not in hosts:
            raise unknown_name(deployment, (SECTION, name, "application"), entry.application, "applications")
        other = prefixes.setdefault(entry.prefix, name)
        if other != name:
            raise deployment.error(
                (SECTION, name, "prefix"), "two entries write below one prefix", got=entry.prefix, other=other
            )
    return entries


def tables_of_application(deployment: Deployment, application: str) -> dict[str, TableEntry]:
    """The entries that an application hosts; raises `SettingsError` where there is none."""
    entries = {name: each for name, each in declared_tables(deployment).items() if each.application == application}
    if not entries:
        raise SettingsError(
            "the application hosts no tables", application=application, fix="Name it in an entry of `tables`."
        )
    return entries


def table_topics(entry: TableEntry, names: Iterable[str]) -> list[str]:
    """Those of these topics that an entry keeps, sorted: of changes or plain ones, never what a stage keeps for itself.

    Names that begin with `_` or `.` are Kafka's own, and match only patterns that begin so.
    """

    def matches(patterns: Iterable[str], name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, each) and (name[0] not in "_." or each[0] == name[0]) for each in patterns)

    return sorted(
        name
        for name in set(names)
        if TopicName.parse(name).kind in _KINDS and matches(entry.topics, name) and not matches(entry.exclude, name)
    )
