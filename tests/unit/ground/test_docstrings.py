"""Docstrings tell what a reader cannot guess: who does what in a module, and what each of many arguments is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from include.settings.environment import PROJECT_ROOT

_MANY = 6
_QUESTIONS = {"what", "which", "who", "whose", "how", "when", "where", "whether", "why"}
_SECTION = re.compile(r"^(?:Args|Attributes):\n((?: +.*\n|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+(?:, \w+)*):", re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


def test_no_headline_of_a_module_is_a_question() -> None:
    heads = {place: _doc(tree).partition("\n")[0] for place, tree in _modules()}
    assert len(heads) > 900
    assert {place: head for place, head in heads.items() if re.split(r"\W", head)[0].lower() in _QUESTIONS} == {}


def test_each_of_many_arguments_is_named_by_the_docstring() -> None:
    signatures = 0
    untold: dict[str, list[str]] = {}
    for place, tree in _modules():
        for owner, function in _public(tree):
            names = _arguments(function, method=owner is not None)
            if len(names) < _MANY:
                continue
            signatures += 1
            told = _told(function) | (_told(owner) if owner and function.name == "__init__" else set())
            if missing := [name for name in names if name not in told]:
                untold[f"{place}:{function.lineno} {function.name}"] = missing
    assert signatures > 100
    assert untold == {}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for top in ("include", "plugins", "demo"):
        for file in sorted((PROJECT_ROOT / top).rglob("*.py")):
            yield _place(file), ast.parse(file.read_text("utf-8"))


def _place(file: Path) -> str:
    return str(file.relative_to(PROJECT_ROOT))


def _public(tree: ast.Module | ast.ClassDef) -> Iterator[tuple[ast.ClassDef | None, Function]]:
    """Functions, methods and written constructors that have to tell of their arguments themselves."""
    owner = tree if isinstance(tree, ast.ClassDef) else None
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public(node)
        elif isinstance(node, Function) and not (_is_private(node.name) or _is_told_elsewhere(node)):
            yield owner, node


def _is_private(name: str) -> bool:
    return name.startswith("_") and name not in {"__init__", "__call__"}


def _is_told_elsewhere(function: Function) -> bool:
    """By what it overrides; or by the help of each option, as a command's docstring is what `--help` shows."""
    decorators = {ast.unparse(each).partition("(")[0] for each in function.decorator_list}
    return any(name == "override" or name.endswith(".command") for name in decorators)


def _arguments(function: Function, *, method: bool) -> list[str]:
    of = function.args
    names = [each.arg for each in (*of.posonlyargs, *of.args)]
    if method and "staticmethod" not in map(ast.unparse, function.decorator_list):
        names = names[1:]
    names += [each.arg for each in (of.vararg, *of.kwonlyargs, of.kwarg) if each is not None]
    return names


def _told(node: Documented) -> set[str]:
    sections = _SECTION.findall(_doc(node) + "\n")
    return {name for section in sections for entry in _ENTRY.findall(section) for name in entry.split(", ")}


def _doc(node: Documented) -> str:
    return ast.get_docstring(node) or ""
