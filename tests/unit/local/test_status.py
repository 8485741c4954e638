"""What `lyrebird status` says of applications that were started again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from include.cli.stack import status as command
from include.clock import ManualClock
from include.local import status

pytestmark = pytest.mark.unit

DAY_US = 86_400_000_000


def end(rc: int | None, why: str | None = None, *, at_us: int, problem: str | None = None) -> dict[str, Any]:
    return {"token": f"t{at_us}", "rc": rc, "why": why, "problem": problem, "ended_us": at_us}


def ran(state: Path, *exits: dict[str, Any]) -> Path:
    (state / "metrics").mkdir(parents=True)
    note = {"application": "index_orders", "pid": 2**22 + 1, "url": "http://127.0.0.1:1/metrics"}
    (state / "metrics" / "index_orders.json").write_text(json.dumps(note))
    folder = state / "run" / "index_orders"
    folder.mkdir(parents=True)
    (folder / "exits.json").write_text(json.dumps({"exits": exits}))
    return folder


def test_ends_that_nobody_asked_for_are_counted_for_a_day(tmp_path: Path) -> None:
    now_us = 10 * DAY_US
    killed = end(None, at_us=now_us - 2, problem="its guardian was killed")
    ran(
        tmp_path,
        end(-11, at_us=now_us - DAY_US - 1),
        end(-9, at_us=now_us - 5),
        end(0, "asked", at_us=now_us - 4),
        end(0, "stalled", at_us=now_us - 3),
        killed,
    )
    [shown] = status.read(tmp_path, ManualClock(now_us)).applications
    assert (shown.restarts, shown.last_exit) == (3, killed)


def test_one_that_has_ended_and_was_not_started_again_shows_that_end(tmp_path: Path) -> None:
    folder = ran(tmp_path, end(-9, at_us=1))
    (folder / "exit.json").write_text(json.dumps(end(3, at_us=2)))
    [shown] = status.read(tmp_path, ManualClock(3)).applications
    assert shown.restarts == 1
    assert shown.last_exit is not None
    assert shown.last_exit["rc"] == 3


def test_one_that_is_down_shows_when_it_is_tried_again(tmp_path: Path) -> None:
    folder = ran(tmp_path, end(-9, at_us=1))
    (folder / "down.json").write_text(json.dumps({"since_us": 2, "next_us": 1_700_000_000_000_000}))
    [shown] = status.read(tmp_path, ManualClock(3)).applications
    assert shown.error == "it crashes again and again, and is tried again at 2023-11-14T22:13:20Z"
    # Nobody tries it where that is over: Airflow is away, or its DAG paused.
    [shown] = status.read(tmp_path, ManualClock(1_700_000_000_000_001)).applications
    assert shown.error == "its process has ended"


def test_one_that_was_down_and_that_a_person_has_stopped_is_tried_no_more(tmp_path: Path) -> None:
    folder = ran(tmp_path, end(-9, at_us=1))
    (folder / "down.json").write_text(json.dumps({"since_us": 2, "next_us": 1_700_000_000_000_000}))
    (folder / "exit.json").write_text(json.dumps(end(0, "asked", at_us=3)))
    [shown] = status.read(tmp_path, ManualClock(3)).applications
    assert shown.error == "its process has ended"


def test_the_command_shows_restarts_and_the_last_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path))
    ran(tmp_path, end(-9, at_us=1_700_000_000_000_000))
    shown = CliRunner().invoke(command, [])
    assert "signal 9, 2023-11-14T22:13:20Z" in shown.output
    told = json.loads(CliRunner().invoke(command, ["--json"]).output)
    assert told["applications"][0]["last_exit"]["rc"] == -9
