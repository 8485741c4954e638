from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from demo.command import _addresses
from demo.run import _state
from demo.screen import Figures, LiveScreen, PlainScreen, ScreenStage
from include.clock import ManualClock

FIGURES = Figures(
    placed=12,
    orders=40,
    documents=9,
    waiting=3,
    p50_s=1.25,
    p99_s=None,
    stages=(ScreenStage("capture-shop", "running", "03:04:05 UTC", 0.4, None, "17 transactions"),),
)


def test_a_pipe_gets_plain_lines_with_the_time_since_the_start() -> None:
    clock, lines = ManualClock(), list[str]()
    screen = PlainScreen(clock, lines.append)
    clock.advance(2)
    screen.step("the stack starts")
    assert lines == ["[   2.0 s] the stack starts"]


def test_a_pipe_is_not_flooded_with_figures() -> None:
    clock, lines = ManualClock(), list[str]()
    screen = PlainScreen(clock, lines.append)
    for _ in range(10):
        screen.figures(FIGURES)
        clock.advance(1)
    assert len(lines) == 2
    assert "orders 12/40" in lines[0]
    assert "p50 1.25 s, p99 –" in lines[0]


def test_an_application_that_starts_is_not_said_to_be_behind() -> None:
    lines = list[str]()
    starting = ScreenStage("stream-lake", "starting", "–", None, None, "")
    figures = replace(FIGURES, stages=(*FIGURES.stages, starting))
    PlainScreen(ManualClock(), lines.append).figures(figures)
    assert lines[0].endswith("; capture-shop 0.40 s behind, stream-lake starting")


def test_an_application_starts_until_its_session_is_there() -> None:
    assert _state({}) == _state({"lyrebird_cuts_total": 0.0}) == "starting"
    assert _state({"lyrebird_up_seconds": 0.5}) == _state({"lyrebird_lag_seconds": 0.0}) == "running"


def test_a_terminal_shows_each_step_with_its_time_and_each_stage_in_a_row() -> None:
    clock, out = ManualClock(), io.StringIO()
    screen = LiveScreen(clock, Console(file=out, force_terminal=True, width=120))
    screen.step("the stack starts")
    clock.advance(3)
    screen.step("orders")
    screen.figures(FIGURES)
    screen.close()
    shown = out.getvalue()
    assert "the stack starts" in shown
    assert "capture-shop" in shown
    assert "17 transactions" in shown


def test_the_addresses_name_the_file_that_has_the_passwords_of_search_and_mails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    env = {"LYREBIRD_STATE": "/state"}
    for server in ("AIRFLOW", "ELASTICSEARCH", "MAIL"):
        names = {"": f"http://{server}", "_USER": f"user-{server}", "_PASSWORD": f"secret-{server}"}
        env |= {f"LYREBIRD_{server}{name}": value for name, value in names.items()}
    _addresses(env)
    said = capsys.readouterr().out
    for server in ("ELASTICSEARCH", "MAIL"):
        assert f"http://{server}" in said
        assert f"(user user-{server}; password in /state/env)" in said
        assert f"secret-{server}" not in said
