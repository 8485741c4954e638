"""Kinds of incidents: each is declared where the manual looks, and what it tells a person to run or read exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from include.incidents.kind import IncidentKind
from tests.support.manual.incidents import DECLARING, kinds
from tests.support.manual.references import ROOT, anchors, wrong_call

FACTORIES = {"IncidentKind", "refused_kind", "lag_kind"}
OPENING = {"note", "_note", "_grow", "_hold", "_only", "set_aside", "refused", "lag"}
DECLARED = list(kinds())


def calls(path: Path, names: set[str]) -> list[ast.Call]:
    tree = ast.parse(path.read_text("utf-8"))
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in names
    ]


def test_every_kind_that_is_made_is_declared_where_the_manual_looks() -> None:
    files = {ROOT / "include" / "incidents" / "stream.py"}
    files |= {Path(str(module.__file__)) for module in DECLARING}
    making = {path for path in (ROOT / "include").rglob("*.py") if calls(path, FACTORIES)}
    assert making == files


def test_every_kind_that_is_opened_by_its_name_is_declared() -> None:
    """Type checking holds that what is opened is an `IncidentKind`; here each constant is seen to be one of these."""
    known = {name for module in DECLARING for name, value in vars(module).items() if isinstance(value, IncidentKind)}
    opened = {
        call.args[0].id
        for path in (ROOT / "include").rglob("*.py")
        if "include.incidents" in path.read_text("utf-8")
        for call in calls(path, OPENING)
        if call.args and isinstance(call.args[0], ast.Name) and call.args[0].id.isupper()
    }
    assert opened <= known
    # Opened by a choice between two, by the name of a system, or by supervision.
    assert known - opened <= {"ASIDE", "ORPHANS", "FENCED", "STOPPED", "LOST_CUTS", "DOWN", "RESTARTED"}


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: f"{kind.stage}-{kind.name}")
def test_its_command_exists_and_so_does_its_page(kind: IncidentKind) -> None:
    commands = [re.sub(r"\{[\w.]+\}", "NAME", span) for span in re.findall(r"`([^`]+)`", kind.fix)]
    assert commands[0].startswith(("lyrebird ", "kafka-transactions.sh ")), "the command to run next comes first"
    assert [wrong_call(command) for command in commands if command.startswith("lyrebird ")] == [
        "" for command in commands if command.startswith("lyrebird ")
    ]
    name, _, anchor = kind.page.partition("#")
    assert anchor in anchors(ROOT / "docs" / name)


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: f"{kind.stage}-{kind.name}")
def test_it_says_when_it_opens_and_ends(kind: IncidentKind) -> None:
    assert kind.opens
    assert kind.ends or kind.name in ("fenced", "stopped")
    for clause in (kind.opens, kind.ends):
        assert not clause.endswith(".")
