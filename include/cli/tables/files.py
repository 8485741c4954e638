"""`lyrebird table files`: exactly the files of a version of a table, and the query that reads them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Literal

import click
import orjson

from include.cli.json_option import json_option
from include.settings.completion import declared_topics

if TYPE_CHECKING:
    from include.lake.tables.versions import TableVersion

__all__ = ["command"]

As = Literal["uris", "sql", "delta", "spark"]


@click.command(name="files")
@click.argument("topic", shell_complete=declared_topics)
@click.option("--at", default="", help="A version, a GTID set, or a time (ISO 8601): the table as it was then.")
@click.option(
    "--as",
    "form",
    type=click.Choice(["uris", "sql", "delta", "spark"]),
    default="uris",
    help="s3:// addresses, DuckDB's SQL over them, a Delta reader's lines, or PySpark's.",
)
@json_option()
def command(topic: str, at: str, form: As, as_json: bool) -> None:
    """List the files of TOPIC's table, now or as it was, with the version and what that is complete to.

    As of a GTID set or a time the newest version is meant that is complete to nothing later.
    """
    from include.cli.lake.options import open_store
    from include.cli.tables.commands import declared, logs_of
    from include.clock import SystemClock, iso
    from include.lake.tables.standing import label_text
    from include.lake.tables.versions import chosen, kept_table
    from include.settings.connections import StoreSettings
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    entries = declared(deployment)
    bucket = deployment.one("store", StoreSettings).bucket
    with closing(open_store(deployment)) as store:
        entry, generations = kept_table(store, entries.values(), topic)
        table_version = chosen(logs_of(deployment), entry, topic, generations, at, SystemClock())
    uris = [f"s3://{bucket}/{table_version.folder}/{each.path}" for each in table_version.files]
    if as_json:
        value = {
            "topic": topic,
            "table": f"s3://{bucket}/{table_version.folder}",
            "generation": table_version.generation,
            "version": table_version.version,
            "committed_at": iso(table_version.committed_ms * 1000),
            "label": label_text(table_version.label),
            "rows": table_version.rows,
            "files": uris,
        }
        click.echo(orjson.dumps(value).decode())
        return
    click.echo("\n".join(uris) if form == "uris" else _query(table_version, bucket, form))
    told = "; ".join(f"{source} up to {cut.position.gtids}" for source, cut in sorted(table_version.label.items()))
    click.echo(
        f"version {table_version.version} of {iso(table_version.committed_ms * 1000)}: {len(uris)} files, "
        f"{table_version.rows:,} rows, complete to {told or 'no position'}",
        err=True,
    )


def _query(found: TableVersion, bucket: str, form: As) -> str:
    table = f"s3://{bucket}/{found.folder}"
    if form == "delta":
        return (
            "from deltalake import DeltaTable\n"
            f"DeltaTable({table!r}, version={found.version}, storage_options={{…}}).to_pyarrow_table()"
        )
    if form == "spark":
        return (
            "from include.lake.tables.tables_spark import read_table\n"
            f"read_table(spark, deployment, {found.topic!r}, at={str(found.version)!r})"
        )
    from include.lake.inspect.readers import ReadSet, duckdb_sql

    keys = tuple(f"{found.folder}/{each.path}" for each in found.files)
    return duckdb_sql(ReadSet(bucket, found.folder, {"parquet": keys}))
