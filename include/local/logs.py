"""Keeps the logs of a stack from filling its disk, while their writers live and have them open."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["remove_older", "rotate"]

_OLD = ".old.log"
_LIMIT_BYTES = 20 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024


def rotate(log: Path, limit_bytes: int = _LIMIT_BYTES) -> bool:
    """Where `log` is longer than that, keep its last `limit_bytes` as `<name>.old.log` and cut it to nothing.

    Copied and cut, not renamed: the descriptors of its writers stay valid, as they append. A line that is written
    between the two is lost. On a full disk there is no copy, as the server that writes is worth more than its log.
    """
    if log.name.endswith(_OLD) or log.stat().st_size <= limit_bytes:
        return False
    old = log.with_name(log.name.removesuffix(".log") + _OLD)
    with log.open("rb+") as source:
        try:
            with old.open("wb") as target:
                source.seek(-limit_bytes, os.SEEK_END)
                left = limit_bytes
                while left > 0 and (part := source.read(min(left, _CHUNK_BYTES))):
                    target.write(part)
                    left -= len(part)
        except OSError:
            with contextlib.suppress(OSError):
                old.unlink()
        source.truncate(0)
    return True


def remove_older(folder: Path, before_s: float) -> int:
    """Remove the files below `folder` that were last written before that time (seconds since the epoch); how many.

    Empty folders go, too, that nobody has put anything into since then. What runs writes its files, so it keeps them.
    Links are not followed.
    """
    removed = 0
    for path, _, names in os.walk(folder, topdown=False):
        old = Path(path) != folder and Path(path).stat().st_mtime < before_s
        for name in names:
            with contextlib.suppress(OSError):
                file = Path(path) / name
                if file.lstat().st_mtime < before_s:
                    file.unlink()
                    removed += 1
        if old:
            with contextlib.suppress(OSError):  # it is not empty
                Path(path).rmdir()
    return removed
