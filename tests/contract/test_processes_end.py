"""Processes of a pool end with whoever has them, whatever they are at."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from include.log.running.processes import Processes
from tests.support.index.endless_rebuild import endless

_WITHIN_S = 60.0


def test_who_leaves_its_processes_leaves_none_behind(tmp_path: Path) -> None:
    workers = Processes(2)
    for part in ("one", "two"):
        workers.submit(endless, tmp_path, [part])
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
