"""The pages that draw the layers of the library draw those that import-linter holds, and name every package."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.support.manual.references import ROOT

CONTRACT = "Stages meet in the log, not in each other"
PACKAGES = sorted(path.parent.name for path in (ROOT / "include").glob("*/__init__.py"))


def layers() -> list[set[str]]:
    """Those of the contract, from above."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = next(one for one in settings["tool"]["importlinter"]["contracts"] if one["name"] == CONTRACT)
    return [set(line.split(" | ")) for line in contract["layers"]]


def section(page: str, heading: str) -> str:
    return (ROOT / page).read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]


def drawn_in_architecture() -> list[set[str]]:
    """A line for each layer; what it holds stands behind two blanks or more."""
    drawing = section("docs/architecture.md", "Layers").split("```")[1]
    return [set(re.split(r" {2,}", line.strip())[0].split(" | ")) for line in drawing.strip().splitlines()]


def drawn_in_readme() -> list[set[str]]:
    """One sentence of names: `>` parts layers, a comma neighbours."""
    drawing = section("README.md", "Layout").split("(import-linter)")[1].split("\ntests/")[0]
    return [set(re.split(r",\s+", line.strip())) for line in drawing.split(">")]


def test_architecture_draws_the_layers_that_hold() -> None:
    assert drawn_in_architecture() == layers()


def test_the_readme_draws_the_layers_that_hold() -> None:
    assert drawn_in_readme() == layers()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_drawn_by_both_and_stands_in_the_table(package: str) -> None:
    assert package in set().union(*drawn_in_architecture())
    assert package in set().union(*drawn_in_readme())
    assert f"\n| `{package}` | " in section("docs/architecture.md", "Layers")
