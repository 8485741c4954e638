"""Airflow for these tests: its own home and SQLite database, and the deployment files beside this one.

Airflow reads its environment at its first import and at each look, so its names stand while modules of this folder
are collected and while their tests run; no other test of the same session meets them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow import airflow_environment

HERE = Path(__file__).parent
HOME = Path(tempfile.mkdtemp(prefix="lyrebird-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

NAMES = airflow_environment(HOME)


@pytest.fixture(autouse=True)
def no_mail_goes_out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mails wait in the outbox of the session: what starts a sender is for the test that asks for it."""
    if "sends_mails" not in request.fixturenames:
        monkeypatch.setattr("supervision.posting._start", lambda *_: None)


@contextlib.contextmanager
def as_airflow_has_it() -> Iterator[None]:
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
    with as_airflow_has_it():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    if not item.path.is_relative_to(HERE):
        return (yield)
    with as_airflow_has_it():
        done = yield
    # Guardians and senders outlive their starter by design; those of this test have ended, and are ours to reap.
    for module in ("supervision.launch", "supervision.posting"):
        for process in getattr(sys.modules.get(module), "_started", ()):
            process.poll()
    return done
