"""Tells if a lock file is held: a process says by it that it lives, and the kernel takes it back however that ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

__all__ = ["is_held"]


def is_held(lock: Path) -> bool:
    """Whether a process has that file's lock (flock) for itself; False where there is no file. Never blocks.

    Takes a shared lock for an instant: whoever wants to hold it tries longer than that.
    """
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
