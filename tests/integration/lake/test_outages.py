"""The store fails in every way for some seconds while records are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.lake.hosted_harness import opened
from tests.support.lake.outages import bears_faults


def test_a_store_that_refuses_and_loses_answers_changes_nothing(
    unique: str, tmp_path: Path, kafka: str, s3: Any
) -> None:
    with opened(unique, tmp_path, kafka, s3) as world:
        bears_faults(world, seed=1, seconds=4)
