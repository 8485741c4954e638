"""Markers from folders, and the real servers that contract and integration tests talk to.

With LYREBIRD_TEST_ENV=<file of KEY=VALUE lines> the servers named there are used; otherwise the one-machine stack
is started on free ports in a temporary folder, service by service as tests ask for them, and stopped at the end.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support.servers import addresses
from tests.support.skips import refuse, skip_uncompiled

# Machines are shared: how long an example takes says nothing. A test as a whole has its limit, below.
hypothesis.settings.register_profile("shared", deadline=None)
hypothesis.settings.load_profile("shared")

TESTS = Path(__file__).parent
FOLDERS = ("unit", "contract", "spark", "dags", "integration", "e2e", "prove")
# Time limits by kind, in seconds: a test that needs more is broken or in the wrong folder.
LIMITS = {"unit": 20, "contract": 120, "spark": 180, "dags": 120, "integration": 240, "e2e": 900, "prove": 3600}

Endpoints = dict[str, str]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Measured for coverage, some loops take twice as long.
    factor = 2 if "slipcover" in sys.modules else 1
    for item in items:
        skip_uncompiled(item)
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in FOLDERS:
            item.add_marker(getattr(pytest.mark, folder))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(factor * LIMITS[folder]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse(report)
    return report


@dataclass(frozen=True)
class Database:
    host: str
    port: int
    root_password: str

    def connect(self, user: str = "root", password: str | None = None, database: str | None = None, **more: Any) -> Any:
        import pymysql

        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=user,
            password=self.root_password if password is None else password,
            database=database,
            autocommit=True,
            **more,
        )


@dataclass(frozen=True)
class Bucket:
    endpoint: str
    access_key: str
    secret_key: str


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Endpoints]]:
    """`services("kafka", "registry")` -> LYREBIRD_* values of servers that are ready."""
    given = os.environ.get("LYREBIRD_TEST_ENV")
    if given:
        lines = Path(given).read_text(encoding="utf-8").splitlines()
        found = dict(line.split("=", 1) for line in lines if "=" in line)
        yield lambda *_names: found
        return
    from include.local.stack import Stack

    stack = Stack(state=tmp_path_factory.mktemp("stack"), free_ports=True, kafka_login=False)
    try:
        yield lambda *names: stack.up(list(names))
    finally:
        stack.down()


@pytest.fixture
def unique() -> str:
    """A name that no other test has: letters and digits."""
    return "t" + uuid.uuid4().hex[:10]


@pytest.fixture(scope="session")
def kafka(services: Callable[..., Endpoints]) -> str:
    env = services("kafka")
    assert not env.get("LYREBIRD_KAFKA_USER"), "tests hand on its address alone: name a Kafka that asks for no login"
    return env["LYREBIRD_KAFKA"]


@pytest.fixture(scope="session")
def registry_url(services: Callable[..., Endpoints]) -> str:
    return addresses.registry_url(services("registry"))


@pytest.fixture(scope="session")
def elasticsearch_url(services: Callable[..., Endpoints]) -> str:
    return addresses.elasticsearch_url(services("elasticsearch"))


@pytest.fixture(scope="session")
def mariadb(services: Callable[..., Endpoints]) -> Database:
    env = services("mariadb")
    return Database(
        env["LYREBIRD_MYSQL_HOST"], int(env["LYREBIRD_MYSQL_PORT"]), env.get("LYREBIRD_MYSQL_ROOT_PASSWORD", "")
    )


@pytest.fixture(scope="session")
def s3(services: Callable[..., Endpoints]) -> Bucket:
    env = services("s3")
    return Bucket(env["LYREBIRD_S3"], env["LYREBIRD_S3_ACCESS_KEY"], env["LYREBIRD_S3_SECRET_KEY"])
