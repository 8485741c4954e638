"""What the local stack writes into Airflow's database at its first start, and never again."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from include.local.recipes import airflow


def pools(home: Path) -> dict[str, int]:
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        return dict(database.execute("SELECT pool, slots FROM slot_pool"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "airflow").mkdir()
    return tmp_path / "airflow"


def migrate(home: Path, pool: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    names = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "LYREBIRD_SPARK_MASTER": "local[2]",
        "LYREBIRD_JOBS_POOL": pool,
    }
    airflow._migrate(home, {**environment, **names})


# Three starts of Airflow.
@pytest.mark.timeout(240)
def test_a_stack_gets_the_pool_that_it_names_and_a_person_s_number_of_slots_stays(home: Path) -> None:
    migrate(home, "lyrebird_jobs")
    assert 0 < pools(home)["lyrebird_jobs"] < airflow._WORKERS
    with closing(sqlite3.connect(home / "airflow.db")) as database, database:
        database.execute("UPDATE slot_pool SET slots = 7 WHERE pool = 'lyrebird_jobs'")
    migrate(home, "other")
    assert 0 < pools(home)["other"] < airflow._WORKERS
    migrate(home, "lyrebird_jobs")
    assert pools(home)["lyrebird_jobs"] == 7
