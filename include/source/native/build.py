"""Builds what is compiled, beside its source or all in one folder: `python include/source/native/build.py [FOLDER]`.

That is row decoders, event loop, the reader of records, the writer of JSON, and joins' work on a bucket.

Needs nothing but the standard library and Cython. Never an error: where they cannot be built, the Python ones do the
same work more slowly, and one line says so.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["COMPILE", "LINK", "SOURCES", "build"]

_OWN: Final = Path(__file__).parent
_INCLUDE: Final = _OWN.parents[1]
SOURCES: Final = (
    _INCLUDE / "record" / "native" / "_avro.pyx",
    _OWN / "_decoder.pyx",
    _OWN / "_events.pyx",
    _INCLUDE / "record" / "json" / "native" / "_avro_json.pyx",
    _INCLUDE / "join" / "native" / "_join.pyx",
)
_HARDEN: Final = ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong")
# Undefined first: some distributions define it, and another value would be one too many.
COMPILE: Final = ("-O3", "-fwrapv", "-fPIC", "-fvisibility=hidden", "-DNDEBUG", "-w", *_HARDEN)
LINK: Final = ("-Wl,-z,relro,-z,now",) if sys.platform.startswith("linux") else ()
"""Other systems' linkers do not know it; `setup.py` takes both for the package."""


def build(folder: Path | None = None, flags: Sequence[str] = (*COMPILE, *LINK)) -> str:
    """Build into `folder`, or each beside its source; returns a line for a person.

    An older library is replaced in one step, or goes.
    """
    why_not = ""
    for source in SOURCES:
        target = (folder or source.parent) / f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}"
        # Of one that fails the others do not stand there from another time.
        why_not = why_not or _made(source, target, flags)
        if why_not:
            target.unlink(missing_ok=True)
    if not why_not:
        return f"compiled row decoders, event loop, record reader, JSON writer and joins: {folder or _INCLUDE}"
    return f"note: the slower pure Python row decoders and JSON writer will be used: {why_not}; then `make setup`."


def _made(source: Path, target: Path, flags: Sequence[str]) -> str:
    """Why it could not be made, and what to do; empty when it was."""
    compiler = _compiler()
    if compiler is None:
        return "no C compiler. Debian: apt-get install gcc libc6-dev"
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"no Python.h in {headers}. Debian: apt-get install python{version}-dev"
    with tempfile.TemporaryDirectory() as name:
        text, made = Path(name, f"{source.stem}.c"), target.with_name(f".{target.name}.{os.getpid()}")
        commands = [
            [sys.executable, "-m", "cython", "-3", "-o", str(text), str(source)],
            [*compiler, *flags, f"-I{headers}", str(text), "-o", str(made)],
        ]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - words of our own
            if done.returncode:
                made.unlink(missing_ok=True)
                said = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"exit {done.returncode}"]
                return f"{Path(command[0]).name} failed: {said[0]}. Mend that"
        made.replace(target)
    return ""


def _compiler() -> list[str] | None:
    """The command that makes a library of C, as this Python was built with; its compiler, else any that is there."""
    words = shlex.split(sysconfig.get_config_var("LDSHARED") or "cc -shared")
    found = next((path for each in (words[0], "cc", "gcc", "clang") if (path := shutil.which(each))), None)
    return None if found is None else [found, *words[1:]]


def main() -> None:
    """Build, and say what came of it."""
    sys.stdout.write(build(Path(sys.argv[1]) if len(sys.argv) > 1 else None) + "\n")


if __name__ == "__main__":
    main()
