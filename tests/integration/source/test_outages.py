"""What capture needs goes away for some seconds while rows are written; the longer drills stand in tests/prove."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.faults.tcp_proxy import TcpProxy
from tests.support.log.broker import broker
from tests.support.servers.addresses import moved
from tests.support.source.capture_harness import CaptureHarness, opened
from tests.support.source.outages import (
    ends_where_another_has_its_id,
    outlives_a_full_disk,
    outlives_kafka,
    outlives_the_registry,
)


@pytest.fixture
def registry(registry_url: str) -> Iterator[TcpProxy]:
    found = urlsplit(registry_url)
    assert found.hostname is not None
    assert found.port is not None
    with TcpProxy(found.hostname, found.port) as made:
        yield made


@pytest.fixture
def world(
    unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry: TcpProxy, registry_url: str
) -> Iterator[CaptureHarness]:
    url = moved(registry_url, registry.host, registry.port)
    with opened(unique, tmp_path, mariadb, kafka, url) as made:
        yield made


def test_a_dead_kafka_is_waited_for_and_nothing_is_lost_or_doubled(
    unique: str, tmp_path: Path, mariadb: Any, registry_url: str
) -> None:
    with broker(tmp_path / "kafka") as kafka, opened(unique, tmp_path, mariadb, kafka.address, registry_url) as world:
        outlives_kafka(world, kafka, 8)


def test_a_dead_registry_is_waited_for_at_the_start_and_at_new_schemas(
    world: CaptureHarness, registry: TcpProxy
) -> None:
    outlives_the_registry(world, registry)


def test_room_on_disk_is_waited_for_and_nothing_is_lost_or_doubled(world: CaptureHarness) -> None:
    outlives_a_full_disk(world)


def test_another_replica_with_its_server_id_ends_capture_and_costs_nothing(world: CaptureHarness) -> None:
    ends_where_another_has_its_id(world)
