"""Airflow's environment in tests: a home and SQLite database of their own, and the deployment of the DAGs' tests."""

from __future__ import annotations

import json
from pathlib import Path

from include.settings.airflow_settings import SQLITE_FILE
from tests.support.paths import ROOT

__all__ = ["airflow_environment"]


def airflow_environment(home: Path) -> dict[str, str]:
    """The variables; Airflow reads them at its first import and at each look."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        SQLITE_FILE: f"{home}/airflow.db",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps({"conn_type": "smtp", "host": "127.0.0.1", "port": 1}),
        "LYREBIRD_STATE": str(home / "state"),
        "LYREBIRD_DEPLOYMENT": str(ROOT / "tests" / "dags" / "deployment"),
    }
