"""A shop whose documents are assembled, and the audit that compares them with its database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.audit.documents.report import DocumentsReport
from include.audit.documents.run import DocumentsAudit
from include.clock import SystemClock
from include.document.definition import definitions
from include.settings.deployment import Deployment
from tests.support.documents.shop import DocumentShop, document_shop

__all__ = ["audit", "place"]


@pytest.fixture
def place(unique: str, mariadb: Any, kafka: str, registry_url: str, tmp_path: Path) -> Iterator[DocumentShop]:
    with document_shop(unique, mariadb, kafka, registry_url, tmp_path) as made:
        yield made


def audit(place: DocumentShop, spark: SparkSession, **said: Any) -> DocumentsReport:
    deployment = Deployment.load(place.folder / "deployment")
    definition = definitions(deployment)[place.topic]
    return DocumentsAudit(spark, deployment, place.topic, definition, SystemClock(), patience_s=60, **said).run()
