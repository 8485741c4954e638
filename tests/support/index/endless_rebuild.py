"""A range of a rebuild that is never done, for tests that end its worker; importable by a worker's own process."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def endless(folder: Path, parts: Sequence[Any]) -> None:
    """Say in `folder` which process works on the one of `parts`, and work on it for ever."""
    (part,) = parts
    (folder / f"{part}.tmp").write_text(str(os.getpid()))
    (folder / f"{part}.tmp").rename(folder / f"{part}.pid")
    while True:
        time.sleep(60)
