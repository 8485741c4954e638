"""How far a long work is, as a task's log sees it; a terminal's bar is looked at with the snapshot's."""

from __future__ import annotations

import pytest

from include.cli.progress_bar import LogLines, progress_bar
from include.clock import ManualClock


def test_a_log_gets_a_line_every_ten_seconds_with_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock(0)
    lines = LogLines(clock, unit="rows", estimated=True)
    lines.begin("waits")
    for done in range(0, 36_000, 1_000):
        lines.reach(done, 100_000, "running")
        clock.advance(1.0)
    assert capsys.readouterr().err.splitlines() == [
        "running: 10,000 of about 100,000 rows, 1,000 rows/s, about 1 min 30 s left",
        "running: 20,000 of about 100,000 rows, 1,000 rows/s, about 1 min 20 s left",
        "running: 30,000 of about 100,000 rows, 1,000 rows/s, about 1 min 10 s left",
    ]


def test_a_line_without_a_total_says_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock(0)
    lines = LogLines(clock, unit="rows")
    lines.begin("running")
    clock.advance(20.0)
    lines.reach(500)
    assert capsys.readouterr().err == "running: 500 rows, 25 rows/s\n"


def test_another_part_counts_anew(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    lines = LogLines(clock)
    lines.begin("raw: commits", 3)
    lines.advance(3)
    lines.begin("raw: bytes", 5000)
    for _ in range(4):
        clock.advance(4)
        lines.advance(1000)
    assert capsys.readouterr().err == "raw: bytes: 3,000 of 5,000, 250/s, about 8 s left\n"


def test_nothing_is_shown_beside_json(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("rows", 5, quiet=True) as bar:
        bar.begin("more", 7)
        bar.advance()
        bar.reach(7, 7)
    assert capsys.readouterr().err == ""
