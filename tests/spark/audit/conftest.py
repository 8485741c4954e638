"""A captured table with its topic, for what compares them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.source.capture_harness import opened
from tests.support.tables.audit_scenario import TableAuditScenario, captured, prepare


@pytest.fixture
def scene(
    unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry_url: str, s3: Any, spark: SparkSession
) -> Iterator[TableAuditScenario]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as world:
        prepare(world, unique, tmp_path, s3)
        with captured(world):
            yield TableAuditScenario(world, spark)
