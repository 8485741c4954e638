"""An application of the lake in a process of its own: the product's host, drivers and tasks, threads in Spark's stead.

    python -m tests.support.lake.hosted_application FOLDER [--flush]

Runs all groups of the deployment in FOLDER until its run folder (`LYREBIRD_RUN`) or SIGTERM asks for a stop, or with
`--flush` until all that the log has now is stored. Ends as the applications do: 3 when it is fenced, 1 with an error.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from include.clock import SystemClock
from include.errors import Fenced, LyrebirdError
from include.lake.definition import declared_groups
from include.lake.host import GroupHost
from include.lake.reading.kafka_group import KafkaGroupLog
from include.lake.writing.driver import Driver
from include.lake.writing.report import GroupReport
from include.lake.writing.task import Outcome, Task
from include.lake.writing.worker import TaskPlace, work
from include.log.running.application import log_to_stderr
from include.log.running.supervised import stop_signal
from include.metrics.progress import RunFolder
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Deployment
from include.store.s3 import store_of
from tests.support.paths import ROOT

__all__ = ["Hosted"]


class Threads:
    """`TaskPool` of one group: two threads, each with clients of its own, as Spark's workers have."""

    slots, together = 2, 1

    def __init__(self, place: TaskPlace) -> None:
        self._places: queue.SimpleQueue[TaskPlace] = queue.SimpleQueue()
        for number in range(self.slots):
            settings = json.loads(place.settings)
            # Consumers are kept by what they are configured with: so no two threads share one.
            settings["kafka"]["options"] = {"client.id": f"{settings['group']['prefix']}-{number}"}
            self._places.put(replace(place, settings=json.dumps(settings)))
        self._mine = threading.local()
        self._threads = ThreadPoolExecutor(self.slots, initializer=self._begin)
        self._running: list[Future[Outcome]] = []

    def _begin(self) -> None:
        self._mine.place = self._places.get()

    def submit(self, *tasks: Task) -> None:
        self._running += [self._threads.submit(self._work, task) for task in tasks]

    def _work(self, task: Task) -> Outcome:
        return work(self._mine.place, task)

    def finished(self) -> list[Outcome]:
        done = [each for each in self._running if each.done()]
        self._running = [each for each in self._running if each not in done]
        return [each.result() for each in done]

    def close(self) -> None:
        self._threads.shutdown()


class Hosted:
    """A process of groups, this program or another one; its log is `log` in its run folder."""

    def __init__(self, words: Sequence[str], run: Path, environment: Mapping[str, str]) -> None:
        run.mkdir(parents=True, exist_ok=True)
        (run / "stop").unlink(missing_ok=True)
        self.run = run
        inherited = {**os.environ, "LYREBIRD_RUN": str(run), "PYTHONPATH": str(ROOT)}
        with (run / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *words], cwd=ROOT, env={**inherited, **environment}, stdout=log, stderr=log
            )

    def told(self, group: str) -> dict[str, Any]:
        """What it reported last of a group; {} before it has."""
        try:
            found: dict[str, Any] = json.loads((self.run / "progress.json").read_text())["groups"][group]
        except FileNotFoundError:
            return {}
        return found

    def log(self) -> str:
        return (self.run / "log").read_text()

    def stop(self, within_s: float = 60) -> int:
        """Ask it to end, as its guardian does, and wait for that."""
        (self.run / "stop").touch()
        return self.process.wait(within_s)

    def kill(self) -> None:
        """As a host that loses its power; nothing where it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


def main(folder: Path, *, flush: bool) -> int:
    log_to_stderr()
    deployment, clock = Deployment.load(folder, {}), SystemClock()
    kafka, settings = deployment.one("kafka", Kafka), deployment.one("store", StoreSettings)
    registry = deployment.one("registry", Registry) if deployment.has("registry") else None
    hosted, pools = [], []
    for name, group in declared_groups(deployment).items():
        pools.append(Threads(TaskPlace.of(group, kafka, registry, settings, deployment.folder)))
        report, log = GroupReport(name), KafkaGroupLog(kafka.bootstrap, kafka.options)
        driver = Driver(name, group, log, store_of(settings), pools[-1], clock, report, f"test-{os.getpid()}")
        hosted.append((driver, report))
    try:
        with stop_signal() as stop:
            host = GroupHost("lake", hosted, RunFolder.from_environment("lake", folder), clock, stop.is_set)
            if flush:
                host.drain(flush=True)
            else:
                host.serve()
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3 if isinstance(error, Fenced) else 1
    finally:
        for pool in pools:
            pool.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), flush="--flush" in sys.argv))
