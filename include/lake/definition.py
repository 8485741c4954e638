"""Section `lake` of the deployment: groups, each one logic over some topics, with a prefix of its own.

A topic belongs to the first of a group's `rules` whose pattern has its name.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from include.errors import SettingsError
from include.lake.cron import HOURLY, Cron
from include.lake.finalising_policy import Finalising
from include.lake.formats.avro_container import AvroContainer, AvroContainerOptions
from include.lake.formats.delimited_text import DelimitedText, DelimitedTextOptions
from include.lake.formats.json_lines import JsonLines, JsonLinesOptions
from include.lake.formats.parquet import Parquet, ParquetOptions
from include.lake.formats.port import Format
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.parsing.versions import DeclaredVersions
from include.lake.protocol.object_key import HIDDEN, valid_prefix
from include.lake.upload_policy import UploadPolicies
from include.log.ports import SchemaRegistry
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = [
    "FormatDefinition",
    "GroupKind",
    "LakeGroup",
    "TopicRule",
    "backup_prefixes",
    "declared_groups",
    "format_of",
    "group_named",
    "groups_of_application",
]

SECTION = "lake"

GroupKind = Literal["backup", "partition"]
"""backup: keeps records whole and looks at nothing; partition: parses them and files them by what they say."""


def _cron(text: str) -> str:
    Cron.parse(text)
    return text


class FormatDefinition(Strict):
    """Exactly one of them, with its options."""

    sequence: SequenceFile | None = None
    """Hadoop SequenceFiles."""
    text: DelimitedTextOptions | None = None
    """A message a line."""
    json_lines: JsonLinesOptions | None = None
    """A JSON object a line."""
    avro: AvroContainerOptions | None = None
    """Avro container files."""
    parquet: ParquetOptions | None = None
    """Parquet files."""

    @model_validator(mode="after")
    def _one(self) -> FormatDefinition:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            allowed = ", ".join(type(self).model_fields)
            raise ValueError(f"one format is declared, of {allowed}; these are {', '.join(given) or 'none'}")
        return self

    @property
    def has_columns(self) -> bool:
        """Whether the fields of records are columns of its files."""
        return bool(self.avro or self.parquet or (self.json_lines and self.json_lines.content == "payload"))

    @property
    def by_schema(self) -> bool:
        """Whether files of each schema lie in a folder `schema=<id>`."""
        form = self.avro or self.parquet
        return form is not None and form.schema_id is None


class TopicRule(Strict):
    """What becomes of the topics of a pattern (`*`, `?`)."""

    topics: str = Field(min_length=1)
    """The pattern; the first rule whose pattern fits holds for a topic."""
    format: FormatDefinition
    versions: DeclaredVersions | None = Field(
        default=None, description="of the parser; a backup has none: it looks at nothing"
    )


class LakeGroup(Strict):
    """One group: an independent copy of its topics below its own prefix."""

    kind: GroupKind
    """backup: keeps records whole and looks at nothing; partition: parses them and files them by what they say."""
    application: str = Field(description="the only application that writes it")
    topics: tuple[str, ...] = Field(
        min_length=1,
        description="patterns (`*`, `?`) of topics, found while it runs; names that begin with _ or . only if these do",
    )
    exclude: tuple[str, ...] = Field(default=(), description="patterns of topics that are left out")
    prefix: Annotated[str, AfterValidator(valid_prefix)] = Field(min_length=1, description="folder in the bucket")
    revision: int = Field(
        default=1, ge=1, description="raised for another logic: a new generation is written from then"
    )
    offset_step: int = Field(default=1_000_000, ge=1, description="backup only: a folder for so many offsets")
    run: Literal["stream", "schedule"] = Field(default="stream", description="always, or when the DAG lake_upload runs")
    schedule: Annotated[str, AfterValidator(_cron)] = Field(
        default=HOURLY, description="of a group with run: schedule: cron (UTC) of when it is stored"
    )
    keep_days: int | None = Field(
        default=None, ge=1, description="older cuts are forgotten by the DAG lake_forget; None: all is kept"
    )
    unknown_schema_s: int = Field(
        default=600,
        ge=0,
        description="so long schema ids that the registry does not know are waited for, three times a day",
    )
    policy: UploadPolicies = Field(default_factory=UploadPolicies)
    finalise: Finalising = Field(default_factory=Finalising, description="partition groups only: when a date is over")
    rules: tuple[TopicRule, ...] = Field(min_length=1)
    """What becomes of the topics, in order: each topic needs one."""

    @model_validator(mode="after")
    def _parses(self) -> LakeGroup:
        for number, rule in enumerate(self.rules):
            if (rule.versions is None) != (self.kind == "backup"):
                wanted = "has no parser: it never looks inside" if self.kind == "backup" else "needs `versions`"
                raise ValueError(f"rules[{number}] of a {self.kind} group {wanted}")
        if self.kind == "partition" and "offset_step" in self.model_fields_set:
            raise ValueError("offset_step belongs to a backup; a partition group has names by its parsers")
        if self.run == "stream" and "schedule" in self.model_fields_set:
            raise ValueError("schedule belongs to a group with `run: schedule`; this one runs always")
        if self.kind == "backup" and "finalise" in self.model_fields_set:
            raise ValueError("finalise belongs to a partition group; a backup has no dates")
        return self

    def wants(self, topic: str) -> bool:
        """Whether the topic is one of the group's."""
        return _any(self._patterns(topic), topic) and not _any(self.exclude, topic)

    def leaves_out(self, topic: str) -> bool:
        """Whether a pattern has the topic, which is left out as its name begins with _ or ., and no pattern does."""
        return _any(self.topics, topic) and not _any(self.exclude, topic) and not self.wants(topic)

    def _patterns(self, topic: str) -> tuple[str, ...]:
        hidden = topic.startswith(HIDDEN)
        return tuple(each for each in self.topics if not hidden or each.startswith(HIDDEN))

    def rule(self, topic: str) -> TopicRule | None:
        """The rule that holds for a topic of the group; None where nobody thought of one."""
        return next((rule for rule in self.rules if fnmatch.fnmatchcase(topic, rule.topics)), None)


