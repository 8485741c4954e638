"""Groups of the lake stored by threads of the test, as their application does on Spark; and a reader beside them."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from include.clock import SystemClock
from include.lake.definition import group_named
from include.lake.host import GroupHost
from include.lake.inspect.listing import Dates, list_topic
from include.lake.reading.kafka_group import KafkaGroupLog
from include.lake.writing.driver import Driver
from include.lake.writing.report import GroupReport
from include.lake.writing.task import Outcome, Task, run_task
from include.lake.writing.worker import TaskPlace, work
from include.metrics.progress import RunFolder
from include.settings.connections import Kafka, StoreSettings
from include.settings.deployment import Deployment
from include.store.s3 import S3Store, store_of
from tests.support.background import Background

__all__ = ["ListingReader", "ThreadedGroups"]


class _Threads:
    """`TaskPool` of one group: one thread, as a log's client is not for several."""

    slots, together = 2, 1

    def __init__(self, place: TaskPlace) -> None:
        self._place = place
        self._threads = ThreadPoolExecutor(1)
        self._running: list[Future[Outcome]] = []

    def submit(self, *tasks: Task) -> None:
        self._running += [self._threads.submit(work, self._place, task, run_task) for task in tasks]

    def finished(self) -> list[Outcome]:
        done = [each for each in self._running if each.done()]
        self._running = [each for each in self._running if each not in done]
        return [each.result() for each in done]

    def close(self) -> None:
        self._threads.shutdown()


class ThreadedGroups(Background):
    """Groups of a deployment as it is now, stored until the end of a `with`."""

    def __init__(self, deployment: Deployment, names: Sequence[str], folder: Path) -> None:
        super().__init__()
        clock, kafka, settings = SystemClock(), deployment.one("kafka", Kafka), deployment.one("store", StoreSettings)
        folder.mkdir(exist_ok=True)
        self._pools: list[_Threads] = []
        hosted = []
        for name in names:
            group = group_named(deployment, name)
            pool, report = _Threads(TaskPlace.of(group, kafka, None, settings, deployment.folder)), GroupReport(name)
            log = KafkaGroupLog(kafka.bootstrap, kafka.options)
            hosted.append((Driver(name, group, log, store_of(settings), pool, clock, report, "test"), report))
            self._pools.append(pool)
        self._host = GroupHost("clicks", hosted, RunFolder(folder, clock), clock, self.over.is_set)

    def work(self) -> None:
        try:
            self._host.serve()
        finally:
            for pool in self._pools:
                pool.close()


class ListingReader(Background):
    """Asks again and again which objects readers of a topic read, as `lyrebird lake files` does, and reads them all.

    Fails when a record is in two of them, one is gone that was there before, or an object is not what was listed.
    """

    def __init__(self, store: S3Store, prefix: str, topic: str, since: dt.date, until: dt.date) -> None:
        super().__init__()
        self._store, self._prefix, self._topic, self._dates = store, prefix, topic, Dates(since, until)
        self._objects: dict[str, tuple[bytes, ...]] = {}
        self._known: set[bytes] = set()
        self.looks: list[Mapping[tuple[int, int], frozenset[int]]] = []
        """At each: by Kafka partition and `first` of the cut the generations that were read."""

    def work(self) -> None:
        while not self.over.is_set():
            began_s = time.monotonic()
            self._look()
            # A look takes longer the more there is: it is not to take all of the machine.
            self.over.wait(max(0.2, time.monotonic() - began_s))

    def again(self, within_s: float = 300) -> None:
        """Return when a look has ended that began after this was called."""
        wanted, end = len(self.looks) + 2, time.monotonic() + within_s
        while len(self.looks) < wanted:
            if self.failure is not None:
                raise self.failure
            assert time.monotonic() < end, f"no look within {within_s} s"
            time.sleep(0.05)

    def _look(self) -> None:
        generations: dict[tuple[int, int], set[int]] = {}
        found: dict[bytes, str] = {}
        for each in list_topic(self._store, self._prefix, self._topic, self._dates):
            generations.setdefault((each.partition, each.first), set()).add(each.generation)
            for line in self._lines(each.key, each.sha256):
                assert line not in found, f"{line!r} is in {found[line]} and in {each.key}"
                found[line] = each.key
        gone = self._known - found.keys()
        assert not gone, f"{len(gone)} records are read no more, such as {min(gone)!r}"
        self._known = set(found)
        self.looks.append({place: frozenset(each) for place, each in generations.items()})

    def _lines(self, key: str, sha256: str) -> tuple[bytes, ...]:
        if key not in self._objects:
            stored = self._store.get(key)
            assert stored is not None, f"{key} is listed and gone"
            assert hashlib.sha256(stored.body).hexdigest() == sha256
            self._objects[key] = tuple(stored.body.splitlines())
        return self._objects[key]
