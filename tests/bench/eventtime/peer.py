"""The offline detector as Spark's own Python transformWithState with event-time timers; a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil

from tests.bench.processes import cpu_by_kind

__all__ = ["peer_cpu_s"]

_BATCHES: Final = 2


def peer_cpu_s(folder: Path, devices: int) -> float:
    """CPU seconds of the second batch, in which each device has a state and a timer that moves."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.bench.eventtime.peer", str(folder), str(devices)]
    with (folder / "log").open("wb") as log:
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **python})
        watched, marks = psutil.Process(process.pid), list[float]()
        while process.poll() is None:
            done = len([*folder.glob("done-*")])
            if done > len(marks):
                marks.append(sum(cpu_by_kind(watched).values()))
                (folder / f"seen-{len(marks) - 1}").touch()
            time.sleep(0.05)
    if process.returncode or len(marks) != _BATCHES:
        raise SystemExit((folder / "log").read_text()[-2_000:])
    return marks[1] - marks[0]


def _main(folder: Path, devices: int) -> None:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    class Offline(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            fields = [StructField("at", LongType()), StructField("timer", LongType())]
            self.seen: Any = handle.getValueState("seen", StructType(fields))

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N803
            at = max(row["at_ms"] for row in rows)
            if self.seen.exists():
                self.handle.deleteTimer(self.seen.get()[1])
            self.handle.registerTimer(at + 1_800_000)
            self.seen.update((at, at + 1_800_000))
            return iter(())

        def handleExpiredTimer(
            self,
            key: Any,
            timerValues: Any,  # noqa: N803
            expiredTimerInfo: Any,  # noqa: N803
        ) -> Iterator[Any]:
            yield Row(device=key[0], status="offline", at=self.seen.get()[0])

        def close(self) -> None:
            pass

    settings = {
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
        "RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    builder: Any = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    (folder / "in").mkdir()
    rows = spark.readStream.schema("device string, at timestamp, at_ms long").option("maxFilesPerTrigger", 1)
    output = StructType(
        [StructField(n, t) for n, t in (("device", StringType()), ("status", StringType()), ("at", LongType()))]
    )
    made = (
        rows.json(str(folder / "in"))
        .withWatermark("at", "5 seconds")
        .groupBy("device")
        .transformWithState(Offline(), output, "Append", "EventTime")
    )

    def on_batch(_: Any, number: int) -> None:
        _.collect()

    query = made.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(folder / "checkpoint")).start()
    begin_ms = 1_700_000_000_000
    for number in range(_BATCHES):
        at_ms = begin_ms + number * 60_000
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000))
        lines = (json.dumps({"device": f"device-{n:08}", "at_ms": at_ms, "at": at}) for n in range(devices))
        part = folder / f"part-{number}.json"
        part.write_text("\n".join(lines))
        part.rename(folder / "in" / part.name)
        query.processAllAvailable()
        (folder / f"done-{number}").touch()
        while not (folder / f"seen-{number}").exists():
            time.sleep(0.05)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
