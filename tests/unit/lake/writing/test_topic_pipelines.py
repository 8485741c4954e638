"""What holds for a cut, by the deployment: a backup has one logic, a partition group one for each parser version."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.errors import SettingsError, Terminal
from include.lake.definition import LakeGroup
from include.lake.message import Message
from include.lake.parsing.definition import ParserContext
from include.lake.writing.log_cuts import CutLogics
from include.lake.writing.topic_pipelines import logics_of

CONTEXT = ParserContext(Path("/nowhere"))


def backup(**changes: object) -> LakeGroup:
    declared = {
        "kind": "backup",
        "application": "lake",
        "topics": ["*"],
        "prefix": "raw",
        "offset_step": 100,
        "rules": [{"topics": "e*", "format": {"sequence": {"layout": "verbatim"}}}],
    }
    return LakeGroup.model_validate(declared | changes)


def parsed(versions: list[dict[str, object]]) -> CutLogics:
    group = LakeGroup.model_validate(
        {
            "kind": "partition",
            "application": "lake",
            "topics": ["*"],
            "prefix": "by_date",
            "rules": [{"topics": "*", "format": {"json_lines": {"content": "payload"}}, "versions": versions}],
        }
    )
    return logics_of("by_date", group, "events", CONTEXT)


def version(number: int, field: str, **start: object) -> dict[str, object]:
    parser = {"format": "json", "time": {"field": [field], "unit": "ms"}}
    return {"version": number, "added": "2026-01-01T00:00:00Z", "parser": parser, **start}


def test_a_backup_puts_a_cut_under_the_step_that_it_begins_in() -> None:
    logic = logics_of("raw", backup(), "events", CONTEXT).holding(0, 257, -1)
    messages = [Message(257, None, b"x"), Message(399, None, b"y")]
    assert list(logic.sorter(257)(messages).kept) == [("offset=200",)]


def test_a_topic_that_no_rule_has_is_refused_with_the_rules() -> None:
    with pytest.raises(SettingsError, match=r"lake\.raw\.rules.*other.*e\*"):
        logics_of("raw", backup(), "other", CONTEXT)


def test_what_decides_on_bytes_decides_on_the_hash_and_nothing_else_does() -> None:
    def config(group: LakeGroup) -> str:
        return logics_of("g", group, "events", CONTEXT).holding(0, 0, -1).config

    same = config(backup())
    assert config(backup(application="other", prefix="elsewhere", exclude=["x"], revision=9)) == same
    assert config(backup(offset_step=200)) != same
    blocks = [{"topics": "e*", "format": {"sequence": {"layout": "verbatim", "compression": "BLOCK"}}}]
    assert config(backup(rules=blocks)) != same


def test_versions_hold_from_their_start_and_are_found_again_by_their_hash() -> None:
    logics = parsed([version(1, "at"), version(2, "made", from_offsets={0: 50})])
    first, second = logics.holding(0, 49, -1), logics.holding(0, 50, -1)
    assert first.config != second.config
    assert (logics.border(0, 10), logics.border(0, 50)) == (50, None)
    assert logics.of(first.config) is first
    assert logics.of(second.config) is second
    batch = second.sorter(50)([Message(50, None, b'{"made": 1700000000000}', timestamp_ms=1_700_000_000_000)])
    assert list(batch.kept) == [("dt=2023-11-14",)]


def test_a_configuration_that_is_gone_is_asked_for_by_name() -> None:
    for logics in (parsed([version(1, "at")]), logics_of("raw", backup(), "events", CONTEXT)):
        with pytest.raises(Terminal, match="has no more"):
            logics.of("0" * 64)
