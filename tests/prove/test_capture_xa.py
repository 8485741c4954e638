"""XA transactions on every server that logs them when they are prepared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import CaptureHarness, opened
from tests.support.source.xa_cases import commits_after_a_kill, snapshots_wait

__all__ = ["server"]


@pytest.fixture(params=["mariadb-10.11", "mariadb-11.8", "mysql-9.7"])
def world(
    request: pytest.FixtureRequest, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, server(request.param), kafka, registry_url) as made:
        yield made


def test_a_prepared_transaction_outlives_kills_of_capture(world: CaptureHarness) -> None:
    commits_after_a_kill(world)


def test_a_snapshot_does_not_lack_a_prepared_transaction(world: CaptureHarness) -> None:
    snapshots_wait(world)
