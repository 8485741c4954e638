"""The parser configuration that a backfill asks for, as a group's declaration with other versions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from include.errors import SettingsError
from include.lake.backfill.selection import BackfillSelection
from include.lake.definition import LakeGroup, TopicRule
from include.lake.parsing.definition import ParserContext
from include.lake.parsing.partition_names import TimeName
from include.lake.parsing.rules import ParserRules
from include.lake.parsing.versions import ParserVersion, ParserVersions
from include.lake.writing.topic_pipelines import logics_of

__all__ = ["fingerprint", "narrowed", "zones_of"]


def narrowed(group: LakeGroup, asked: BackfillSelection) -> LakeGroup:
    """The group with the parser versions that are asked for of the topic, and no other rule.

    Raises:
        SettingsError: the group is no partition group, or has not the topic.
        Terminal: there is no such version, or none was declared then.
    """
    rule = _rule(group, asked)
    versions = ParserVersions(asked.topic, rule.versions or ())
    if asked.version is not None:
        versions = versions.only(asked.version)
    elif asked.as_of is not None:
        versions = versions.as_of(asked.as_of)
    return group.model_copy(update={"rules": (rule.model_copy(update={"versions": tuple(versions.versions)}),)})


def _rule(group: LakeGroup, asked: BackfillSelection) -> TopicRule:
    if group.kind != "partition":
        raise SettingsError(
            "a backup group has no parser, so nothing to make again",
            path=f"lake.{asked.group}.kind",
            got=group.kind,
            fix="Name a partition group.",
        )
    rule = group.rule(asked.topic) if group.wants(asked.topic) else None
    if rule is None:
        raise SettingsError(
            "this group has no such topic",
            path=f"lake.{asked.group}",
            topic=asked.topic,
            allowed=list(group.topics),
            fix="Name one that its patterns and rules have.",
        )
    return rule


def fingerprint(group: LakeGroup, asked: BackfillSelection, context: ParserContext) -> str:
    """SHA-256 of all that decides on a backfill's files: each version's hash, and from where it holds."""
    rule = _rule(group, asked)
    parts = []
    for version in rule.versions or ():
        alone = version.model_copy(update={"from_offsets": None, "from_time": None})
        single = group.model_copy(update={"rules": (rule.model_copy(update={"versions": (alone,)}),)})
        starts = version.model_dump(mode="json", include={"from_offsets", "from_time"})
        parts.append([logics_of(asked.group, single, asked.topic, context).holding(0, 0, -1).config, starts])
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def zones_of(groups: Sequence[LakeGroup], asked: BackfillSelection) -> set[str]:
    """Zones whose days the topic's names are, by any version in any of the groups; UTC where none says."""
    versions = [version for group in groups for version in _rule(group, asked).versions or ()]
    return {name for version in versions for name in _zones(version)} or {"UTC"}


def _zones(version: ParserVersion) -> set[str]:
    if not isinstance(version.parser, ParserRules):
        return {"UTC"}
    return {rule.zone for rule in version.parser.names if isinstance(rule, TimeName)}
