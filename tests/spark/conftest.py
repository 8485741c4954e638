"""One Spark session for all tests of this folder, and a log to read with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from include.clock import SystemClock
from include.local.programs.java import system_java
from include.local.programs.spark_classes import archive_path
from include.log.kafka.log import KafkaAdmin, KafkaWriter
from include.log.planning.plan import BatchPlan, Partition
from include.log.ports import Headers, TopicSpec
from include.log.resolved import ResolvedRecord
from include.log.running import batches_spark
from include.log.running.spark_home import spark_home
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.record.position import SourcePosition
from include.settings.environment import cache_folder


@pytest.fixture(scope="session", autouse=True)
def classes() -> Iterator[None]:
    """Drivers of the tests map the archive of Spark's classes where somebody has made it, as `make demo` does."""
    cache = cache_folder()
    with pytest.MonkeyPatch.context() as patched:
        if (path := archive_path(cache, system_java(), str(spark_home(cache)))).exists():
            patched.setenv("LYREBIRD_SPARK_CLASSES", str(path))
        yield


@pytest.fixture(scope="session")
def spark(classes: None) -> Iterator[SparkSession]:
    found = batches_spark.session(
        "tests", {"spark.master": "local[2]", "spark.driver.memory": "512m", "spark.log.level": "ERROR"}
    )
    yield found
    found.stop()


@dataclass
class Log:
    """Topics of one test on a real broker, with one writer."""

    bootstrap: str
    admin: KafkaAdmin
    writer: KafkaWriter
    made: list[str] = field(default_factory=list)
    sequence: int = 0

    def topic(self, name: str, partitions: int = 1) -> str:
        self.admin.ensure(TopicSpec(name, partitions))
        self.made.append(name)
        return name

    def write(
        self,
        topic: str,
        *values: bytes | None,
        partition: int = 0,
        headers: Headers = (),
        key: bytes | None = b"k",
        commit: bool = True,
    ) -> dict[Partition, int]:
        """One transaction; the next offsets of what it wrote."""
        self.writer.begin()
        for value in values:
            self.writer.append(topic, key, value, partition=partition, headers=headers)
        ends = self.writer.next_offsets()
        if commit:
            self.writer.commit()
        else:
            self.writer.abort()
        return ends

    def resolve(self, topic: str, ends: Mapping[Partition, int], *, full: bool = False) -> int:
        """One resolved record, in a transaction with nothing else; returns its sequence."""
        self.sequence += 1
        at = {"flavour": "mariadb", "gtids": f"0-1-{self.sequence}", "file": "bin.1", "pos": 4, "commit_us": 1}
        record = ResolvedRecord("shop", self.sequence, self.sequence, SourcePosition.from_json(at), ends, full)
        self.write(topic, record.value(), key=record.key)
        return self.sequence


@pytest.fixture
def log(kafka: str, unique: str) -> Iterator[Log]:
    found = Log(kafka, KafkaAdmin(kafka), KafkaWriter(kafka, f"writer-{unique}"))
    yield found
    found.writer.close()
    for topic in found.made:
        found.admin.delete(topic)


OnBatch = Callable[[DataFrame, BatchPlan], Mapping[str, Any] | None]
Runner = Callable[..., Path]


@pytest.fixture
def run_stream(spark: SparkSession, tmp_path: Path) -> Runner:
    """`run_stream(df, on_batch, until=…)` runs a query until `until()` holds after a batch; gives its run folder."""

    def runner(df: DataFrame, on_batch: OnBatch, until: Callable[[], bool], checkpoint: Path | None = None) -> Path:
        folder = tmp_path / f"run-{uuid.uuid4().hex[:6]}"
        folder.mkdir()

        def work(rows: DataFrame, plan: BatchPlan) -> Mapping[str, Any] | None:
            told = on_batch(rows, plan)
            if until():
                (folder / "stop").touch()
            return told

        batches_spark.run(
            df,
            work,
            application="tests",
            run_folder=RunFolder(folder, SystemClock()),
            metrics=Metrics("tests"),
            trigger_s=0.1,
            checkpoint=checkpoint,
            keep_session=True,
        )
        return folder

    return runner
