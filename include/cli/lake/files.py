"""`lyrebird lake files`: exactly the objects that readers of some dates have to read."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING, Literal

import click
import orjson

from include.cli.json_option import json_option
from include.cli.lake.options import group_option, groups_meant, open_store
from include.cli.progress_bar import progress_bar
from include.errors import SettingsError
from include.settings.completion import declared_topics

if TYPE_CHECKING:
    from include.lake.definition import LakeGroup
    from include.lake.inspect.listing import Dates, ListedObject
    from include.settings.deployment import Deployment
    from include.store.object_store import ObjectStore

__all__ = ["command"]

As = Literal["keys", "uris", "sql", "spark"]

_DAY = click.DateTime(["%Y-%m-%d"])


@click.command(name="files")
@click.argument("topic", shell_complete=declared_topics)
@click.option("--from", "since", type=_DAY, required=True, help="First date.")
@click.option("--to", "until", type=_DAY, help="Last date, included; the first one when left out.")
@click.option("--zone", default="UTC", help="Whose dates: for objects whose names have none, as in a backup.")
@click.option("--refused", is_flag=True, help="The quarantine objects instead: records that were refused.")
@click.option(
    "--as",
    "form",
    type=click.Choice(["keys", "uris", "sql", "spark"]),
    default="keys",
    help="Keys, s3:// addresses, DuckDB's SQL, or PySpark.",
)
@group_option
@json_option("Print JSON, nothing else.")
def command(
    topic: str,
    since: dt.datetime,
    until: dt.datetime | None,
    zone: str,
    refused: bool,
    form: As,
    group_name: str | None,
    as_json: bool,
) -> None:
    """List the objects of a topic's dates that readers read, following the pointer of its generations.

    No replaced generation, no object of a cut that is not committed, nothing refused. Objects whose names have no date
    are chosen by the Kafka timestamps of their records, and may hold records of other dates, too. Without --group the
    group that parses the topic is meant.
    """
    from include.lake.inspect.listing import Dates
    from include.lake.protocol.inventory import require_stored
    from include.settings.connections import StoreSettings
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    name, group = _group(deployment, group_name, topic)
    dates = Dates(since.date(), (until or since).date(), zone)
    bucket = deployment.one("store", StoreSettings).bucket
    store = open_store(deployment)
    require_stored(store, [group.prefix], topic)
    objects = _listed(store, group, topic, dates, refused=refused)
    if as_json:
        value = {
            "group": name,
            "topic": topic,
            "from": dates.since.isoformat(),
            "to": dates.until.isoformat(),
            "bucket": bucket,
            "objects": [dataclasses.asdict(stored) for stored in objects],
        }
        click.echo(orjson.dumps(value).decode())
        return
    if form in ("sql", "spark"):
        click.echo(_query(bucket, group, topic, objects, form))
    else:
        for stored in objects:
            click.echo(f"s3://{bucket}/{stored.key}" if form == "uris" else stored.key)
    size, records = sum(stored.bytes for stored in objects), sum(stored.records for stored in objects)
    click.echo(f"{name}: {len(objects)} objects, {records} records, {size} bytes", err=True)


def _group(deployment: Deployment, name: str | None, topic: str) -> tuple[str, LakeGroup]:
    groups = groups_meant(deployment, name, topic)
    parsing = {name: group for name, group in groups.items() if group.kind == "partition"} or groups
    if len(parsing) > 1:
        raise SettingsError(
            "several groups have this topic", topic=topic, allowed=sorted(groups), fix="Name one with --group."
        )
    return next(iter(parsing.items()))


def _listed(store: ObjectStore, group: LakeGroup, topic: str, dates: Dates, *, refused: bool) -> list[ListedObject]:
    from include.lake.inspect.listing import list_topic

    with progress_bar(topic, unit="partitions") as bar:
        return list_topic(store, group.prefix, topic, dates, refused=refused, progress=bar.reach)


def _query(bucket: str, group: LakeGroup, topic: str, found: list[ListedObject], form: As) -> str:
    from include.lake.inspect.readers import duckdb_sql, read_set_of, spark_line

    rule = group.rule(topic)
    wanted = read_set_of(bucket, group.prefix, topic, found, rule.format if rule else None)
    return duckdb_sql(wanted) if form == "sql" else spark_line(wanted)
