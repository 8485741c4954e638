"""Airflow's own database, cleaned as its DAG does it: a command beside whoever has the file open."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.utils.db import initdb

from include.errors import Transient
from include.settings.airflow_settings import SQLITE_FILE
from supervision.airflow_cleanup import clean, earliest, give_pages_back
from tests.dags.conftest import HOME

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
            for table in ("xcom", "task_instance", "trigger", "log", "dag_run"):
                made.execute(f"DELETE FROM {table}")
            made.execute("PRAGMA journal_mode=WAL")
            self.add(made, "kept_going", "success", [ago(run / RUNS_A_DAY) for run in range(DAYS * RUNS_A_DAY)])
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

    def starts_a_stream(self, days: float) -> None:
        with closing(sqlite3.connect(self.file)) as to, to:
            self.add(to, "stream_app", "running", [ago(days)])

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


def test_where_no_run_runs_age_alone_counts() -> None:
    assert earliest(NOW, (None, None)) == NOW
    assert earliest(NOW, (NOW + timedelta(days=1), None)) == NOW
    assert earliest(NOW, (NOW - timedelta(days=1), NOW - timedelta(days=2))) < NOW - timedelta(days=2)


def test_a_clean_up_that_fails_is_tried_again(metadata: Metadata) -> None:
    with pytest.raises(Transient, match="Airflow's database was not cleaned"):
        clean({"days": "many"})


def test_later_rows_that_go_give_their_pages_back_beside_one_who_reads(metadata: Metadata) -> None:
    give_pages_back(metadata.file)
    before = metadata.size
    with closing(sqlite3.connect(metadata.file)) as writer, writer:
        writer.execute("DELETE FROM log")
    with closing(sqlite3.connect(metadata.file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (0,)
        assert give_pages_back(metadata.file) >= 0
        reader.execute("ROLLBACK")
    with closing(sqlite3.connect(metadata.file)) as asked:
        assert asked.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert give_pages_back(metadata.file) >= 0
    assert metadata.size < 0.8 * before
