"""Compares the locks with known vulnerabilities: `python -m tests.support.advisories`, without a network.

pip-audit asks a service for each package and has no list of its own, so `advisories.toml` beside this file is the list:
what is known of packages that we pin. Whoever raises a pin, or hears of a new advisory (https://osv.dev), adds it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.specifiers import SpecifierSet

from tests.support.paths import ROOT

__all__ = ["Advisory", "advisories", "findings", "pins"]

_PIN: Final = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ \n]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Advisory:
    """A vulnerability. `accepted`: why we live with it; empty where a pin in its range is a finding."""

    id: str
    package: str
    affected: SpecifierSet
    summary: str
    accepted: str = ""


def advisories(text: str) -> list[Advisory]:
    """Those of `advisories.toml`; `ValueError` or `TypeError` for what is none."""
    return [
        Advisory(**{**each, "affected": SpecifierSet(each["affected"], prereleases=True)})
        for each in tomllib.loads(text)["advisory"]
    ]


def pins(locks: Iterable[str]) -> dict[str, str]:
    """Package and version of each pin in the texts of locks."""
    return dict(pin for lock in locks for pin in _PIN.findall(lock))


def findings(known: Iterable[Advisory], pinned: Mapping[str, str]) -> list[str]:
    """A line for each pin that an advisory affects and nobody has accepted."""
    return [
        f"{each.package}=={pinned[each.package]} has {each.id}: {each.summary} (affected: {each.affected})"
        for each in known
        if not each.accepted and each.package in pinned and pinned[each.package] in each.affected
    ]


def main() -> int:
    """Print what is found; 1 where that is something."""
    known = advisories((Path(__file__).parent / "advisories.toml").read_text("utf-8"))
    pinned = pins(lock.read_text("utf-8") for lock in sorted(ROOT.glob("requirements*.txt")))
    found = findings(known, pinned)
    sys.stdout.write("".join(f"{line}\n" for line in found or [f"{len(known)} advisories, no pin affected"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
