"""Airflow for these tests: its own home and SQLite database, and the deployment files beside this one.

Airflow reads its environment at its first import and at each look, so these names stand while modules of this folder
are collected and while their tests run; no other test of the same session meets them.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

HERE = Path(__file__).parent
HOME = Path(tempfile.mkdtemp(prefix="lyrebird-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

NAMES = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
    "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps({"conn_type": "smtp", "host": "127.0.0.1", "port": 1}),
    "LYREBIRD_STATE": str(HOME / "state"),
    "LYREBIRD_DEPLOYMENT": str(HERE / "deployment"),
}


@contextlib.contextmanager
def airflow_environment() -> Iterator[None]:
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        del os.environ[name]
    os.environ.update(NAMES)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    if not collector.path.is_relative_to(HERE):
        return (yield)
    with airflow_environment():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    if not item.path.is_relative_to(HERE):
        return (yield)
    with airflow_environment():
        done = yield
    # Guardians outlive their starter by design; those of this test have ended, and are ours to reap.
    for guardian in getattr(sys.modules.get("supervision.launch"), "_started", ()):
        guardian.poll()
    return done
