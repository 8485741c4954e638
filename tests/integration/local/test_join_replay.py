"""The application of a replay: what is said when it ends by itself, and that nothing is left of it."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from include.clock import SystemClock
from include.errors import Terminal
from include.local.join_replay import _Application


def test_an_application_that_ends_is_told_of_with_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("joins: {}")
    application = _Application(tmp_path / "state", tmp_path, {}, SystemClock())
    with pytest.raises(Terminal) as ended, application.running():
        application.await_batch(0, lambda: True)
    assert ended.value.details["exit_code"] == 1
    assert "error: the application hosts no join" in ended.value.details["log"]
    assert "--engine python" in ended.value.fix
    with pytest.raises(Terminal, match="the application has ended"):
        application.require_clean_end()


def test_an_application_that_is_left_by_an_error_is_ended(tmp_path: Path) -> None:
    application = _Application(tmp_path / "state", tmp_path, {"LYREBIRD_REPLAYED": str(tmp_path)}, SystemClock())

    def interrupted() -> None:
        with application.running():
            while len(_of(tmp_path)) < 2:
                pass
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert _of(tmp_path) == []


def _of(folder: Path) -> list[int]:
    """The guardian, and the application once it is there."""
    found = []
    for process in psutil.process_iter():
        try:
            named = process.environ().get("LYREBIRD_REPLAYED") == str(folder)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if named and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found
