"""The compiled modules built with AddressSanitizer and UndefinedBehaviorSanitizer, in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from include.source.native import build as building
from include.source.native.build import SOURCES, build
from tests.support.binlog.fuzz import STEP
from tests.support.sanitizers.plugin import FOLDER

__all__ = ["FLAGS", "built", "compiled", "environment", "runtimes"]

FLAGS: Final = (
    *("-O1", "-g1", "-fwrapv", "-fPIC", "-fvisibility=hidden", "-w"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
)
"""Without NDEBUG, so that asserts in what Cython writes hold, too."""


def runtimes() -> list[Path]:
    """The sanitizers' libraries, which have to be loaded before all others; empty where the compiler has not both."""
    compiler = building._compiler()
    if compiler is None:
        return []
    asked = [[compiler[0], f"-print-file-name={name}"] for name in ("libasan.so", "libubsan.so")]
    found = [Path(subprocess.run(each, capture_output=True, text=True, check=True).stdout.strip()) for each in asked]
    # A compiler that has it not says the bare name again.
    return found if all(each.is_absolute() for each in found) else []


def compiled(code: str, folder: Path) -> Path:
    """A library of this C, made as the modules are."""
    source, library = folder / "code.c", folder / "code.so"
    source.write_text(code)
    compiler = building._compiler()
    assert compiler is not None
    subprocess.run([*compiler, *FLAGS, str(source), "-o", str(library)], check=True)
    return library


def built(folder: Path) -> list[Path]:
    """All modules, built in `folder`; raises `RuntimeError` with what the compiler says."""
    said = build(folder, FLAGS)
    files = [folder / f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}" for source in SOURCES]
    if not all(file.is_file() for file in files):
        raise RuntimeError(said)
    return files


def environment(folder: Path) -> Mapping[str, str]:
    """What a process needs that takes the modules of `folder`."""
    options = "halt_on_error=1:abort_on_error=1"
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        FOLDER: str(folder),
        "LD_PRELOAD": " ".join(map(str, runtimes())),
        # Python keeps what it has interned until its end.
        "ASAN_OPTIONS": f"detect_leaks=0:{options}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{options}",
        # Each object by itself: in Python's own pools the byte behind it is another object's.
        "PYTHONMALLOC": "malloc",
        "LYREBIRD_NATIVE": "1",
        # All bytes of all recordings would take hours.
        STEP: "16",
    }
