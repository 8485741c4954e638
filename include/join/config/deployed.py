"""Section `joins` of the deployment: which joins run where. What a join is stands in a file of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from include.errors import SettingsError
from include.join.config.definition import JoinFile, read_join
from include.log import topics
from include.record.version import MAX_EPOCH
from include.settings.applications import Application
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = ["DeployedJoin", "JoinEntry", "declared_joins", "joins_of_application", "spread_topics"]

SECTION = "joins"


class JoinEntry(Strict):
    """A join that runs."""

    application: str = Field(description="the entry of `applications` that hosts it, with other joins or alone")
    file: str = Field(pattern=r"^[^/].*\.yaml$", description="its file, relative to the deployment's folder")
    epoch: int = Field(default=1, ge=1, le=MAX_EPOCH, description="raised when the joined topic begins a new lineage")
    partitions: int = Field(default=2, ge=1, description="of the joined topic")
    lag_alarm_s: float = Field(default=600.0, gt=0, description="who is further behind the sources is told of by mail")
    forgetting: list[str] = Field(
        default_factory=list, description="input topics that may forget rows, as they are not compacted"
    )


@dataclass(frozen=True)
class DeployedJoin:
    """A join with its file; `places` knows where each of the file's values stands."""

    name: str
    entry: JoinEntry
    file: JoinFile
    places: Deployment

    @property
    def topic(self) -> str:
        """The joined topic."""
        return self.file.output.topic


def declared_joins(deployment: Deployment) -> dict[str, DeployedJoin]:
    """All joins, checked against the other sections; raises `SettingsError` with the place."""
    joins = {}
    hosts = deployment.section("applications", Application)
    writers: dict[str, str] = {}
    for name, entry in deployment.section(SECTION, JoinEntry).items():
        join = _deployed(deployment, name, entry)
        host = hosts.get(entry.application)
        if host is None:
            raise unknown_name(deployment, (SECTION, name, "application"), entry.application, "applications")
        if join.topic not in host.topics:
            raise deployment.error(
                ("applications", entry.application, "topics"),
                "the application does not name a topic that it writes",
                topic=join.topic,
                fix=f"Add {join.topic} to its `topics`.",
            )
        other = writers.setdefault(join.topic, name)
        if other != name:
            raise deployment.error(
                (SECTION, name, "file"),
                "two joins write one topic",
                topic=join.topic,
                other=other,
                fix="Give one of them another `output.source`.",
            )
        joins[name] = join
    return joins


def joins_of_application(deployment: Deployment, application: str) -> list[DeployedJoin]:
    """The joins that an application hosts; raises `SettingsError` where there is none."""
    joins = [join for join in declared_joins(deployment).values() if join.entry.application == application]
    if not joins:
        raise SettingsError(
            "the application hosts no join", application=application, fix="Name it in an entry of `joins`."
        )
    return joins


def spread_topics(deployment: Deployment) -> frozenset[str]:
    """Change topics whose partitions are chosen by other columns than the key (`partition_by` of a source)."""
    spread = set()
    for source in deployment.names("sources"):
        for table in deployment.filled("sources", source, "partition_by") or {}:
            database, dot, name = table.partition(".")
            databases = [database] if dot else deployment.filled("sources", source, "databases")
            spread |= {topics.change(source, each, name or table) for each in databases}
    return frozenset(spread)


def _deployed(deployment: Deployment, name: str, entry: JoinEntry) -> DeployedJoin:
    file = Path(deployment.folder) / entry.file
    if not file.is_file():
        raise deployment.error((SECTION, name, "file"), "there is no such file", got=str(file))
    places, join = read_join(file)
    try:
        topics.declared(join.output.topic)
    except SettingsError as error:
        raise places.error(("output", "source"), error.message, **error.details) from error
    for number, definition in enumerate(join.join):
        if definition.topic is None:
            continue
        try:
            topics.readable(definition.topic)
        except SettingsError as error:
            raise places.error(("join", number, "topic"), error.message, **error.details) from error
        if definition.topic == join.output.topic:
            raise places.error(("join", number, "topic"), "a join cannot read what it writes", got=definition.topic)
    return DeployedJoin(name, entry, join, places)
