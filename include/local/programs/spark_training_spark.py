"""Does once what drivers do, so that the JVM archives the classes: `python -m … FILE` writes the archive to FILE."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from include.log.running.batches_spark import session, work_off
from include.log.running.spark_settings import CHECKPOINT, driver_options

__all__ = ["main"]

_BATCHES: Final = 3
_WITHIN_S: Final = 120


class _Numbers(DataSource):
    """A stream that has three numbers more whenever it is asked."""

    @classmethod
    def name(cls) -> str:
        return "training"

    def schema(self) -> str:
        return "number bigint, bytes binary"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's port
        return _NumbersReader()


class _NumbersReader(DataSourceStreamReader):
    def __init__(self) -> None:
        self._end = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's port
        return {"next": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        self._end += 3
        return {"next": self._end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["next"], end["next"])) for _ in range(2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        numbers = list(range(*partition.value))
        yield pa.RecordBatch.from_pydict({"number": numbers, "bytes": [b"a" for _ in numbers]})


def _read(rows: Iterator[Row]) -> None:
    for row in rows:
        assert row.number >= 0  # noqa: S101 - as the source gives them


def main(path: Path) -> None:
    """Run jobs, a shuffle, SQL and a stream; the JVM writes the archive as it ends."""
    spark = session(
        "spark_classes", {"spark.driver.extraJavaOptions": f'{driver_options()} "-XX:ArchiveClassesAtExit={path}"'}
    )
    for name, value in CHECKPOINT.items():
        spark.conf.set(name, value)
    assert sum(work_off(spark, len, [[1], [2, 3]])) == 3  # noqa: S101 - what Spark gives back
    spark.sparkContext.parallelize(range(8), 2).map(lambda n: (n % 2, n)).groupByKey().mapValues(list).collect()
    spark.createDataFrame([(1, "a")], "a int, b string").groupBy("a").count().collect()
    spark.dataSource.register(_Numbers)
    seen: list[int] = []

    def work(rows: DataFrame, batch: int) -> None:
        rows.foreachPartition(_read)
        seen.append(batch)

    with tempfile.TemporaryDirectory() as folder:
        writer = spark.readStream.format("training").load().writeStream.foreachBatch(work)
        query = (
            writer.option("checkpointLocation", Path(folder).as_uri())
            .trigger(processingTime="100 milliseconds")
            .start()
        )
        while query.isActive and len(seen) < _BATCHES:
            query.awaitTermination(1)
        query.stop()
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - the JVM writes the archive when this pipe is closed
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_WITHIN_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
