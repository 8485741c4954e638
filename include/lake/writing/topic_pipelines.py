"""The logics of a group's topics as the deployment declares them: parser and format, version by version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from include.errors import SettingsError, Terminal
from include.lake.definition import LakeGroup, TopicRule, format_of
from include.lake.formats.port import Format
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.parsing.definition import ParserContext, build, configuration_hash
from include.lake.parsing.partition_names import offset_name
from include.lake.parsing.versions import ParserVersion, ParserVersions
from include.lake.writing.cut_files import Sorter, whole
from include.lake.writing.log_cuts import CutLogic, CutLogics

__all__ = ["ASIDE", "logics_of"]

ASIDE: Final = SequenceFile(layout="verbatim")
"""How refused records are kept, in every group."""


def logics_of(name: str, group: LakeGroup, topic: str, context: ParserContext) -> CutLogics:
    """All that may hold for cuts of `topic`; `SettingsError` where no rule has it, or one cannot be carried out."""
    rule = group.rule(topic)
    if rule is None:
        raise SettingsError(
            "no rule of the group has this topic",
            path=f"lake.{name}.rules",
            topic=topic,
            allowed=[each.topics for each in group.rules],
            fix="Add a rule for it, or leave it out by `exclude`.",
        )
    kept = format_of(rule.format, context.registry)
    if rule.versions is None:
        return _Backup(group, rule, kept)
    return _Parsed(ParserVersions(topic, rule.versions), rule, kept, context)


class _Backup(CutLogics):
    """One logic for ever: it looks at nothing."""

    def __init__(self, group: LakeGroup, rule: TopicRule, kept: Format) -> None:
        step = group.offset_step
        config = _hash(rule, {"offset_step": step})
        self._logic = CutLogic(config, lambda first: whole((offset_name(first, step),)), kept, ASIDE)

    @override
    def holding(self, _partition: int, _first: int, _timestamp_ms: int) -> CutLogic:
        return self._logic

    @override
    def border(self, _partition: int, _first: int) -> int | None:
        return None

    @override
    def of(self, config: str) -> CutLogic:
        return _found({self._logic.config: self._logic}, config)


class _Parsed(CutLogics):
    """A logic for each version of the parser."""

    def __init__(self, versions: ParserVersions, rule: TopicRule, kept: Format, context: ParserContext) -> None:
        self._versions, self._rule, self._kept, self._parser_context = versions, rule, kept, context
        self._made: dict[int, CutLogic] = {}

    @override
    def holding(self, partition: int, first: int, timestamp_ms: int) -> CutLogic:
        return self._logic(self._versions.holding(partition, first, timestamp_ms))

    @override
    def border(self, partition: int, first: int) -> int | None:
        return self._versions.border(partition, first)

    @override
    def of(self, config: str) -> CutLogic:
        return _found({logic.config: logic for logic in map(self._logic, self._versions.versions)}, config)

    def _logic(self, version: ParserVersion) -> CutLogic:
        logic = self._made.get(version.version)
        if logic is None:
            config = _hash(self._rule, {"parser": configuration_hash(version.parser, self._parser_context)})
            sorter: Sorter = build(version.parser, self._parser_context).parse_all
            logic = self._made[version.version] = CutLogic(config, lambda _first: sorter, self._kept, ASIDE)
        return logic


def _hash(rule: TopicRule, more: Mapping[str, Any]) -> str:
    """Of all that decides on a cut's files: what the deployment says, and no default that it leaves out."""
    declared = {"format": rule.format.model_dump(mode="json", exclude_defaults=True), **more}
    text = json.dumps(declared, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _found(logics: Mapping[str, CutLogic], config: str) -> CutLogic:
    logic = logics.get(config)
    if logic is None:
        raise Terminal(
            "a cut was begun by a configuration that the deployment has no more",
            config=config,
            allowed=sorted(logics),
            fix="Declare it again as it was (versions are kept, not replaced), or go on under a higher `revision`.",
        )
    return logic
