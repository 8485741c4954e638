"""How far a snapshot is, as a terminal and as a task's log see it."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
import rich.console

from include.cli.capture import snapshot as capture_snapshot
from include.clock import ManualClock
from include.log.requests.records import Answer

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_a_log_gets_a_line_every_ten_seconds_with_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock(0)
    show = capture_snapshot._Lines(clock)
    for done in range(0, 36_000, 1_000):
        show(Answer("id", "running", 0, done=done, total=100_000))
        clock.advance(1.0)
    show(None)
    assert capsys.readouterr().err.splitlines() == [
        "running: 10,000 of about 100,000 rows, 1,000 rows/s, about 1 min 30 s left",
        "running: 20,000 of about 100,000 rows, 1,000 rows/s, about 1 min 20 s left",
        "running: 30,000 of about 100,000 rows, 1,000 rows/s, about 1 min 10 s left",
    ]


def test_a_line_without_a_total_says_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock(0)
    show = capture_snapshot._Lines(clock)
    clock.advance(20.0)
    show(Answer("id", "running", 0, done=500))
    assert capsys.readouterr().err == "running: 500 rows, 25 rows/s\n"


def test_a_terminal_gets_a_bar_with_rows_and_total(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    made = rich.console.Console

    def console(**_: Any) -> rich.console.Console:
        return made(file=screen, force_terminal=True, width=100)

    monkeypatch.setattr(rich.console, "Console", console)
    monkeypatch.setattr(capture_snapshot.sys.stderr, "isatty", lambda: True, raising=False)
    with capture_snapshot.waiting(quiet=False) as show:
        show(None)
        show(Answer("id", "running", 0, done=250, total=1_000))
    shown = ANSI.sub("", screen.getvalue())
    assert "waits for capture" in shown
    assert re.search(r"running\s+\S+\s+250/1000\s+rows, ", shown)


def test_nothing_is_shown_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with capture_snapshot.waiting(quiet=True) as show:
        show(Answer("id", "running", 0, done=250, total=1_000))
    assert capsys.readouterr().err == ""
