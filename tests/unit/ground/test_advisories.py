"""The list of known vulnerabilities, and what it finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.settings.environment import PROJECT_ROOT
from tests.support import advisories

KNOWN = advisories.advisories(Path(advisories.__file__).with_suffix(".toml").read_text("utf-8"))
PINNED = advisories.pins(lock.read_text("utf-8") for lock in PROJECT_ROOT.glob("requirements*.txt"))
ONE = """
[[advisory]]
id = "CVE-1"
package = "urllib3"
affected = ">=1.24,<2.6.0"
summary = "it does harm"
"""


def test_no_pin_has_a_known_vulnerability() -> None:
    assert advisories.findings(KNOWN, PINNED) == []


def test_every_advisory_is_of_a_package_that_is_pinned_and_of_its_past() -> None:
    assert {each.package for each in KNOWN} <= set(PINNED)
    assert len({(each.id, each.package, each.affected) for each in KNOWN}) == len(KNOWN) > 0


@pytest.mark.parametrize(("version", "found"), [("1.23", 0), ("1.24", 1), ("2.5.9", 1), ("2.6.0rc1", 0), ("2.6.0", 0)])
def test_a_pin_in_the_range_is_named(version: str, found: int) -> None:
    lock = f"urllib3=={version} \\\n    --hash=sha256:00\n    # via requests\n"
    lines = advisories.findings(advisories.advisories(ONE), advisories.pins([lock]))
    assert lines == [f"urllib3=={version} has CVE-1: it does harm (affected: <2.6.0,>=1.24)"] * found


def test_an_accepted_advisory_and_another_package_are_no_findings() -> None:
    accepted = advisories.advisories(ONE + 'accepted = "we do not call it"\n')
    assert advisories.findings(accepted, {"urllib3": "2.0"}) == []
    assert advisories.findings(advisories.advisories(ONE), {"requests": "2.0"}) == []
