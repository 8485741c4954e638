"""How far a snapshot is, as a terminal and as a task's log see it."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest
import rich.console

from include.cli.capture import snapshot as capture_snapshot
from include.log.requests.records import Answer

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_a_terminal_gets_a_bar_with_rows_and_total(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    made = rich.console.Console

    def console(**_: Any) -> rich.console.Console:
        return made(file=screen, force_terminal=True, width=100)

    monkeypatch.setattr(rich.console, "Console", console)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with capture_snapshot.waiting(quiet=False) as show:
        show(None)
        show(Answer("id", "running", 0, done=250, total=1_000))
    shown = ANSI.sub("", screen.getvalue())
    assert "waits for capture" in shown
    assert re.search(r"running\s+\S+\s+250/1,000 rows, ", shown)


def test_nothing_is_shown_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with capture_snapshot.waiting(quiet=True) as show:
        show(Answer("id", "running", 0, done=250, total=1_000))
    assert capsys.readouterr().err == ""
