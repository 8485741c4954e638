"""Building the compiled decoders: what is said where they cannot be built, and how they are built elsewhere."""

from __future__ import annotations

import ast
import struct
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from include.source.native import build as building
from include.source.native.build import SOURCES, build

# Of the ELF format: kinds of segments, a tag of the dynamic section, and a flag in it.
DYNAMIC, GNU_RELRO, FLAGS_1, NOW = 2, 0x6474E552, 0x6FFFFFFB, 1


def test_without_a_compiler_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("include.source.native.build.shutil.which", lambda _name: None)
    said = build(tmp_path)
    assert said.startswith("note: the slower pure Python row decoders and JSON writer will be used: no C compiler.")
    assert said.endswith("apt-get install gcc libc6-dev; then `make setup`.")
    assert "\n" not in said


def test_without_python_headers_one_line_names_their_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("include.source.native.build.shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("include.source.native.build.sysconfig.get_paths", lambda: {"include": str(tmp_path)})
    assert "no Python.h in" in build(tmp_path)
    assert "-dev; then `make setup`." in build(tmp_path)


def test_a_failed_build_leaves_no_older_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "one\ntwo: no space\n")

    (tmp_path / "Python.h").touch()
    monkeypatch.setattr("include.source.native.build.shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("include.source.native.build.sysconfig.get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setattr("include.source.native.build.subprocess.run", run)
    old = tmp_path / f"_decoder{sysconfig.get_config_var('EXT_SUFFIX')}"
    old.touch()
    assert "failed: two: no space. Mend that; then `make setup`." in build(tmp_path)
    assert not old.exists()


@pytest.mark.compiled
@pytest.mark.skipif(not building.LINK, reason="`make setup` builds the compiled modules: in another format than ELF")
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_what_is_compiled_is_hardened(source: Path) -> None:
    """Functions' addresses are resolved at once, and read-only then; who writes over the stack ends the process."""
    library = source.with_suffix(str(sysconfig.get_config_var("EXT_SUFFIX"))).read_bytes()
    segments, dynamic = elf(library)
    assert GNU_RELRO in segments
    assert dynamic.get(FLAGS_1, 0) & NOW, "built with other flags: `make setup`"
    assert b"\0__stack_chk_fail\0" in library


def elf(library: bytes) -> tuple[set[int], dict[int, int]]:
    """Kinds of the segments of a library for 64 bits, and what its dynamic section says."""
    assert library[:5] == b"\x7fELF\x02"
    order = "<" if library[5] == 1 else ">"
    (table,) = struct.unpack_from(f"{order}Q", library, 32)
    size, count = struct.unpack_from(f"{order}HH", library, 54)
    kinds: set[int] = set()
    dynamic: dict[int, int] = {}
    for at in range(table, table + count * size, size):
        kind, _, offset, _, _, length = struct.unpack_from(f"{order}IIQQQQ", library, at)
        kinds.add(kind)
        if kind == DYNAMIC:
            dynamic |= dict(struct.iter_unpack(f"{order}QQ", library[offset : offset + length]))
    return kinds, dynamic


def test_what_is_compiled_knows_nothing_of_the_rest_of_capture() -> None:
    stubs = sorted(Path(building.__file__).parent.glob("*.pyi"))
    trees = [ast.parse(stub.read_text("utf-8")) for stub in stubs]
    asked = {node.module for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert len(stubs) == 2
    assert {name for name in asked if name and name.startswith("include.source")} == {"include.source.native"}
