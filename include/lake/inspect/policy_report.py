"""Reports what holds for a topic in a group, with the lines of the deployment files that say so."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from include.errors import SettingsError
from include.lake.definition import LakeGroup, TopicRule
from include.lake.parsing.definition import ParserContext
from include.lake.parsing.versions import ParserVersion
from include.lake.writing.topic_pipelines import logics_of
from include.settings.deployment import Deployment

__all__ = ["RuleReport", "VersionReport", "explain_topic", "list_rules"]

_OWN: Final = "the group's own"


@dataclass(frozen=True, slots=True)
class VersionReport:
    """A version of a parser. `config` is the hash that commit records have, "" with the `problem` that hides it."""

    version: int
    added: str
    starts: str
    parser: Mapping[str, Any]
    config: str
    problem: str


@dataclass(frozen=True, slots=True)
class RuleReport:
    """What holds for `topic` ("": for the topics of the rule) in a group. `stored`: whether the group wants it.

    `at`, `policy_at` and `schedule_at` are file and line of what decided; `config` is that of a backup, whose logic has
    no versions; `schedule` is the cron (UTC) of a group with `run: schedule`, else "".
    """

    group: str
    topic: str
    stored: bool
    why: str
    rule: str | None
    at: str
    format: Mapping[str, Any]
    versions: tuple[VersionReport, ...]
    config: str
    policy: str
    policy_at: str
    run: str
    problems: tuple[str, ...] = ()
    schedule: str = ""
    schedule_at: str = ""


def list_rules(deployment: Deployment, name: str, group: LakeGroup) -> list[RuleReport]:
    """Each rule of a group as it stands, without a topic to try it on."""
    return [
        RuleReport(
            name,
            "",
            stored=True,
            why=f"topics {', '.join(group.topics)}" + (f" without {', '.join(group.exclude)}" if group.exclude else ""),
            rule=rule.topics,
            at=_place(deployment, name, "rules", number),
            format=_format(rule),
            versions=(),
            config="",
            policy=group.policy.words,
            policy_at=_place(deployment, name, "policy"),
            run=group.run,
            schedule=_schedule(group),
            schedule_at=_place(deployment, name, "schedule") if group.run == "schedule" else "",
        )
        for number, rule in enumerate(group.rules)
    ]


def explain_topic(
    deployment: Deployment, name: str, group: LakeGroup, topic: str, context: ParserContext
) -> RuleReport:
    """Reports what holds for a topic, whether or not it is there; what cannot be carried out is among `problems`."""
    stored, why = _wanted(deployment, name, group, topic)
    policy, pattern = group.policy.of(topic)
    number = next((at for at, each in enumerate(group.rules) if fnmatch.fnmatchcase(topic, each.topics)), None)
    exception = next((at for at, each in enumerate(group.policy.topics) if each.topics == pattern), None)
    policy_at = (
        _place(deployment, name, "policy")
        if exception is None
        else _place(deployment, name, "policy", "topics", exception)
    )
    rule = None if number is None else group.rules[number]
    config = ""
    versions: tuple[VersionReport, ...] = ()
    problems: list[str] = []
    if rule is None:
        problems += ["no rule of the group has this topic: nothing of it would be stored"] if stored else []
    elif rule.versions is None:
        config, problem = _config(name, group, rule, topic, context)
        problems += [problem] if problem else []
    else:
        versions = tuple(_version(name, group, rule, version, topic, context) for version in rule.versions)
        problems += [f"version {version.version}: {version.problem}" for version in versions if version.problem]
    return RuleReport(
        name,
        topic,
        stored,
        why,
        rule.topics if rule else None,
        "" if number is None else _place(deployment, name, "rules", number),
        _format(rule) if rule else {},
        versions,
        config,
        f"{policy.words} ({f'the exception for {pattern}' if pattern else _OWN})",
        policy_at,
        group.run,
        tuple(problems),
        schedule=_schedule(group),
        schedule_at=_place(deployment, name, "schedule") if group.run == "schedule" else "",
    )


def _wanted(deployment: Deployment, name: str, group: LakeGroup, topic: str) -> tuple[bool, str]:
    left_out = next((at for at, each in enumerate(group.exclude) if fnmatch.fnmatchcase(topic, each)), None)
    if left_out is not None:
        return False, f"left out by {group.exclude[left_out]} ({_place(deployment, name, 'exclude', left_out)})"
    pattern = next((at for at, each in enumerate(group.topics) if fnmatch.fnmatchcase(topic, each)), None)
    if pattern is not None:
        return True, f"wanted by {group.topics[pattern]} ({_place(deployment, name, 'topics', pattern)})"
    return False, f"none of {', '.join(group.topics)} has it ({_place(deployment, name, 'topics')})"


def _version(
    name: str, group: LakeGroup, rule: TopicRule, version: ParserVersion, topic: str, context: ParserContext
) -> VersionReport:
    alone = version.model_copy(update={"from_offsets": None, "from_time": None})
    config, problem = _config(name, group, rule.model_copy(update={"versions": (alone,)}), topic, context)
    starts = "from the beginning"
    if version.from_time is not None:
        starts = f"from Kafka timestamp {version.from_time.isoformat()}"
    elif version.from_offsets is not None:
        named = ", ".join(f"{partition}: {offset}" for partition, offset in sorted(version.from_offsets.items()))
        starts = f"from offsets {{{named}}}, of other partitions from the beginning"
    declared = version.parser.model_dump(mode="json", exclude_defaults=True)
    return VersionReport(version.version, version.added.isoformat(), starts, declared, config, problem)


def _config(name: str, group: LakeGroup, rule: TopicRule, topic: str, context: ParserContext) -> tuple[str, str]:
    """The hash of a logic alone, or what keeps it from being made."""
    try:
        alone = group.model_copy(update={"rules": (rule.model_copy(update={"topics": "*"}),)})
        return logics_of(name, alone, topic, context).holding(0, 0, -1).config, ""
    except SettingsError as error:
        return "", str(error)


def _schedule(group: LakeGroup) -> str:
    return group.schedule if group.run == "schedule" else ""


def _format(rule: TopicRule) -> dict[str, Any]:
    return rule.format.model_dump(mode="json", exclude_unset=True)


def _place(deployment: Deployment, name: str, *path: str | int) -> str:
    """File and line of a value of the group, or of the nearest one around it."""
    at: tuple[str | int, ...] = ("lake", name, *path)
    while at and at not in deployment.places:
        at = at[:-1]
    return str(deployment.places[at]) if at else str(deployment.folder)
