"""A file system of its own, which a test may fill without harm to the machine's. Root alone may mount one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from tests.support.sites import passable

__all__ = ["filled", "small_disk"]


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """One of so many bytes ("8g"), which the accounts of servers may pass, too."""
    with passable() as folder:
        path = folder / "disk"
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=711", "tmpfs", str(path)], check=True)
        try:
            yield path
        finally:
            subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """All of its room is taken meanwhile, also what others free."""
    ballast, over = disk / "ballast", Event()

    def fill() -> None:
        with ballast.open("wb", buffering=0) as file:
            while not over.is_set():
                try:
                    file.write(b"\0" * (1 << 20))
                except OSError:
                    time.sleep(0.2)

    worker = Thread(target=fill)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join()
        ballast.unlink()
