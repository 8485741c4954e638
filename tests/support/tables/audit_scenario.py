"""A captured MariaDB or MySQL whose topics are kept as lake tables, and audits of these."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from include.audit.merkle.definition import Against, TableAudit
from include.audit.merkle.repair import Repair
from include.audit.merkle.report import TableAuditReport
from include.audit.merkle.run import TablesAudit
from include.clock import SystemClock
from include.lake.tables import tables_spark as tables
from include.lake.tables.delta_log import DeltaLog, storage_options
from include.lake.tables.generation import generation_folder
from include.log.topics import change
from include.settings.connections import Kafka, StoreSettings
from include.settings.deployment import Deployment
from include.settings.secret import revealed
from include.store.s3 import S3Store
from tests.support.background import Background
from tests.support.source.capture_harness import CaptureHarness

__all__ = ["PATIENCE_S", "TableAuditScenario", "captured", "prepare"]

PATIENCE_S = 90.0


class TableAuditScenario:
    """A world whose capture runs, and whose topics are kept as lake tables."""

    def __init__(self, world: CaptureHarness, spark: SparkSession) -> None:
        self.world, self.spark = world, spark

    @property
    def deployment(self) -> Deployment:
        return Deployment.load(self.world.folder / "deployment")

    def audit(self, table: str = "a", against: Against = "topic", repair: str = "", **said: Any) -> TableAuditReport:
        where, of = said.pop("where", ""), said.pop("of", "database")
        told = {"range_rows": 100, "busy_threads": 0, "patience_s": 30, **said}
        audit = TablesAudit(
            self.spark,
            self.deployment,
            TableAudit(source=self.world.name, **told),
            SystemClock(),
            against=against,
            of=of,
            where=where,
            repair=Repair(self.deployment.one("kafka", Kafka), self.world.name, SystemClock(), repair)
            if repair
            else None,
        )
        return audit.run(f"{self.world.name}.{table}")

    def until_labelled(self) -> None:
        """Until the lake's table of `a` can be audited."""
        self.world.wait(lambda: self.audit(against="lake").error == "", PATIENCE_S)

    def lake_log(self, table: str = "a") -> DeltaLog:
        """Of the first generation of a table."""
        store = self.deployment.one("store", StoreSettings)
        folder = generation_folder("tables", self.topic(table), 1)
        log = DeltaLog(f"s3://{store.bucket}/{folder}", storage_options(store), SystemClock())
        assert log.state() is not None
        return log

    def topic(self, table: str = "a") -> str:
        """The change topic of a table."""
        return change(self.world.name, self.world.name, table)

    def edit_lake(self, table: str, column: str, key: int, value: Any) -> None:
        """Put another value into a row of the newest version's file, whose key is `id`, by hand."""
        log = self.lake_log(table)
        state = log.state()
        assert state is not None
        store, folder = self.bucket, generation_folder("tables", self.topic(table), 1)
        for file in (each for files in state.files.values() for each in files):
            place = f"{folder}/{file.path}"
            found = store.get(place)
            assert found is not None
            rows: Any = pq.read_table(io.BytesIO(found.body))  # type: ignore[no-untyped-call]
            at = rows["id"].to_pylist()
            if key in at:
                values = rows[column].to_pylist()
                values[at.index(key)] = value
                names = rows.schema.names
                edited = rows.set_column(names.index(column), rows.schema.field(column), [values])
                out = io.BytesIO()
                pq.write_table(edited, out)  # type: ignore[no-untyped-call]
                store.put(place, out.getvalue())
                return
        raise AssertionError(f"no row {key}")

    @property
    def bucket(self) -> S3Store:
        """The lake's."""
        store = self.deployment.one("store", StoreSettings)
        return S3Store(store.endpoint, store.bucket, str(store.access_key), str(revealed(store.secret_key)))

    def behind_the_log(self, *statements: str) -> None:
        """Changes that capture never hears of."""
        with self.world.server.connect(database=self.world.name) as connection, connection.cursor() as cursor:
            for each in ("SET SESSION sql_log_bin = 0", *statements):
                cursor.execute(each)

    @contextmanager
    def lake(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """The lake's tables are kept while the block runs."""
        run = self.world.folder / "run"
        run.mkdir()
        monkeypatch.setenv("LYREBIRD_RUN", str(run))
        monkeypatch.setenv("LYREBIRD_STATE", str(self.world.folder / "state"))
        with _Keeping(self.deployment):
            try:
                yield
            finally:
                (run / "stop").touch()


class _Keeping(Background):
    """The application of the lake's tables."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__()
        self._deployment = deployment

    def work(self) -> None:
        tables.run("lake_tables", self._deployment, keep_session=True)


@contextmanager
def captured(world: CaptureHarness, limit_s: float = 90) -> Iterator[None]:
    """`limit_s`: how long the first snapshot may take."""
    world.run("run", "--snapshot", limit_s=limit_s)
    process = world.start("run")
    world.wait(lambda: world.sequence() > 0)
    world.wait_until_complete()
    yield
    world.stop(process)


def prepare(world: CaptureHarness, unique: str, folder: Path, s3: Any) -> None:
    world.sql(
        f"CREATE TABLE {unique}.c (k varchar(20) COLLATE utf8mb4_unicode_ci PRIMARY KEY, d double, "
        "e enum('x','y'), j date)",
        f"CREATE TABLE {unique}.none (id int PRIMARY KEY)",
    )
    world.more = ["c", "none"]
    S3Store(s3.endpoint, unique, s3.access_key, s3.secret_key).ensure_bucket()
    more = {
        "store": {
            "endpoint": s3.endpoint,
            "bucket": unique,
            "access_key": s3.access_key,
            "secret_key": s3.secret_key,
        },
        "applications": {"lake_tables": {"entry": "spark_apps/lake_tables.py"}},
        "tables": {
            "copied": {
                "application": "lake_tables",
                "topics": [f"cdc.{unique}.*"],
                "prefix": "tables",
                "buckets": 3,
                "every_s": 0.5,
            }
        },
    }
    (folder / "deployment" / "lake.yaml").write_text(json.dumps(more), "utf-8")
    world.sql(
        f"INSERT INTO {unique}.a SELECT seq, seq % 7, CONCAT('row ', seq), seq / 3, '2026-11-25 03:00:00.5'"
        " FROM seq_1_to_1000",
        f"INSERT INTO {unique}.c SELECT CONCAT('Key', seq), 1 / seq, 1 + seq % 2, '2026-11-25' FROM seq_1_to_300",
    )
