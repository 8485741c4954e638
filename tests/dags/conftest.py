"""Airflow for tests: its own home and SQLite database, set before the first import of airflow; our own deployment."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOME = Path(tempfile.mkdtemp(prefix="lyrebird-airflow-"))

for name in list(os.environ):
    if name.startswith(("AIRFLOW", "LYREBIRD_")) and name != "LYREBIRD_TEST_ENV":
        del os.environ[name]
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
    "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps({"conn_type": "smtp", "host": "127.0.0.1", "port": 1}),
    "LYREBIRD_STATE": str(HOME / "state"),
    "LYREBIRD_DEPLOYMENT": str(Path(__file__).parent / "deployment"),
}
