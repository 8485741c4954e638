"""`lyrebird check`: are the deployment files right, across files and stages?"""

from __future__ import annotations

import json
from pathlib import Path

import click

from include.cli.json_option import json_option
from include.settings.deployment import Deployment

__all__ = ["SECTIONS", "check", "command"]

SECTIONS = (
    "alerts",
    "applications",
    "audits",
    "cluster",
    "dark_rows",
    "documents",
    "elasticsearch",
    "eventtime",
    "expectations",
    "expiry",
    "indexes",
    "joins",
    "kafka",
    "lake",
    "registry",
    "searches",
    "sources",
    "store",
    "table_audits",
    "tables",
)
"""Every section that some stage reads."""


@click.command(name="check", help="Check the deployment files: keys, types, names.")
@click.option("--deployment", type=click.Path(path_type=Path), help="Folder of the files.")
@json_option("Print one JSON object.")
def command(deployment: Path | None, as_json: bool) -> None:
    """Parse every section with the model of its stage, then follow the names from one to the other."""
    from include.document.definition import definitions
    from include.source.database.tls import unverified
    from include.source.definition import declared_sources

    loaded = Deployment.load(deployment)
    sections = check(loaded)
    warnings = [
        f"{each.place} {each.problem}. {each.fix}"
        for source in declared_sources(loaded).values()
        for each in unverified(source)
    ]
    masks = {topic: each.masks for topic, each in definitions(loaded).items()}
    if as_json:
        told = {topic: {"masked": each.lines(), "unmasked": list(each.unmasked)} for topic, each in masks.items()}
        click.echo(json.dumps({"ok": True, "sections": sections, "warnings": warnings, "masks": told}))
        return
    for line in warnings:
        click.echo(f"warn: {line}")
    for section, names in sections.items():
        click.echo(f"{section:14} {', '.join(names)}".rstrip())
    for topic, each in masks.items():
        if line := each.told():
            click.echo(f"{topic}: {line}")
    click.echo("all right")


def check(deployment: Deployment) -> dict[str, list[str]]:
    """Names of each section's entries; raises `SettingsError` with file, line, path and the allowed values."""
    from include.audit.definition import declared_audits
    from include.audit.expectations.definition import declared_expectations
    from include.audit.merkle.definition import declared_table_audits
    from include.document.definition import definitions
    from include.eventtime.config.definition import declared_jobs
    from include.index.definition import declared_indexes
    from include.index.mapping.declared import creation, places
    from include.index.mapping.file import mapping_of
    from include.join.config.deployed import declared_joins
    from include.lake.backfill.deployed import deleting
    from include.lake.check import check_groups
    from include.lake.tables.definition import declared_tables
    from include.search.dark_rows.definition import declared_dark_rows
    from include.search.definition import targets
    from include.settings.applications import Alerts, Application
    from include.settings.connections import Cluster, Elasticsearch, Kafka, Registry, StoreSettings
    from include.source.definition import declared_sources

    for file in deployment.broken:
        raise file.error
    for section in deployment.values:
        if section not in SECTIONS:
            raise deployment.error((section,), "no stage reads this section", allowed=list(SECTIONS))
    deployment.one("alerts", Alerts)
    deployment.one("cluster", Cluster)
    deployment.one("elasticsearch", Elasticsearch)
    deployment.one("kafka", Kafka)
    deployment.one("registry", Registry)
    deployment.one("store", StoreSettings)
    if deployment.has("expiry"):
        deleting(deployment)
    applications = deployment.section("applications", Application)
    documents = definitions(deployment)
    indexes = declared_indexes(deployment)
    for name, index in indexes.items():
        mapping = mapping_of(deployment, index)
        creation(name, index, mapping)
        for place in index.coerced:
            if place not in places(mapping):
                raise deployment.error(("indexes", name, "coerced"), "no such field in the mapping", got=place)
        _known(deployment, ("indexes", name, "application"), index.application, "applications")
    for topic, document in documents.items():
        _known(deployment, ("documents", topic, "application"), document.application, "applications")
    groups = check_groups(deployment)
    return {
        "sources": sorted(declared_sources(deployment)),
        "documents": sorted(documents),
        "joins": sorted(declared_joins(deployment)),
        "eventtime": sorted(declared_jobs(deployment)),
        "indexes": sorted(indexes),
        "searches": sorted(targets(deployment)),
        "dark_rows": sorted(declared_dark_rows(deployment)),
        "lake": sorted(groups),
        "tables": sorted(declared_tables(deployment)),
        "applications": sorted(applications),
        "audits": sorted(declared_audits(deployment)),
        "table_audits": sorted(declared_table_audits(deployment)),
        "expectations": sorted(declared_expectations(deployment)),
    }


def _known(deployment: Deployment, path: tuple[str | int, ...], name: str, section: str) -> None:
    if name not in deployment.names(section):
        raise deployment.error(path, "no such name", got=name, allowed=deployment.names(section))
