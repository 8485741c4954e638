"""Checks that the groups of a deployment can be carried out, before anything runs and without asking a server.

What a definition says by itself is checked when it is parsed. Here follow what lies outside of it (applications,
classes of parsers, descriptor sets, the registry) and what would never come to hold.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Mapping
from typing import Final

from include.errors import SettingsError
from include.lake.definition import FormatDefinition, LakeGroup, TopicRule, declared_groups, format_of
from include.lake.parsing.definition import CustomParser, ParserContext, ParserDefinition, configuration_hash
from include.lake.parsing.partition_names import folder_names
from include.log.registry.confluent import ConfluentRegistry
from include.settings.applications import Application
from include.settings.connections import Registry, StoreSettings
from include.settings.deployment import Deployment, unknown_name

__all__ = ["PROGRAMS", "check_folders", "check_groups"]

PROGRAMS: Final[Mapping[str, str]] = {
    "backup": "spark_apps/lake_backup.py",
    "partition": "spark_apps/lake_partition.py",
}
"""Which program runs the groups of a kind."""

_SECTION: Final = "lake"
_BUCKET: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]|\.(?!\.)){1,61}[a-z0-9]")
_ADDRESS: Final = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_WILD: Final = re.compile(r"[*?]")
# More than a topic's name has.
_LONGEST: Final = 250

_Path = tuple[str | int, ...]


def check_groups(deployment: Deployment) -> dict[str, LakeGroup]:
    """All groups, by name; `SettingsError` with file, line and path for the first that cannot be carried out."""
    groups = declared_groups(deployment)
    if not groups:
        return groups
    _check_bucket(deployment)
    applications = deployment.section("applications", Application)
    registry = deployment.one("registry", Registry) if deployment.has("registry") else None
    context = ParserContext(deployment.folder, ConfluentRegistry(registry) if registry else None)
    check_folders(deployment, groups)
    for name, group in groups.items():
        _check_application(deployment, name, group, applications)
        _check_patterns(deployment, name, group)
        for number, rule in enumerate(group.rules):
            _check_rule(deployment, (_SECTION, name, "rules", number), rule, context)
    _check_runs(deployment, groups)
    return groups


def _check_bucket(deployment: Deployment) -> None:
    """Names as S3 takes them: it answers 404 or 400 for others, which look like a bucket that is missing."""
    bucket = deployment.one("store", StoreSettings).bucket
    if not _BUCKET.fullmatch(bucket) or _ADDRESS.fullmatch(bucket):
        raise deployment.error(
            ("store", "bucket"),
            "not a bucket's name",
            got=bucket,
            allowed="3 to 63 lower-case letters, digits, '-' and single '.', first and last a letter or digit",
        )


def _check_application(
    deployment: Deployment, name: str, group: LakeGroup, applications: Mapping[str, Application]
) -> None:
    path: _Path = (_SECTION, name, "application")
    application = applications.get(group.application)
    if group.run == "schedule":
        if application is not None:
            raise deployment.error(
                path,
                "a group on a schedule names an application that runs for ever",
                got=group.application,
                fix="Leave that entry out of `applications`: the DAG lake_upload runs the group. Or set `run: stream`.",
            )
        return
    if application is None:
        raise unknown_name(deployment, path, group.application, "applications")
    if application.entry != PROGRAMS[group.kind]:
        raise deployment.error(
            path,
            f"a {group.kind} group is run by another program than its application's",
            got=application.entry,
            allowed=PROGRAMS[group.kind],
            application=group.application,
        )


def _check_runs(deployment: Deployment, groups: Mapping[str, LakeGroup]) -> None:
    """A program that runs groups of the lake has one at least."""
    used = {group.application for group in groups.values()}
    for name, application in deployment.section("applications", Application).items():
        if application.entry in PROGRAMS.values() and name not in used:
            raise deployment.error(
                ("applications", name), "no group of the lake names this application", got=name, allowed=sorted(used)
            )


def _check_patterns(deployment: Deployment, name: str, group: LakeGroup) -> None:
    """Topics that are named have a rule, and each rule may come to hold."""
    for number, topic in enumerate(group.topics):
        if not _WILD.search(topic) and group.wants(topic) and group.rule(topic) is None:
            raise deployment.error(
                (_SECTION, name, "topics", number),
                "no rule of the group has this topic",
                got=topic,
                allowed=[rule.topics for rule in group.rules],
            )
    for number, rule in enumerate(group.rules):
        earlier = next((each.topics for each in group.rules[:number] if _covers(each.topics, rule.topics)), None)
        if earlier is not None:
            raise deployment.error(
                (_SECTION, name, "rules", number, "topics"),
                "a rule that never holds: one before it has all its topics",
                got=rule.topics,
                earlier=earlier,
                fix="Put it first.",
            )


def _covers(outer: str, inner: str) -> bool:
    """Whether each topic of the pattern `inner` is one of `outer`: its stars filled with nothing, and with much."""
    return all(fnmatch.fnmatchcase(inner.replace("*", sign * _LONGEST), outer) for sign in ("", "\0"))


def _check_rule(deployment: Deployment, path: _Path, rule: TopicRule, context: ParserContext) -> None:
    _made(deployment, (*path, "format"), lambda: format_of(rule.format, context.registry))
    for number, version in enumerate(rule.versions or ()):
        _made(
            deployment,
            (*path, "versions", number, "parser"),
            functools.partial(configuration_hash, version.parser, context),
        )


def check_folders(deployment: Deployment, groups: Mapping[str, LakeGroup]) -> None:
    """No folder has the name of a column, as far as the fields that the parsers read tell the columns.

    Spark and DuckDB would show the folder's value for the column, and Hive would refuse the table. `SettingsError` with
    the place of the first.
    """
    for name, group in groups.items():
        for number, rule in enumerate(group.rules):
            if rule.versions:
                # Of older versions objects lie there already; the newest says where the next go.
                newest = len(rule.versions) - 1
                path = (_SECTION, name, "rules", number, "versions", newest, "parser", "names")
                _check_names(deployment, path, rule.format, rule.versions[-1].parser)


def _check_names(deployment: Deployment, path: _Path, form: FormatDefinition, parser: ParserDefinition) -> None:
    if isinstance(parser, CustomParser) or not form.has_columns:
        return
    # Letters' case tells no two columns of Hive apart.
    fields = {str(wanted.path[0]).lower() for wanted in parser.wanted() if wanted.path}
    folders = {*folder_names(parser.names), *({"schema"} if form.by_schema else ())}
    taken = sorted(name for name in folders if name.lower() in fields)
    if taken:
        raise deployment.error(
            path,
            "a folder has the name of a field: readers show one of them for both, or refuse the table",
            got=taken,
            fix=f"Name the folder otherwise (`name: by_{taken[0]}`; `layout: secor` for days and hours).",
        )


def _made(deployment: Deployment, path: _Path, make: Callable[[], object]) -> None:
    """Raise what making it raises, with the place in the deployment file."""
    try:
        make()
    except SettingsError as error:
        # The place is that in the deployment file; a file that the parser reads is another.
        details = {f"{name}_read" if name == "file" else name: value for name, value in error.details.items()}
        raise deployment.error(path, error.message, fix=error.fix, **details) from error
