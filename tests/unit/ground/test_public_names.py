"""`__all__`: sorted, complete (with all that others import), and of names that there are."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from include.settings.environment import PROJECT_ROOT

MODULES = sorted(file for folder in ("include", "demo") for file in (PROJECT_ROOT / folder).rglob("*.py"))
FOLDERS = [PROJECT_ROOT / folder for folder in ("include", "demo", "spark_apps", "plugins", "dags")]


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def declared(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"]:
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def names(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Assign():
                found |= {t.id for target in node.targets for t in ast.walk(target) if isinstance(t, ast.Name)}
            case ast.AnnAssign(target=ast.Name(name)):
                found.add(name)
            case ast.Import() | ast.ImportFrom():
                found |= {alias.asname or alias.name for alias in node.names}
    return found


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """Of each module the names that others import from it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (file for folder in FOLDERS for file in folder.rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                found[node.module] |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PROJECT_ROOT)))
def test_public_names_are_sorted_and_complete(path: Path, imported: dict[str, set[str]]) -> None:
    tree = parsed(path)
    found = declared(tree)
    if found is None:
        return
    module = ".".join(path.relative_to(PROJECT_ROOT).with_suffix("").parts)
    assert len(set(found)) == len(found)
    assert set(found) <= names(tree)
    assert imported[module] <= set(found)
    # As ruff sorts them: constants, classes, the rest.
    assert found == sorted(found, key=lambda n: (0 if n.isupper() else 1 if n[:1].isupper() else 2, n))
