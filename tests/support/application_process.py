"""An application on Spark as a process of its own, to be killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tests.support.paths import ROOT

__all__ = ["ApplicationProcess"]


class ApplicationProcess:
    """Runs from its making until it is killed or stopped; what it says goes to a file. `starts` counts its lives.

    `launcher`: the words before the script's name; the driver is a child of theirs where they do not become it.
    """

    def __init__(
        self,
        application: str,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        script: str = "spark_apps/join.py",
        launcher: Sequence[str] = (sys.executable,),
    ) -> None:
        self.run, self.log = folder / "run", folder / "application.log"
        self.run.mkdir(exist_ok=True)
        given = {
            "LYREBIRD_DEPLOYMENT": str(folder),
            "LYREBIRD_STATE": str(folder / "state"),
            "LYREBIRD_RUN": str(self.run),
            "LYREBIRD_SPARK_MASTER": "local[2]",
            "PYTHONPATH": str(ROOT),
        }
        self._words = [*launcher, script, "--application", application]
        self._environment = {**os.environ, **given, **(environment or {})}
        self.starts = 0
        self._process = self._start()

    def revived(self) -> bool:
        """Starts it where it has ended, as its guardian would; always True."""
        if not self.alive:
            self._process = self._start()
        return True

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        (self.run / "stop").unlink(missing_ok=True)
        with self.log.open("ab") as said:
            return subprocess.Popen(
                self._words,
                cwd=ROOT,
                env=self._environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the driver."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self._process.poll() is None

    def kill(self) -> None:
        """kill -9 of the driver: Python, JVM and workers at once, as a host that loses its power."""
        for each in self._all():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        self._process.wait(30)

    def kill_worker(self) -> bool:
        """kill -9 of one of the Python workers that do tasks; False when there is none."""
        workers = [each for each in self._all() if _is_worker(each)]
        for each in workers[-1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        return bool(workers)

    def stop(self, within_s: float = 90) -> int:
        """Ask for an end; its exit code."""
        (self.run / "stop").touch()
        try:
            return self._process.wait(within_s)
        finally:
            if self.alive:
                self.kill()

    def tail(self) -> str:
        """The end of what it said."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]

    def _all(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            return [process, *process.children(recursive=True)]
        return []


def _is_worker(process: psutil.Process) -> bool:
    """A child of PySpark's daemon: the daemon itself is no worker."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        parent = process.parent()
        return (
            parent is not None
            and any("pyspark.daemon" in word for word in parent.cmdline())
            and any("pyspark.daemon" in word for word in process.cmdline())
        )
    return False
