"""Options of the commands of `lyrebird lake`, with the groups that are meant and the bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from include.errors import SettingsError
from include.settings.completion import names_of

if TYPE_CHECKING:
    from include.lake.definition import LakeGroup
    from include.lake.parsing.definition import ParserContext
    from include.log.ports import SchemaRegistry
    from include.settings.deployment import Deployment
    from include.store.object_store import ObjectStore
    from include.store.s3 import S3Store

__all__ = ["group_option", "groups_meant", "open_store", "parser_context", "registry_of", "run_option"]

group_option = click.option(
    "--group",
    "group_name",
    help="This group alone, by its name in the deployment files.",
    shell_complete=names_of("lake"),
)
run_option = click.option("--run", required=True, help="The run's name, as `lake backfill` said it.")


def groups_meant(deployment: Deployment, name: str | None, topic: str | None = None) -> dict[str, LakeGroup]:
    """The group of that name, or all; with `topic` those of them that want it. `SettingsError` when it is none."""
    from include.lake.definition import declared_groups, group_named

    groups = {name: group_named(deployment, name)} if name else declared_groups(deployment)
    meant = {each: group for each, group in groups.items() if topic is None or group.wants(topic)}
    if not meant:
        if not groups:
            raise deployment.error(
                ("lake",), "no group of the lake is declared", fix="Declare one in the section `lake`."
            )
        raise SettingsError(
            "no group of the lake has this topic",
            topic=topic,
            groups=sorted(groups),
            fix="Declare groups in the section `lake`; `lyrebird lake policy` lists them and their topics.",
        )
    return meant


def open_store(deployment: Deployment) -> S3Store:
    """The bucket of the deployment."""
    from include.settings.connections import StoreSettings
    from include.store.s3 import store_of

    return store_of(deployment.one("store", StoreSettings))


def registry_of(deployment: Deployment, store: ObjectStore) -> SchemaRegistry:
    """The registry of the deployment, if any; what it lacks is looked up beside the backups."""
    from include.lake.definition import backup_prefixes, declared_groups
    from include.lake.reading.kept_schemas import KeptRegistry
    from include.log.registry.confluent import ConfluentRegistry
    from include.settings.connections import Registry

    found = deployment.one("registry", Registry) if deployment.has("registry") else None
    prefixes = backup_prefixes(declared_groups(deployment))
    return KeptRegistry(ConfluentRegistry(found) if found else None, store, prefixes)


def parser_context(deployment: Deployment) -> ParserContext:
    """Makes the context of parsers: the deployment's folder, and its registry where it has one."""
    from include.lake.parsing.definition import ParserContext
    from include.log.registry.confluent import ConfluentRegistry
    from include.settings.connections import Registry

    registry = deployment.one("registry", Registry) if deployment.has("registry") else None
    return ParserContext(deployment.folder, ConfluentRegistry(registry) if registry else None)
