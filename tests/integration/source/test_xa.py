"""XA transactions on MariaDB: kept over kills, waited for by snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.source.capture_harness import CaptureHarness, opened
from tests.support.source.xa_cases import commits_after_a_kill, snapshots_wait


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as made:
        yield made


def test_a_prepared_transaction_outlives_kills_of_capture(world: CaptureHarness) -> None:
    commits_after_a_kill(world)


def test_a_snapshot_does_not_lack_a_prepared_transaction(world: CaptureHarness) -> None:
    snapshots_wait(world)
