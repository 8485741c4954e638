"""Shows how a download or a build gets on: a bar on a terminal, plain lines on a pipe."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from include.clock import Clock
from include.errors import Terminal

__all__ = ["folder_mb", "free_mb", "require_space", "watch"]

_LINE_EVERY_S = 5.0


def folder_mb(folder: Path) -> float:
    """Size of all files below `folder`; files that vanish meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        total += status.st_size
    return total / 1024 / 1024


def free_mb(folder: Path) -> float:
    """Free space on the disk of `folder`."""
    return shutil.disk_usage(folder).free / 1024 / 1024


def require_space(folder: Path, needed_mb: float) -> None:
    """Terminal when the disk of `folder` has less than `needed_mb` free."""
    free = free_mb(folder)
    if free < needed_mb:
        raise Terminal(
            f"the disk of {folder} has {free:.0f} MB free, {needed_mb:.0f} MB are needed",
            fix="Free some space, or set LYREBIRD_CACHE to a folder on a larger disk.",
        )


def watch(
    process: subprocess.Popen[bytes],
    title: str,
    total_mb: float,
    measure: Callable[[], float],
    clock: Clock,
) -> int:
    """Wait for `process`, showing `measure()` of `total_mb` megabytes. Returns its exit code."""
    start_mb = measure()

    def done() -> float:
        return max(0.0, measure() - start_mb)

    if sys.stderr.isatty():
        return _bar(process, title, total_mb, done, clock)
    last = clock.monotonic_s()
    sys.stderr.write(f"{title}: {total_mb:.0f} MB\n")
    while process.poll() is None:
        clock.sleep(0.2)
        if clock.monotonic_s() - last >= _LINE_EVERY_S:
            last = clock.monotonic_s()
            sys.stderr.write(f"{title}: {done():.0f} of {total_mb:.0f} MB\n")
            sys.stderr.flush()
    return process.wait()


def _bar(
    process: subprocess.Popen[bytes],
    title: str,
    total_mb: float,
    measure: Callable[[], float],
    clock: Clock,
) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} MB"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    ) as progress:
        task = progress.add_task(title, total=total_mb)
        while process.poll() is None:
            progress.update(task, completed=min(measure(), total_mb))
            clock.sleep(0.2)
        if process.returncode == 0:
            progress.update(task, completed=total_mb)
    return process.wait()
