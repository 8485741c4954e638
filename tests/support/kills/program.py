"""The process that is hit: the host of one group with its driver, and workers that it forks.

It serves until its folder asks for a stop, then stores all that is left. Ends with 0, with 3 when it was fenced, and
with 1 after any other error, which stands in `error` then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import include.lake.protocol.chain
import include.lake.writing.task
from include.clock import SystemClock
from include.errors import Fenced, LyrebirdError
from include.lake.definition import LakeGroup
from include.lake.host import GroupHost
from include.lake.protocol.chain import Chain
from include.lake.protocol.runner import UploadConcurrency
from include.lake.reading.kafka_group import KafkaGroupLog
from include.lake.writing.driver import Driver
from include.lake.writing.lag_offsets import LagOffsets, consumer_group
from include.lake.writing.report import GroupReport
from include.lake.writing.worker import TaskPlace
from include.log.kafka.offsets import KafkaOffsets
from include.metrics.progress import RunFolder
from include.settings.connections import Kafka, StoreSettings
from include.store.object_store import PART_BYTES
from include.store.s3 import store_of
from tests.support.kills.fault_switch import Strike, StruckOffsets, Switch
from tests.support.kills.workers import WorkerPool

__all__ = ["Program", "run"]

WORKERS = 3


@dataclass(frozen=True)
class Program:
    """All that a host needs: plain values, as it goes to a new process. `folder` is this host's own."""

    folder: str
    name: str
    group: LakeGroup
    kafka: Kafka
    store: StoreSettings
    at_once: int
    driver: Strike | None = None
    workers: Mapping[int, Strike] = field(default_factory=dict)


def run(program: Program) -> None:
    """The process, whole."""
    # A group with stopped members is hung up when the shell that began it ends.
    os.setsid()
    folder = Path(program.folder)
    sys.stderr = (folder / "stderr").open("w", encoding="utf-8", buffering=1)
    # Parts and hints as big groups have them, with little data.
    sending = UploadConcurrency(program.at_once, PART_BYTES)
    vars(include.lake.writing.task)["Chain"] = partial(Chain, sending=sending)
    vars(include.lake.protocol.chain)["_HINT_COMMITS"] = 1
    place = TaskPlace.of(program.group, program.kafka, None, program.store, folder)
    pool = WorkerPool(place, program.workers, WORKERS)
    (folder / "workers").write_text(" ".join(map(str, pool.pids)))
    try:
        _host(program, pool, folder)
    except LyrebirdError as error:
        (folder / "error").write_text(str(error))
        sys.exit(3 if isinstance(error, Fenced) else 1)


def _host(program: Program, pool: WorkerPool, folder: Path) -> None:
    clock, switch = SystemClock(), Switch(program.driver)
    store = store_of(program.store)
    switch.watch(store)
    report = GroupReport(program.name)
    log = KafkaGroupLog(program.kafka.bootstrap, program.kafka.options)
    driver = Driver(program.name, program.group, log, store, pool, clock, report, f"host-{os.getpid()}")
    offsets = KafkaOffsets(program.kafka.bootstrap, consumer_group(program.name))
    lag = {program.name: LagOffsets(StruckOffsets(offsets, switch), clock)}
    left = folder / "left"
    left.mkdir()
    hosted = [(driver, report)]
    GroupHost("lake", hosted, RunFolder(folder, clock), clock, lambda: False, None, lag).serve()
    GroupHost("lake", hosted, RunFolder(left, clock), clock, lambda: False).drain(flush=True)
