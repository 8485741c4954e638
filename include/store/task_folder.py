"""The folder of a task's local files: nobody else's while the task lives, and nobody's when its process is gone.

A process that is killed leaves its folder behind. A lock on the folder tells which those are, whatever process ids and
hosts share the disk: the kernel gives it back with the last process that held it. A folder that can be locked is swept.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["PREFIX", "sweep", "task_folder"]

LOGGER: Final = logging.getLogger("lyrebird.store")
PREFIX: Final = "lyrebird-lake-task-"


@contextmanager
def task_folder(below: Path | None = None, prefix: str = PREFIX) -> Iterator[Path]:
    """A new, empty folder below `below` (where temporary files go), removed with all in it at the end.

    `prefix`: what its name begins with, as those of its kind do that a sweep looks for.

    Raises `OSError` where the host has no room for it.
    """
    folder, lock = _locked(below or Path(tempfile.gettempdir()), prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(below: Path | None = None, prefix: str = PREFIX) -> list[Path]:
    """Remove the folders there whose tasks have gone; returns those that were removed.

    What another account left is that account's to sweep.
    """
    swept = []
    for folder in sorted((below or Path(tempfile.gettempdir())).glob(f"{prefix}*/")):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
                swept.append(folder)
            finally:
                os.close(lock)
    if swept:
        LOGGER.warning("removed local files of %d tasks that ended without a word", len(swept))
    return swept


def _locked(below: Path, prefix: str) -> tuple[Path, int]:
    """A folder and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=below))
        # Between its making and its lock a sweep may take it for one that is left, at either of two moments.
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            # Where `below` itself has gone, the next `mkdtemp` says so.
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if folder.stat().st_ino == os.fstat(lock).st_ino:
                return folder, lock
        os.close(lock)
