"""docs/dags.md is what the DAGs say of themselves."""

from __future__ import annotations

from airflow.dag_processing.dagbag import DagBag

from tests.support.manual import dag_pages
from tests.support.manual.references import ROOT


def test_the_page_of_dags_is_up_to_date() -> None:
    assert (ROOT / "docs" / "dags.md").read_text("utf-8") == dag_pages.page(DagBag().dags.values()), "run `make manual`"
