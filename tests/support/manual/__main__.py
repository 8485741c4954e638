"""Writes the pages: `python -m tests.support.manual`. That of DAGs needs Airflow, whose home is made and removed."""

from __future__ import annotations

import json
import os
import tempfile

from tests.support.manual import commands, dag_pages, deployment_reference, incidents, metrics
from tests.support.paths import ROOT

DOCS = ROOT / "docs"


def dags_page() -> str:
    """The page of DAGs, by the deployment that the DAGs' tests have."""
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(
            AIRFLOW_HOME=home,
            AIRFLOW__CORE__UNIT_TEST_MODE="True",
            AIRFLOW__CORE__LOAD_EXAMPLES="False",
            AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
            AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
            AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{home}/airflow.db",
            AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": "local[2]"}),
            LYREBIRD_STATE=f"{home}/state",
            LYREBIRD_DEPLOYMENT=str(ROOT / "tests" / "dags" / "deployment"),
        )
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag()
        if bag.import_errors:
            raise SystemExit(f"error: {bag.import_errors}")
        return dag_pages.page(bag.dags.values())


if __name__ == "__main__":
    for name, text in (
        ("deployment-reference", deployment_reference.page()),
        ("cli", commands.page()),
        ("metrics", metrics.page()),
        ("incidents", incidents.page()),
        ("dags", dags_page()),
    ):
        (DOCS / f"{name}.md").write_text(text, "utf-8")
        print(DOCS / f"{name}.md")
