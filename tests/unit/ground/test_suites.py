"""What a suite may import of tests: `tests.support` and its own modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

MOST_MODULES = 20
SUITES = ("unit", "contract", "spark", "dags", "integration", "e2e", "prove", "bench")
# The tests of benches.
OF_BENCH = "tests/unit/bench/"


def imported(source: str) -> set[str]:
    """The folders below tests that a module imports from."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{each.name}" for each in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("tests.")}
    return found


def foreign(path: Path, folder: str) -> set[str]:
    allowed = {"support", folder} | ({"bench"} if str(path.relative_to(ROOT)).startswith(OF_BENCH) else set())
    return imported(path.read_text(encoding="utf-8")) - allowed


@pytest.mark.parametrize("folder", [*SUITES, "support"])
def test_a_suite_imports_support_and_itself(folder: str) -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / "tests" / folder).rglob("*.py"))
        if (names := foreign(path, folder))
    }
    assert found == {}, "what suites share belongs into tests/support"


def test_the_imports_of_a_module_are_seen() -> None:
    source = "import tests.unit.a\nfrom tests.spark import conftest\ndef late():\n    from tests.prove.b import C"
    assert imported(source) == {"unit", "spark", "prove"}


def test_nothing_stands_loose_beside_the_suites() -> None:
    tests = ROOT / "tests"
    assert [path.name for path in tests.glob("*.py")] == ["conftest.py"]
    assert {path.relative_to(tests).parts[0] for path in tests.rglob("*/*.py")} == {*SUITES, "support"}


@pytest.mark.parametrize("beside", ["support", "bench"])
def test_a_folder_beside_the_tests_holds_what_a_reader_can_take_in(beside: str) -> None:
    folders = [path for path in (ROOT / "tests" / beside).rglob("*") if path.is_dir()]
    sizes = {str(folder): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: size for folder, size in sizes.items() if size > MOST_MODULES} == {}


@pytest.mark.parametrize(
    ("target", "module"), [("prove-lake", "test_lake_model.py"), ("prove-search", "test_search_delivery.py")]
)
def test_the_help_of_a_proof_names_as_many_schedules_as_it_tries(target: str, module: str) -> None:
    source = (ROOT / "tests" / "prove" / module).read_text(encoding="utf-8")
    [schedules] = re.findall(r"^SCHEDULES = ([0-9_]+)$", source, re.MULTILINE)
    [said] = re.findall(rf"^{target}:.*## (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert f" {int(schedules):,} " in said
