"""Which topics are audited, what a nightly run may be asked, and how its report is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from include.audit.chain.audit import ChainAuditOptions
from include.audit.chain.platform import audit_in_bucket, topics_in
from include.audit.chain.report import together
from include.audit.chain.run_params import ChainAuditRun, verdict_of
from include.errors import SettingsError
from tests.support.lake.chain_harness import GROUPS, ChainHarness, faults

REPORT = Path("report.json")


@pytest.fixture
def world(tmp_path: Path) -> ChainHarness:
    made = ChainHarness(tmp_path)
    made.make("e.more")
    made.make("ee")
    made.write("e.more", 5)
    made.write("ee", 5)
    made.fill(2)
    return made


class Steps:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.steps = 0

    def begin(self, what: str, total: int | None = None) -> None:
        self.parts.append(what)

    def advance(self, steps: int) -> None:
        self.steps += steps


def audit(world: ChainHarness, *topics: str, steps: Steps | None = None) -> list[Any]:
    return list(audit_in_bucket(world.store, GROUPS, topics, world.clock, ChainAuditOptions(depth="bytes"), steps))


def test_all_topics_are_audited_unless_some_are_named(world: ChainHarness) -> None:
    assert [report.topic for report in audit(world)] == ["e", "e.more", "ee"]
    assert [report.topic for report in audit(world, "ee")] == ["ee"]
    assert all(report.clean for report in audit(world))


def test_objects_of_a_topic_without_a_chain_are_extra(world: ChainHarness) -> None:
    world.store.put("raw/orphan/offset=0/1_0_00000000000000000000", b"x")
    world.store.put("raw/loose", b"x")
    world.store.put("raw/_probe/1", b"x")
    assert topics_in(world.store, GROUPS.values()) == ["e", "e.more", "ee", "orphan"]
    (report,) = audit(world, "orphan")
    assert faults(report) == ["object extra"]
    assert report.findings[0].topic_id == ""


def test_progress_is_told_part_by_part(world: ChainHarness) -> None:
    steps = Steps()
    audit(world, "e", steps=steps)
    assert steps.parts == [
        "raw: chains",
        "by_date: chains",
        "raw: objects",
        "by_date: objects",
        "raw: bytes",
        "by_date: bytes",
    ]
    assert steps.steps > 1000


def test_a_nightly_run_takes_everything_unless_it_is_asked() -> None:
    assert ChainAuditRun.from_params({}, groups=["raw"]).arguments(REPORT) == [
        *("audit", "chain", "--all", "--report"),
        str(REPORT),
    ]
    params = {"topics": ["t", "u"], "groups": ["raw"], "deep": True}
    asked = ChainAuditRun.from_params(params, groups=["raw", "by_date"])
    assert asked.arguments(REPORT) == [
        *("audit", "chain", "t", "u", "--group", "raw", "--deep", "--report"),
        str(REPORT),
    ]


@pytest.mark.parametrize(
    ("params", "groups"),
    [
        ({"groups": ["nobody"]}, ["raw"]),
        ({"groups": ["raw", "raw"]}, ["raw"]),
        ({"topics": ["t", "t"]}, ["raw"]),
        ({}, []),
    ],
)
def test_what_cannot_be_meant_is_refused(params: dict[str, Any], groups: list[str]) -> None:
    with pytest.raises(SettingsError):
        ChainAuditRun.from_params(params, groups=groups)


def test_a_clean_report_passes_and_another_names_its_first_finding_and_the_command(world: ChainHarness) -> None:
    verdict = verdict_of(together(audit(world)))
    assert (verdict.topics, verdict.findings, verdict.next_command) == (3, 0, "")
    key = world.commits("raw")[1].files[0].key
    world.store.delete(key)
    world.store.put("parted/ee/dt=2026-11-03/x", b"x")
    verdict = verdict_of(together(audit(world)))
    assert (verdict.findings, verdict.next_command) == (2, "lyrebird audit chain e --deep")
    first = "object missing (raw, topic e, partition 0, offset 61): "
    assert verdict.text.startswith(f"the lake's chains are not clean: 2 findings, the first: {first}")
    assert verdict.text.endswith("2 topics are not clean: e, ee")
    assert key in verdict.text
