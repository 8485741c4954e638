"""Building the compiled decoders: what is said where they cannot be built."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from typing import Any

import pytest

from include.source.native import build as building
from include.source.native.build import build


def test_without_a_compiler_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(building.shutil, "which", lambda _name: None)
    said = build(tmp_path)
    assert said.startswith("note: the slower pure Python row decoders and JSON writer will be used: no C compiler.")
    assert said.endswith("apt-get install gcc libc6-dev; then `make setup`.")
    assert "\n" not in said


def test_without_python_headers_one_line_names_their_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(building.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(building.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert "no Python.h in" in build(tmp_path)
    assert "-dev; then `make setup`." in build(tmp_path)


def test_a_failed_build_leaves_no_older_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "one\ntwo: no space\n")

    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(building.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(building.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setattr(building.subprocess, "run", run)
    old = tmp_path / f"_decoder{building.sysconfig.get_config_var('EXT_SUFFIX')}"
    old.touch()
    assert "failed: two: no space. Mend that; then `make setup`." in build(tmp_path)
    assert not old.exists()


def test_what_is_compiled_knows_nothing_of_the_rest_of_capture() -> None:
    stubs = sorted(Path(building.__file__).parent.glob("*.pyi"))
    trees = [ast.parse(stub.read_text("utf-8")) for stub in stubs]
    asked = {node.module for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert len(stubs) == 2
    assert {name for name in asked if name and name.startswith("include.source")} == {"include.source.native"}
