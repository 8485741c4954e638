"""The keeper, over run folders and what Airflow says of runs; Airflow's own clean-up over a stream that runs."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest

from include.outbox.folder import outbox
from include.settings.deployment import Deployment
from supervision.budget import CrashLoop
from supervision.keeper import KeptApplication, kept_applications, look_after
from supervision.run_folder import RunFolder, run_folder

ALERTS = {"from": "lyrebird@localhost", "to": ["on-call@localhost"]}


class Airflow:
    """What its api-server tells a task of runs and DAGs."""

    def __init__(self, **runs: str) -> None:
        self.runs = runs
        self.paused = False
        self.taken: set[tuple[str, str]] = set()

    def get_dr_count(self, _dag: str, run_ids: list[str], states: list[str] | None = None) -> int:
        found = [self.runs[run] for run in run_ids if run in self.runs]
        return len([state for state in found if states is None or state in states])

    def get_ti_count(self, _dag: str, run_ids: list[str], task_ids: list[str]) -> int:
        return len([run for run in run_ids for task in task_ids if run in self.runs and (run, task) not in self.taken])

    def get_dag(self, _dag: str) -> Any:
        return SimpleNamespace(is_paused=self.paused)


class Scene:
    """One application, as its guardian and its runs have left it."""

    def __init__(self, application: str, dag: str) -> None:
        self.folder: RunFolder = run_folder(application)
        self.kept = KeptApplication(application, dag, "run", {"a": 1})
        self.folder.path.mkdir(parents=True)
        self._lock = os.open(self.folder.path / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.write("run.json", token="t1", owner=f"{dag}|r1|run|-1", guardian_pid=os.getpid(), pid=1, started_us=0)
        (self.folder.path / "lease").touch()
        os.utime(self.folder.path / "lease", (0, 0))

    def write(self, name: str, **content: Any) -> None:
        (self.folder.path / name).write_text(json.dumps(content))

    def ends(self, **how: Any) -> None:
        if how:
            self.write("exit.json", token="t1", **how)
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def look(self, airflow: Airflow) -> list[dict[str, Any]]:
        return look_after([asdict(self.kept)], ALERTS, ti=airflow)

    @property
    def lease_renewed(self) -> bool:
        return (self.folder.path / "lease").stat().st_mtime > 0

    @property
    def owner(self) -> str:
        run = self.folder.observe().run
        assert run is not None
        return run.owner

    def has_run(self, for_s: int) -> int:
        """With progress until now, which is returned in microseconds."""
        now_us = time.time_ns() // 1000
        run = json.loads((self.folder.path / "run.json").read_text())
        self.write("run.json", **{**run, "started_us": now_us - for_s * 1_000_000})
        self.write("progress.json")
        return now_us

    def close(self) -> None:
        os.close(self._lock)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path))
    made = Scene("app", "stream_app")
    yield made
    made.close()


TAKES_OVER = "keeper__t1_127f5473"
START = {"trigger_dag_id": "stream_app", "trigger_run_id": TAKES_OVER, "conf": {"a": 1}}


def test_it_keeps_streams_and_captures_of_the_deployment_files() -> None:
    kept = {each.application: (each.dag, each.task, each.conf) for each in kept_applications(Deployment.load())}
    assert kept["index_orders"] == ("stream_index_orders", "run", {})
    assert kept["capture-shop"] == ("source_replicate", "capture", {"source": "shop"})


def test_where_all_is_well_it_renews_the_lease_alone(scene: Scene) -> None:
    assert scene.look(Airflow(r1="running")) == []
    assert scene.lease_renewed


def test_a_new_run_that_waits_for_its_turn_loses_nothing(scene: Scene) -> None:
    scene.folder.hand_over("t1", "stream_app|r2|run|-1")
    os.utime(scene.folder.path / "lease", (0, 0))
    assert scene.look(Airflow(r2="queued")) == []
    assert scene.lease_renewed


def test_an_application_whose_run_was_cleaned_away_goes_on_under_a_new_one(scene: Scene) -> None:
    assert scene.look(Airflow()) == [START]
    assert scene.owner == f"stream_app|{TAKES_OVER}|run|-1"
    assert scene.lease_renewed
    # The next look finds the new run; one that is lost, too, is followed by another.
    assert scene.look(Airflow(**{TAKES_OVER: "queued"})) == []
    assert scene.look(Airflow()) == []
    os.utime(scene.folder.path / "owner.json", (0, 0))
    [another] = scene.look(Airflow())
    assert another["trigger_run_id"] not in (TAKES_OVER, "r1")


def test_an_incident_is_told_though_no_trigger_watches(scene: Scene, tmp_path: Path) -> None:
    incident = {"id": "aside:1", "kind": "aside", "text": "a table is set aside", "fix": "lyrebird capture status"}
    scene.write("progress.json", incidents=[incident])
    scene.look(Airflow(r1="queued"))
    scene.look(Airflow(r1="queued"))
    (name,) = outbox(tmp_path).waiting()
    assert outbox(tmp_path).letter(name).subject == "[lyrebird] INCIDENT aside: a table is set aside"


@pytest.mark.parametrize("how", [{"rc": 0, "why": "lease expired"}, {"rc": -9, "why": None}, {}])
def test_one_that_has_stopped_since_is_started(scene: Scene, how: dict[str, Any]) -> None:
    scene.ends(**how)
    assert scene.look(Airflow()) == [START]
    assert scene.owner == "stream_app|r1|run|-1"


@pytest.mark.parametrize(
    ("how", "runs"),
    [
        ({"rc": 0, "why": "asked"}, {"r1": "success"}),
        ({"rc": 0, "why": "asked"}, {}),
        ({"rc": 0, "why": None}, {}),
        ({"rc": 1, "why": None}, {"r1": "failed"}),
        ({"rc": 1, "why": None}, {"r1": "running"}),
        ({"rc": 0, "why": "lease expired"}, {"r1": "success"}),
    ],
)
def test_one_that_a_person_has_stopped_or_is_to_mend_is_left(
    scene: Scene, how: dict[str, Any], runs: dict[str, str]
) -> None:
    scene.ends(**how)
    assert scene.look(Airflow(**runs)) == []


def test_one_that_drains_is_left_to_its_end(scene: Scene) -> None:
    scene.write("stop", why="asked")
    assert scene.look(Airflow()) == []
    assert not scene.lease_renewed


def test_one_that_was_marked_is_fenced_by_its_lease_where_nobody_heard_of_it(scene: Scene) -> None:
    assert scene.look(Airflow(r1="failed")) == []
    assert not scene.lease_renewed


def test_a_capture_of_a_snapshot_or_by_hand_is_none_of_its_business(scene: Scene) -> None:
    scene.write("run.json", token="t1", owner="source_snapshot|r1|start|-1", guardian_pid=1, pid=1, started_us=0)
    assert scene.look(Airflow()) == []


def test_what_nobody_has_started_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path))
    assert look_after([asdict(KeptApplication("app", "stream_app", "run", {}))], ALERTS, ti=Airflow()) == []


@pytest.mark.parametrize("runs", [{"r1": "running"}, {}])
def test_a_paused_dag_of_what_shall_run_is_mailed_once_a_day(
    scene: Scene, tmp_path: Path, runs: dict[str, str]
) -> None:
    airflow = Airflow(**runs)
    airflow.paused = True
    for _ in range(3):
        assert scene.look(airflow) == []
    (name,) = outbox(tmp_path).waiting()
    letter = outbox(tmp_path).letter(name)
    assert letter.subject == "[lyrebird] PAUSED app shall run, and its DAG stream_app is paused"
    assert "airflow dags unpause stream_app" in letter.html


def test_a_paused_dag_of_what_shall_not_run_is_nobodys_worry(scene: Scene, tmp_path: Path) -> None:
    airflow = Airflow(r1="success")
    airflow.paused = True
    scene.ends(rc=0, why="asked")
    assert scene.look(airflow) == []
    assert outbox(tmp_path).state().waiting == 0


def subjects(state: Path) -> list[str]:
    return [outbox(state).letter(name).subject for name in outbox(state).waiting()]


def test_a_crash_that_a_restart_mended_is_told_in_one_mail_an_hour(scene: Scene, tmp_path: Path) -> None:
    now_us = scene.has_run(61)
    ends = [{"token": "t0", "rc": -11, "why": None, "problem": None, "ended_us": now_us - 90_000_000}]
    scene.write("exits.json", exits=ends)
    for _ in range(2):
        scene.look(Airflow(r1="running"))
    [first] = subjects(tmp_path)
    assert first.startswith(
        "[lyrebird] INCIDENT restarted: app was started again once, and runs. Its last end: signal 11"
    )
    more = [{**ends[0], "ended_us": now_us - 70_000_000}, {**ends[0], "rc": 3, "ended_us": now_us - 65_000_000}]
    scene.write("exits.json", exits=ends + more)
    scene.look(Airflow(r1="running"))
    assert len(subjects(tmp_path)) == 1
    scene.write("restarted.json", ended_us=ends[0]["ended_us"], told_us=now_us - 3_600_000_000)
    scene.look(Airflow(r1="running"))
    [second] = [each for each in subjects(tmp_path) if "2 times" in each]
    assert "status 3" in second


def test_that_an_application_is_down_is_told_where_its_task_could_not(scene: Scene, tmp_path: Path) -> None:
    incident = {"id": "down:1", "kind": "down", "text": "app is down", "fix": "lyrebird logs app"}
    scene.folder.note_down(CrashLoop(since_us=1, next_us=2, well_after_s=600), incident)
    scene.ends(rc=3, why=None)
    for _ in range(2):
        assert scene.look(Airflow(r1="running")) == []
    assert subjects(tmp_path) == ["[lyrebird] INCIDENT down: app is down"]


def test_what_a_person_has_stopped_is_told_no_more_and_not_down(scene: Scene, tmp_path: Path) -> None:
    scene.folder.note_down(CrashLoop(1, 2, 600), {"id": "down:1", "kind": "down", "text": "app is down", "fix": "x"})
    scene.ends(rc=3, why=None)
    assert scene.look(Airflow(r1="success")) == []
    assert subjects(tmp_path) == []
    assert scene.folder.down()[0] is None


def test_what_is_down_is_so_until_it_has_run_for_its_window(scene: Scene) -> None:
    scene.folder.note_down(CrashLoop(1, 2, 600), {})
    scene.has_run(599)
    scene.look(Airflow(r1="running"))
    assert scene.folder.down()[0] is not None
    scene.has_run(601)
    scene.look(Airflow(r1="running"))
    assert scene.folder.down()[0] is None


def test_an_application_that_hangs_since_its_start_does_not_run(scene: Scene, tmp_path: Path) -> None:
    now_us = time.time_ns() // 1000
    scene.write("exits.json", exits=[{"token": "t0", "rc": 0, "why": "stalled", "ended_us": now_us - 100_000_000}])
    scene.look(Airflow(r1="running"))
    assert subjects(tmp_path) == []


def test_a_full_disk_ends_no_look_behind_a_mail(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_us = scene.has_run(61)
    scene.write("exits.json", exits=[{"token": "t0", "rc": 3, "why": None, "ended_us": now_us - 90_000_000}])

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "note_restarts_told", full)
    assert scene.look(Airflow(r1="running")) == []
    assert len(subjects(tmp_path)) == 1


class Metadata(Airflow):
    """The real database, asked as the api-server asks it."""

    def get_dr_count(self, dag: str, run_ids: list[str], states: list[str] | None = None) -> int:
        from airflow.api_fastapi.execution_api.routes.dag_runs import get_dr_count
        from airflow.utils.session import create_session

        with create_session() as session:
            return get_dr_count(dag, session, run_ids=run_ids, states=states)

    def get_ti_count(self, dag: str, run_ids: list[str], task_ids: list[str]) -> int:
        from airflow.api_fastapi.execution_api.routes.task_instances import get_task_instance_count
        from airflow.utils.session import create_session

        with create_session() as session:
            return get_task_instance_count(dag, session, None, run_ids=run_ids, task_ids=task_ids)  # type: ignore[arg-type]


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered"])
def test_airflows_clean_up_over_a_stream_that_runs_costs_it_its_run_and_nothing_else(
    scene: Scene, run_type: str
) -> None:
    """`airflow db clean` takes runs by the age of their start, also those that run.

    The newest run of a DAG that no person has started stays, without its tasks.
    """
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.db import initdb
    from airflow.utils.db_cleanup import run_cleanup
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import text

    initdb()
    long_ago = datetime.now(UTC) - timedelta(days=40)
    with create_session() as session:
        # The run of the other case, which its clean-up has kept.
        session.execute(text("DELETE FROM dag_run WHERE dag_id = 'stream_app'"))
        session.merge(DagBundleModel(name="cleaned"))
        session.flush()
        session.merge(DagModel(dag_id="stream_app", bundle_name="cleaned", is_stale=False))
        session.flush()
        run = DagRun(
            dag_id="stream_app",
            run_id="r1",
            run_type=DagRunType(run_type),
            run_after=long_ago,
            start_date=long_ago,
            state=DagRunState.RUNNING,
            triggered_by=DagRunTriggeredByType.TEST,
        )
        session.add(run)
        session.flush()
        session.execute(
            text(
                "INSERT INTO task_instance (id, task_id, dag_id, run_id, start_date, state, try_number, pool,"
                " pool_slots, executor_config, span_status) VALUES (lower(hex(randomblob(16))), 'run',"
                " 'stream_app', 'r1', :at, 'deferred', 1, 'p', 1, zeroblob(400), '')"
            ),
            {"at": long_ago},
        )
    assert scene.look(Metadata()) == []
    run_cleanup(
        clean_before_timestamp=pendulum.now("UTC").subtract(days=30),
        table_names=["dag_run", "task_instance", "trigger"],
        skip_archive=True,
        confirm=False,
    )
    assert Metadata().get_dr_count("stream_app", ["r1"]) == (run_type != "manual")
    assert scene.look(Metadata()) == [START]
    assert scene.folder.held()
    assert scene.owner == f"stream_app|{TAKES_OVER}|run|-1"
