"""Gives a server and what it reads from disk no more than so much memory: a control group of its own.

What processes of the group read through the page cache counts as theirs, so a machine with much memory does not hold a
small server's files for it. Needs the right to make groups below the memory controller's root (version 1 or 2).
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["MemoryGroup", "memory_group"]

_ROOT: Final = Path("/sys/fs/cgroup")
_EMPTY_WITHIN_S: Final = 10.0
_TRIES: Final = 20


@dataclass(frozen=True)
class MemoryGroup:
    """One group. `first` is whether its controller is version 1."""

    folder: Path
    first: bool

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Processes that this one starts in here belong to the group for good; this one only meanwhile."""
        before = _of_this_process(self.first)
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (before / "cgroup.procs").write_text(str(os.getpid()))

    def limit(self, mb: int) -> None:
        """No more than `mb` from now on: pages of files are given up, what else is above it ends the server."""
        file = self.folder / ("memory.limit_in_bytes" if self.first else "memory.max")
        for left in reversed(range(_TRIES)):
            try:
                file.write_text(str(mb << 20))
            except OSError as error:
                # Version 1 refuses while pages are still being written.
                if not left:
                    raise SystemExit(f"{self.used_mb():,} MB do not go into {mb:,} MB: {error}") from error
                os.sync()
                time.sleep(1)
            else:
                return

    def used_mb(self) -> int:
        """What the group holds now, pages of files too."""
        name = "memory.usage_in_bytes" if self.first else "memory.current"
        return int((self.folder / name).read_text()) >> 20


@contextmanager
def memory_group(name: str) -> Iterator[MemoryGroup]:
    """A new group, removed when its processes have ended; raises `SystemExit` where none may be made."""
    first = (_ROOT / "memory").is_dir()
    parent = _ROOT / "memory" if first else _ROOT
    group = MemoryGroup(parent / f"bench-{name}-{uuid.uuid4().hex[:8]}", first)
    try:
        group.folder.mkdir()
        if not (group.folder / "cgroup.procs").exists() or not _limits(group):
            group.folder.rmdir()
            raise OSError("the memory controller is not there")
    except OSError as error:
        raise SystemExit(
            f"memory of a server cannot be limited: {error}; run as root, where control groups may be made"
        ) from error
    try:
        yield group
    finally:
        _remove(group.folder)


def _limits(group: MemoryGroup) -> bool:
    return (group.folder / ("memory.limit_in_bytes" if group.first else "memory.max")).exists()


def _of_this_process(first: bool) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if ("memory" in controllers.split(",")) if first else number == "0":
            return (_ROOT / "memory" if first else _ROOT) / path.lstrip("/")
    raise SystemExit("this process is in no group of the memory controller")


def _remove(folder: Path) -> None:
    """A group goes when the kernel has let go of its processes, which may be a moment after their end."""
    until_s = time.monotonic() + _EMPTY_WITHIN_S
    while True:
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.2)
        else:
            return
