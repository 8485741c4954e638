"""Outages of minutes: the store for half an hour, Kafka and registry for ten minutes, all shortened by `SHORTENED`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.lake.hosted_harness import opened
from tests.support.lake.outages import bears_faults, meets_trouble
from tests.support.log.broker import broker

SHORTENED = 10
STORE_AWAY_S = 1800 / SHORTENED
KAFKA_AWAY_S = REGISTRY_AWAY_S = 600 / SHORTENED


def test_long_outages_are_waited_for_without_a_restart(unique: str, tmp_path: Path, s3: Any, registry_url: str) -> None:
    with broker(tmp_path / "kafka") as kafka, opened(unique, tmp_path, kafka.address, s3) as world:
        meets_trouble(
            world,
            kafka,
            registry_url,
            store_s=STORE_AWAY_S,
            registry_s=REGISTRY_AWAY_S,
            kafka_s=KAFKA_AWAY_S,
        )


@pytest.mark.parametrize("seed", range(2))
def test_a_store_that_fails_all_the_time_slows_down_and_changes_nothing(
    unique: str, tmp_path: Path, kafka: str, s3: Any, seed: int
) -> None:
    with opened(unique, tmp_path, kafka, s3) as world:
        bears_faults(world, seed, seconds=40)
