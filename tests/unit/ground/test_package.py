"""`pip install .`: what pyproject.toml and setup.py declare is what there is."""

from __future__ import annotations

import tomllib
from importlib import import_module
from runpy import run_path
from typing import Any

import pytest

import include
from include.settings.environment import PROJECT_ROOT
from include.source.native.build import COMPILE, LINK, SOURCES

PROJECT = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text("utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]


def test_the_package_compiles_what_make_setup_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr("setuptools.setup", lambda **given: made.extend(given["ext_modules"]))
    monkeypatch.chdir(PROJECT_ROOT)
    run_path("setup.py")
    files = [file.relative_to(PROJECT_ROOT) for file in SOURCES]
    assert {each.name: each.sources for each in made} == {
        ".".join(file.with_suffix("").parts): [str(file)] for file in files
    }
    for each in made:
        assert (each.optional, each.extra_compile_args, each.extra_link_args) == (True, [*COMPILE], [*LINK])
        # A second build in the same tree compiles again what these change.
        parts = {str(part.relative_to(PROJECT_ROOT)) for file in SOURCES for part in file.parent.glob("*.px[id]")}
        assert parts
        assert {"setup.py", "include/source/native/build.py", *parts} == set(each.depends)


def test_every_kind_of_file_in_the_library_is_in_the_package() -> None:
    made = {".py", ".pyc", ".so", ".c", ".sh"}
    files = [file for file in (PROJECT_ROOT / "include").rglob("*") if file.is_file() and file.suffix not in made]
    assert [file for file in files if not any(file.match(each) for each in SETUPTOOLS["package-data"]["*"])] == []


def test_the_version_stands_in_one_place_and_in_the_changelog() -> None:
    assert SETUPTOOLS["dynamic"]["version"] == {"attr": "include.VERSION"}
    assert f"\n## {include.VERSION}" in (PROJECT_ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_command_of_the_package_is_there() -> None:
    module, _, attribute = PROJECT["project"]["scripts"]["lyrebird"].partition(":")
    assert callable(getattr(import_module(module), attribute))
