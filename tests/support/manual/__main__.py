"""Writes the pages: `python -m tests.support.manual`. That of DAGs needs Airflow, whose home is made and removed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.support.airflow import airflow_environment
from tests.support.manual import commands, dag_pages, deployment_reference, incidents, metrics
from tests.support.paths import ROOT

DOCS = ROOT / "docs"


def dags_page() -> str:
    """The page of DAGs, by the deployment that the DAGs' tests have."""
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(airflow_environment(Path(home)))
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
