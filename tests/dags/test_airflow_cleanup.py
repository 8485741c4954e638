"""Airflow's own database, cleaned as its DAG does it: a command beside whoever has the file open."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.utils.db import initdb

from include.clock import SystemClock
from include.errors import Transient
from include.settings.airflow_settings import SQLITE_FILE
from supervision.airflow_cleanup import RunningRun, clean, give_pages_back, oldest_to_keep
from tests.dags.conftest import HOME

CLOCK = SystemClock()
DAYS = 60
# The keeper's real ones are ten times as many.
RUNS_A_DAY = 72
NOW = datetime.now(UTC).replace(tzinfo=None)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat(sep=" ")


class Metadata:
    """A file like Airflow's, with two months of the keeper in it."""

    def __init__(self, file: Path, like: Path) -> None:
        self.file = file
        with closing(sqlite3.connect(like)) as empty, closing(sqlite3.connect(file)) as made:
            empty.backup(made)
            # Other tests have runs of theirs in it.
            for table in ("xcom", "task_instance", "trigger", "log", "dag_run", "dag"):
                made.execute(f"DELETE FROM {table}")
            made.commit()
            made.execute("PRAGMA journal_mode=WAL")
            made.execute("PRAGMA auto_vacuum=2")
            made.execute("VACUUM")
            self.add(made, "kept_going", "success", [ago(run / RUNS_A_DAY) for run in range(DAYS * RUNS_A_DAY)])
            made.execute("INSERT OR IGNORE INTO dag_bundle (name, active) VALUES ('dags-folder', 1)")
            made.commit()

    def add(self, to: sqlite3.Connection, dag: str, state: str, times: list[str]) -> None:
        """Runs with a task each, its result, and what the audit log has of it."""
        for time in times:
            run = f"scheduled__{time}"
            to.execute(
                "INSERT INTO dag_run (dag_id, run_id, run_type, state, start_date, run_after, clear_number,"
                " span_status) VALUES (?, ?, 'scheduled', ?, ?, ?, 0, '')",
                (dag, run, state, time, time),
            )
            trigger = None
            if state == "running":
                statement = "INSERT INTO trigger (classpath, kwargs, created_date) VALUES ('a.B', '{}', ?)"
                trigger = to.execute(statement, (time,)).lastrowid
            to.execute(
                "INSERT INTO task_instance (id, task_id, dag_id, run_id, start_date, state, try_number, pool,"
                " pool_slots, executor_config, span_status, trigger_id)"
                " VALUES (lower(hex(randomblob(16))), 'run', ?, ?, ?, ?, 1, 'p', 1, zeroblob(400), '', ?)",
                (dag, run, time, "deferred" if trigger else state, trigger),
            )
            to.execute(
                "INSERT INTO xcom (dag_run_id, task_id, key, dag_id, run_id, value, timestamp)"
                " SELECT id, 'run', 'return_value', dag_id, run_id, '[]', start_date FROM dag_run"
                " WHERE dag_id = ? AND run_id = ?",
                (dag, run),
            )
            for event in ("running", "success"):
                extra = "x" * 200
                to.execute(
                    "INSERT INTO log (dttm, dag_id, run_id, event, extra) VALUES (?, ?, ?, ?, ?)",
                    (time, dag, run, event, extra),
                )

    def starts_a_stream(self, days: float, *, dag: str = "stream_app", gone_days: float = 0) -> None:
        """`gone_days`: so long its DAG has not been in the deployment; infinite: the database has no such DAG."""
        with closing(sqlite3.connect(self.file)) as to, to:
            self.add(to, dag, "running", [ago(days)])
            if gone_days < DAYS:
                row = {"dag_id": dag, "is_stale": gone_days > 0, "last_parsed_time": ago(gone_days)}
                row |= {"is_paused": 0, "bundle_name": "dags-folder", "max_active_tasks": 1, "timetable_type": ""}
                row |= {
                    "max_consecutive_failed_dag_runs": 0,
                    "has_task_concurrency_limits": 0,
                    "partition_mapper_info": "[]",
                }
                self.insert_dag(to, row)

    @staticmethod
    def insert_dag(to: sqlite3.Connection, row: dict[str, object]) -> None:
        to.execute(f"INSERT INTO dag ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))

    def count(self, table: str, where: str = "1") -> int:
        with closing(sqlite3.connect(self.file)) as asked:
            return int(asked.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0])

    def has_the_stream(self) -> bool:
        """Its run, its task that waits, and the trigger of that."""
        joined = "dag_run JOIN task_instance USING (dag_id, run_id) JOIN trigger ON trigger.id = trigger_id"
        return self.count(joined, "dag_id = 'stream_app'") == 1 and self.count("xcom", "dag_id = 'stream_app'") == 1

    @property
    def size(self) -> int:
        return self.file.stat().st_size


@pytest.fixture(scope="module")
def empty() -> Path:
    initdb()
    return HOME / "airflow.db"


@pytest.fixture
def metadata(tmp_path: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> Metadata:
    made = Metadata(tmp_path / "airflow.db", empty)
    monkeypatch.setenv(SQLITE_FILE, str(made.file))
    # As a task of Airflow finds it.
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "airflow-db-not-allowed:///")
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    return made


