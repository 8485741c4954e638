"""A network that fails between capture and its server: bytes stop, connections are cut, spoilt, answered by others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.faults.tcp_proxy import TcpProxy
from tests.support.source.capture_harness import CaptureHarness, opened
from tests.support.source.table_writers import TableWriters


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as made:
        made.run("run", "--snapshot")
        yield made


@pytest.fixture
def proxy(mariadb: Any) -> Iterator[TcpProxy]:
    with TcpProxy(mariadb.host, mariadb.port) as made:
        yield made


def goes_on(world: CaptureHarness) -> None:
    before = world.sequence()
    world.wait(lambda: world.sequence() > before + 3)


def test_cuts_silence_and_strangers_lose_and_double_nothing(world: CaptureHarness, proxy: TcpProxy) -> None:
    world.declare(port=proxy.port, silence_s=1.5)
    capture = world.start("run")
    with TableWriters(world):
        for _ in range(3):
            goes_on(world)
            proxy.reset()
        goes_on(world)
        proxy.hold()
        time.sleep(3)
        proxy.reset()
        proxy.release()
        goes_on(world)
        proxy.answer_garbage(True)
        proxy.reset()
        before = proxy.accepted
        world.wait(lambda: proxy.accepted > before + 2)
        proxy.answer_garbage(False)
        goes_on(world)
    world.is_whole()
    world.stop(capture)


def test_a_spoilt_byte_is_found_by_its_checksum_and_read_again(world: CaptureHarness, proxy: TcpProxy) -> None:
    world.declare(port=proxy.port, tls="off")
    capture = world.start("run")
    goes_on(world)
    proxy.spoil(2000)
    values = ", ".join(f"({i}, {i % 5}, '{'x' * 30}', 1, NULL)" for i in range(1, 500))
    world.sql(f"INSERT INTO {world.name}.a VALUES {values}")
    world.is_whole()
    world.running.remove(capture)
    capture.terminate()
    said = capture.communicate(timeout=30)[1]
    assert capture.returncode == 0
    assert "binlog event fails its checksum" in said
