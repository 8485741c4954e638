"""Workers of a rebuild end with it, whatever they are at."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from include.index.generations.rebuild import processes
from include.index.generations.rebuild.processes import Processes
from tests.endless_range import endless

_WITHIN_S = 60.0


def test_a_rebuild_that_is_left_leaves_no_worker_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "work_off", endless)
    workers = Processes(2)
    place: Any = tmp_path
    for part in ("one", "two"):
        name: Any = part
        workers.submit(place, name)
    found = [pid_in(tmp_path / f"{part}.pid") for part in ("one", "two")]
    workers.close()
    workers.close()
    assert [gone(each) for each in found] == [True, True]


def pid_in(file: Path) -> psutil.Process:
    until_s = time.monotonic() + _WITHIN_S
    while not file.exists() and time.monotonic() < until_s:
        time.sleep(0.05)
    return psutil.Process(int(file.read_text()))


def gone(process: psutil.Process) -> bool:
    try:
        process.wait(_WITHIN_S)
    except psutil.TimeoutExpired:
        return False
    return True