@pytest.mark.timeout(400)
def test_two_months_of_the_keeper_become_one_and_a_stream_that_runs_stays(
    metadata: Metadata, caplog: pytest.LogCaptureFixture
) -> None:
    metadata.starts_a_stream(days=5)
    before = metadata.size
    # As Airflow's processes have it open.
    with closing(sqlite3.connect(metadata.file)) as scheduler, caplog.at_level("INFO"):
        assert scheduler.execute("SELECT count(*) FROM dag_run").fetchone() == (DAYS * RUNS_A_DAY + 1,)
        clean({"days": 30})
        scheduler.execute("UPDATE dag_run SET updated_at = run_after WHERE dag_id = 'kept_going'")
    assert metadata.has_the_stream()
    kept = 30 * RUNS_A_DAY
    for table, each in (("dag_run", 1), ("task_instance", 1), ("xcom", 1), ("log", 2)):
        assert metadata.count(table, "dag_id = 'kept_going'") in (each * kept, each * (kept + 1)), table
    assert metadata.size < 0.6 * before
    assert metadata.count("sqlite_master", "name LIKE '_airflow_deleted%'") == 0
    assert "kept are runs since" in caplog.text


@pytest.mark.timeout(400)
def test_a_run_that_runs_stays_however_old_it_is_and_holds_up_nothing_but_runs_since(metadata: Metadata) -> None:
    metadata.starts_a_stream(days=40)
    clean({"days": 30})
    assert metadata.has_the_stream()
    assert metadata.count("dag_run", "dag_id = 'kept_going'") in (40 * RUNS_A_DAY, 40 * RUNS_A_DAY + 1)
    assert metadata.count("log", "dag_id = 'kept_going'") in (60 * RUNS_A_DAY, 60 * RUNS_A_DAY + 2)


@pytest.mark.timeout(400)
def test_runs_that_run_without_their_dag_hold_nothing_back_and_are_told(
    metadata: Metadata, caplog: pytest.LogCaptureFixture
) -> None:
    metadata.starts_a_stream(days=50, dag="stream_gone", gone_days=20)
    metadata.starts_a_stream(days=50, dag="stream_unknown", gone_days=float("inf"))
    metadata.starts_a_stream(days=40)
    with caplog.at_level("INFO"):
        clean({"days": 30})
    assert metadata.has_the_stream()
    assert metadata.count("dag_run", "dag_id = 'kept_going'") in (40 * RUNS_A_DAY, 40 * RUNS_A_DAY + 1)
    assert metadata.count("task_instance", "dag_id IN ('stream_gone', 'stream_unknown')") == 0
    assert "where their DAG is gone: stream_gone, stream_unknown" in caplog.text


def oldest(*running: RunningRun) -> tuple[datetime, list[str]]:
    return oldest_to_keep(NOW - timedelta(days=30), running, NOW)


def test_where_no_run_runs_age_alone_counts() -> None:
    for began in ((None, None), (NOW - timedelta(days=29), None)):
        assert oldest(RunningRun("a", began, read=NOW)) == (NOW - timedelta(days=30), [])
    since, left = oldest(RunningRun("a", (NOW - timedelta(days=31), NOW - timedelta(days=32)), read=NOW))
    assert NOW - timedelta(days=33) < since < NOW - timedelta(days=32)
    assert left == []


def test_a_dag_that_is_missing_for_a_while_loses_no_run() -> None:
    began = (NOW - timedelta(days=40), None)
    broken = RunningRun("a", began, stale=True, read=NOW - timedelta(days=6))
    gone = RunningRun("b", began, stale=True, read=NOW - timedelta(days=8))
    nobody_reads = RunningRun("c", began, stale=False, read=NOW - timedelta(days=8))
    young = RunningRun("d", (NOW, NOW), stale=True, read=NOW - timedelta(days=8))
    for kept in (broken, nobody_reads):
        since, left = oldest(kept, gone, young)
        assert since < NOW - timedelta(days=40)
        assert left == ["b"]
    assert oldest(gone, young) == (NOW - timedelta(days=30), ["b"])


def test_a_clean_up_that_fails_is_tried_again(metadata: Metadata) -> None:
    with pytest.raises(Transient, match="Airflow's database was not cleaned"):
        clean({"days": "many"})


def test_later_rows_that_go_give_their_pages_back_beside_one_who_reads(metadata: Metadata) -> None:
    before = metadata.size
    with closing(sqlite3.connect(metadata.file)) as writer, writer:
        writer.execute("DELETE FROM log")
    with closing(sqlite3.connect(metadata.file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (0,)
        assert give_pages_back(metadata.file, CLOCK) is not None
        reader.execute("ROLLBACK")
    with closing(sqlite3.connect(metadata.file)) as asked:
        assert asked.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert give_pages_back(metadata.file, CLOCK) is not None
    assert metadata.size < 0.8 * before


@pytest.mark.timeout(400)
def test_an_old_file_is_not_copied_beside_those_that_write_and_the_log_says_what_lets_it_get_smaller(
    metadata: Metadata, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(metadata.file, isolation_level=None)) as older:
        for statement in ("PRAGMA auto_vacuum=0", "VACUUM"):
            older.execute(statement)
    with caplog.at_level("INFO"):
        clean({"days": 30})
    with closing(sqlite3.connect(metadata.file)) as asked:
        assert asked.execute("PRAGMA auto_vacuum").fetchone() == (0,)
        assert asked.execute("PRAGMA freelist_count").fetchone() > (0,)
    assert metadata.count("dag_run", "dag_id = 'kept_going'") in (30 * RUNS_A_DAY, 30 * RUNS_A_DAY + 1)
    assert "the file stays as large as it is" in caplog.text
    assert "lyrebird down, then lyrebird up" in caplog.text
    assert "free room of twice its size" in caplog.text