def declared_groups(deployment: Deployment) -> dict[str, LakeGroup]:
    """All groups, by name; raises `SettingsError` naming file and path."""
    groups = deployment.section(SECTION, LakeGroup)
    for (one, outer), (other, inner) in permutations(((name, group.prefix) for name, group in groups.items()), 2):
        if f"{inner}/".startswith(f"{outer}/"):
            raise deployment.error(
                (SECTION, other, "prefix"),
                "two groups share a folder",
                got=inner,
                other=one,
                fix="Give each group a prefix that lies in no other's.",
            )
    return groups


def backup_prefixes(groups: Mapping[str, LakeGroup]) -> list[str]:
    """Of the groups that keep what they read, and its schemas."""
    return [group.prefix for group in groups.values() if group.kind == "backup"]


def group_named(deployment: Deployment, name: str) -> LakeGroup:
    """The group of that name; raises `SettingsError` with the names that there are."""
    found = declared_groups(deployment).get(name)
    if found is None:
        raise unknown_name(deployment, (SECTION,), name, SECTION)
    return found


def groups_of_application(deployment: Deployment, application: str) -> dict[str, LakeGroup]:
    """What an application writes, by name; raises `SettingsError` for one that no group names."""
    groups = {name: group for name, group in declared_groups(deployment).items() if group.application == application}
    if not groups:
        raise deployment.error(
            (SECTION,), "no group of the lake names this application", application=application, fix="Set `application`."
        )
    return groups


def format_of(definition: FormatDefinition, registry: SchemaRegistry | None) -> Format:
    """The format that is declared; `SettingsError` where it needs a registry and there is none."""

    def lookup() -> Callable[[int], Any]:
        if registry is None:
            raise SettingsError("a format of Avro records needs a schema registry", fix="Declare `registry`.")
        return registry.schema

    if definition.sequence is not None:
        return definition.sequence
    if definition.text is not None:
        return DelimitedText(definition.text)
    if definition.json_lines is not None:
        return JsonLines(definition.json_lines)
    if definition.avro is not None:
        return AvroContainer(definition.avro, lookup())
    assert definition.parquet is not None  # noqa: S101 - one of them is
    return Parquet(definition.parquet, lookup())


def _any(patterns: tuple[str, ...], topic: str) -> bool:
    return any(fnmatch.fnmatchcase(topic, pattern) for pattern in patterns)
