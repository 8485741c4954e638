"""The checks at the head of each DAG, the command task, and the pages of applications."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.errors import Terminal, Transient
from supervision import first_tasks
from supervision.budget import CrashLoop
from supervision.command import LyrebirdOperator
from supervision.first_tasks import check_replication, check_snapshot
from supervision.pages.applications import applications_page, log_page
from supervision.refusing import refusing
from supervision.run_folder import RunFolder, run_folder

DAG = SimpleNamespace(dag_id="source_replicate")


def EVERY(_dag: str | None) -> bool:
    return True


@pytest.fixture
def source(unique: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(first_tasks, "_capture_status", lambda _source: {"snapshot": "done"})
    return unique


@pytest.fixture
def running(source: str) -> Iterator[RunFolder]:
    """The run folder of a capture that runs for `d|r|t|-1`."""
    folder = run_folder(f"capture-{source}")
    folder.path.mkdir(parents=True)
    lock = os.open(folder.path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    run = {"token": "t", "owner": "d|r|t|-1", "guardian_pid": 1, "pid": 2, "started_us": 0}
    (folder.path / "run.json").write_text(json.dumps(run))
    yield folder
    os.close(lock)


def snapshot(source: str, **params: Any) -> dict[str, Any]:
    return check_snapshot([source], {"source": source, "tables": [], "mode": "auto", **params}, run_id="r1")


def test_without_a_capture_a_snapshot_starts_one(source: str) -> None:
    plan = snapshot(source)
    assert plan["way"] == "start"
    assert plan["application"] == f"capture-{source}"
    assert plan["start"][1:] == ["-m", "include", "capture", "run", "--source", source, "--snapshot"]


def test_with_a_running_capture_a_snapshot_is_a_request_named_by_its_run(source: str, running: RunFolder) -> None:
    plan = snapshot(source)
    assert plan["way"] == "request"
    assert plan["request"][4:7] == ["--id", "source_snapshot:r1", "--wait"]


def test_a_contradiction_fails_the_first_task_at_once(source: str, running: RunFolder) -> None:
    with pytest.raises(AirflowFailException, match="auto"):
        refusing(check_snapshot)([source], {"source": source, "tables": [], "mode": "start"}, run_id="r1")


def test_replication_of_a_source_with_a_snapshot_is_let_through(source: str) -> None:
    asked = check_replication({"source": source, "unless_running": False}, run_id="r1", dag=DAG)
    assert asked["argv"][1:] == ["-m", "include", "capture", "run", "--source", source]


def test_replication_that_already_runs_is_refused_or_skipped_as_asked(source: str, running: RunFolder) -> None:
    with pytest.raises(Terminal, match=r"d\|r\|t\|-1"):
        check_replication({"source": source, "unless_running": False}, run_id="r1", dag=DAG)
    with pytest.raises(AirflowSkipException):
        check_replication({"source": source, "unless_running": True}, run_id="r1", dag=DAG)


def test_a_cleared_run_may_find_its_own_capture_running(source: str, running: RunFolder) -> None:
    run = json.loads((running.path / "run.json").read_text())
    (running.path / "run.json").write_text(json.dumps({**run, "owner": "source_replicate|r1|capture|-1"}))
    assert check_replication({"source": source}, run_id="r1", dag=DAG)["application"] == f"capture-{source}"


def test_a_command_that_fails_gives_its_own_last_line() -> None:
    operator = LyrebirdOperator(task_id="t", arguments=["no-such-command"])
    with pytest.raises(Transient, match="no-such-command"):
        operator.execute({})


def test_a_command_that_refuses_is_not_asked_again() -> None:
    operator = LyrebirdOperator(task_id="t", arguments=["capture", "run", "--source", "nobody", "--anew"])
    with pytest.raises(AirflowFailException, match=r"^--anew and --tables need --snapshot.*--source nobody"):
        operator.execute({})


def test_a_command_that_works_returns_its_last_line() -> None:
    assert LyrebirdOperator(task_id="t", arguments=["--help"]).execute({})


def test_the_pages_show_state_and_log_and_no_live_markup(source: str, running: RunFolder) -> None:
    (running.path / "app.log").write_text("<script>alert(1)</script>\n")
    name = f"capture-{source}"
    assert f">{name}</a><td>running" in applications_page(EVERY)
    page = log_page(name)
    assert '<a href="dags/d/runs/r/tasks/t" target="_top">d.t</a>' in page
    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page


def test_the_pages_show_a_report_as_people_read_it(source: str, running: RunFolder) -> None:
    report = {"at_us": 1_700_000_000_000_000, "ops": {"c": 2, "u": 1}, "skipped": {}, "incidents": [], "lag_s": 0.0}
    (running.path / "progress.json").write_text(json.dumps(report))
    page = applications_page(EVERY)
    words = re.sub("<[^>]+>", "", page)
    assert "at 2023-11-14 22:13:20 UTC ops c 2, u 1 lag_s 0.0" in words
    assert "skipped" not in page


def test_the_pages_show_incidents_with_the_command_to_run_next(source: str, running: RunFolder) -> None:
    incident = {
        "id": "aside:t",
        "kind": "aside",
        "text": "table <t> is set aside",
        "fix": "lyrebird capture resume-table",
    }
    (running.path / "progress.json").write_text(json.dumps({"rows": 3, "incidents": [incident, "no incident"]}))
    page = applications_page(EVERY)
    assert "table &lt;t&gt; is set aside<br><code>lyrebird capture resume-table</code>" in page
    assert "<b>rows</b> 3</span></tr>" in page


@pytest.mark.parametrize("mode", ["auto", "request", "start", "anew"])
def test_a_snapshot_of_a_capture_that_is_down_ends_at_once_with_the_run_to_see_to(
    source: str, running: RunFolder, mode: str
) -> None:
    run = json.loads((running.path / "run.json").read_text())
    (running.path / "run.json").write_text(json.dumps({**run, "pid": None, "start_after_s": 600}))
    with pytest.raises(AirflowFailException, match=r"capture is down.*owner='d\|r\|t\|-1"):
        refusing(check_snapshot)([source], {"source": source, "tables": [], "mode": mode}, run_id="r1")


@pytest.fixture
def dead(source: str) -> RunFolder:
    """The run folder of a capture whose guardian was killed while it waited for the next slow try."""
    folder = run_folder(f"capture-{source}")
    folder.path.mkdir(parents=True)
    owner = "source_replicate|r7|capture|-1"
    run = {"token": "t", "owner": owner, "guardian_pid": 1, "pid": None, "started_us": 0, "start_after_s": 600}
    (folder.path / "run.json").write_text(json.dumps(run))
    folder.note_down(CrashLoop(1, 2, 600), {"id": "down:1"})
    return folder


@pytest.mark.parametrize("mode", ["auto", "request", "start", "anew"])
def test_between_two_slow_tries_no_snapshot_takes_the_place_of_the_capture(
    source: str, dead: RunFolder, mode: str
) -> None:
    with pytest.raises(Terminal, match=r"capture is down.*owner='source_replicate\|r7\|capture"):
        snapshot(source, mode=mode)


@pytest.mark.parametrize("mode", ["auto", "start", "anew"])
def test_once_the_run_of_a_capture_that_was_down_is_marked_a_snapshot_starts_one(
    source: str, dead: RunFolder, mode: str
) -> None:
    # What its guardian has left that was asked to end while it waited.
    (dead.path / "exit.json").write_text(json.dumps({"rc": 0, "why": "asked", "token": "t"}))
    assert snapshot(source, mode=mode)["way"] == "start"


@pytest.mark.parametrize("mode", ["auto", "start", "anew"])
def test_once_the_keeper_has_seen_that_nobody_wants_a_dead_capture_a_snapshot_starts_one(
    source: str, dead: RunFolder, mode: str
) -> None:
    dead.note_down(None)
    assert snapshot(source, mode=mode)["way"] == "start"


def test_a_capture_that_is_down_holds_its_place_and_the_pages_say_how_it_is(source: str, running: RunFolder) -> None:
    run = {"token": "t", "owner": "d|r|t|-1", "guardian_pid": 1, "pid": None, "started_us": 0, "start_after_s": 600}
    (running.path / "run.json").write_text(json.dumps(run))
    running.note_down(CrashLoop(1, 2, 600), {"id": "down:1", "text": "it is down: status 3", "fix": "lyrebird logs"})
    with pytest.raises(Terminal, match="already runs"):
        check_replication({"source": source}, run_id="r2", dag=DAG)
    page = applications_page(EVERY)
    assert '<span class="down">down, tried again later</span>' in page
    assert "it is down: status 3<br><code>lyrebird logs</code>" in page


def test_the_pages_show_why_an_application_gave_up(source: str) -> None:
    folder = run_folder(f"capture-{source}")
    folder.path.mkdir(parents=True)
    gone = {"id": "stopped:1", "kind": "stopped", "text": "the position was purged", "fix": "lyrebird capture check"}
    for name, content in (
        ("exit.json", {"rc": 1, "why": None, "token": "t"}),
        ("gave-up.json", gone),
    ):
        (folder.path / name).write_text(json.dumps(content))
    for report in ({"incidents": [gone]}, {"rows": 3}):
        (folder.path / "progress.json").write_text(json.dumps(report))
        page = applications_page(EVERY)
        assert f'>capture-{source}</a><td><span class="down">gave up' in page
        assert page.count("the position was purged<br><code>lyrebird capture check</code>") == 1
