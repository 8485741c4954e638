"""A Kafka of a test's own, under no supervisor: killed it stays down, started again it has its data and its port."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from include.clock import SystemClock
from include.local import process
from include.local.programs import resolve
from include.local.recipes import recipe
from include.local.services import service
from include.local.site import Site
from tests.support.servers.reaper import leashed
from tests.support.sites import opened

__all__ = ["Broker", "broker"]


class Broker:
    """One node; `address` stays the same. `settings`: of its own, beside those of the local stack's."""

    def __init__(self, site: Site, settings: Mapping[str, str] | None = None) -> None:
        self._row, self._site, self._settings = service("kafka"), site, settings or {}
        resolve.ensure([self._row], self._site.cache, SystemClock())
        self.address = f"127.0.0.1:{self._site.ports['kafka']}"
        self._running: subprocess.Popen[bytes] | None = None
        self._leash = ExitStack()

    @property
    def files(self) -> Path:
        """The folder of its logs, which is another account's, and elsewhere, where root runs tests."""
        return self._site.folder(self._row) / "data"

    def start(self) -> None:
        """Returns when it answers."""
        (launch,) = recipe(self._row).prepare(self._site, self._row)
        with (self._site.folder(self._row) / "server.properties").open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in self._settings.items())
        self._running = process.start(launch)
        self._leash.enter_context(leashed(self._running))
        until_s = time.monotonic() + 90
        while not recipe(self._row).ready(self._site, self._row):
            assert self._running.poll() is None, process.tail(Path(launch.log))
            assert time.monotonic() < until_s, "Kafka did not come up"
            time.sleep(0.2)

    def kill(self) -> None:
        """As a machine that loses its power; nothing where it does not run."""
        if self._running is not None:
            os.kill(self._running.pid, signal.SIGKILL)
            self._running.wait()
            self._running = None
            self._leash.close()


@contextmanager
def broker(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """One that runs, for the length of a `with`."""
    with opened(folder, kafka_login=False) as site:
        made = Broker(site, settings)
        try:
            made.start()
            yield made
        finally:
            made.kill()
