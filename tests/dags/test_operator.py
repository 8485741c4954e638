"""The streaming operator with a tiny application: what each try does, and one whole run through its trigger."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException, TaskDeferred

from include.clock import SystemClock
from include.errors import Transient
from include.outbox.folder import Mail
from include.settings.applications import Alerts
from supervision import operator as operator_module
from supervision.budget import CrashLoop, RestartBudget
from supervision.operator import StreamingOperator
from supervision.processes import HostBoot
from supervision.refusing import NoRetry
from supervision.run_folder import RunFolder, run_folder
from supervision.trigger import ApplicationTrigger

CLOCK = SystemClock()
# Runs until `stop` is there; "crash" and "finish" end it at once, "once" crashes in its first generation only;
# "give-up" ends it for the reason in the last word.
APPLICATION = """
import os, pathlib, sys, time
folder = pathlib.Path(os.environ["LYREBIRD_RUN"])
first = not (folder / "been-here").exists()
(folder / "been-here").touch()
print("my last words", flush=True)
if "give-up" in sys.argv:
    (folder / "gave-up.json").write_text(sys.argv[-1])
    sys.exit(1)
if "crash" in sys.argv or ("once" in sys.argv and first):
    sys.exit(3)
while "finish" not in sys.argv and "once" not in sys.argv and not (folder / "stop").exists():
    time.sleep(0.02)
if "slow" in sys.argv:
    time.sleep(0.5)
"""


class Store(dict[str, Any]):
    """What Airflow keeps for a task over its tries."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))


class Try:
    """Tries of one task that keeps `application` running."""

    def __init__(
        self, application: str, *words: str, run: str = "r1", restarts: int = 1, every_s: float | None = None
    ) -> None:
        self.folder = run_folder(application)
        self.operator = StreamingOperator(
            task_id="run",
            application=application,
            argv=[sys.executable, "-c", APPLICATION, *words],
            grace_s=5,
            lease_ttl_s=60,
            poll_s=0.05,
            restarts=RestartBudget(restarts, 600, every_s),
        )
        ti = SimpleNamespace(dag_id="d", run_id=run, task_id="run", map_index=-1, id="t", try_number=1)
        self.xcoms: dict[str, Any] = {}
        ti.xcom_push = self.xcoms.__setitem__
        self.context: Any = {"ti": ti, "task_state_store": Store()}

    def execute(self) -> ApplicationTrigger:
        with pytest.raises(TaskDeferred) as deferral:
            self.operator.execute(self.context)
        return self.watching(deferral.value)

    def resume(self, event: dict[str, Any]) -> ApplicationTrigger:
        with pytest.raises(TaskDeferred) as deferral:
            self.operator.resume(self.context, event)
        return self.watching(deferral.value)

    def watching(self, deferral: TaskDeferred) -> ApplicationTrigger:
        assert deferral.method_name == "resume"
        assert isinstance(deferral.trigger, ApplicationTrigger)
        return deferral.trigger

    def event(self, trigger: ApplicationTrigger) -> dict[str, Any]:
        async def first() -> dict[str, Any]:
            trigger.not_before_us = 0
            async for event in trigger.run():
                payload: dict[str, Any] = event.payload
                return payload
            raise AssertionError("no event")

        return asyncio.run(first())


@pytest.fixture
def tries(unique: str) -> Iterator[Callable[..., Try]]:
    made: list[Try] = []

    def make(*words: str, **more: Any) -> Try:
        made.append(Try(unique, *words, **more))
        return made[-1]

    yield make
    for one in made:
        seen = one.folder.observe()
        if seen.run is not None:
            one.folder.ask_to_end(seen.run.token)
    for one in made:
        deadline = CLOCK.monotonic_s() + 20
        while one.folder.held() and CLOCK.monotonic_s() < deadline:
            CLOCK.sleep(0.05)
        assert not one.folder.held()


def test_a_try_launches_the_application_and_defers(tries: Callable[..., Try]) -> None:
    one = tries()
    trigger = one.execute()
    seen = one.folder.observe()
    assert seen.held
    assert seen.run is not None
    assert (seen.run.token, seen.run.owner) == (trigger.token, "d|r1|run|-1")
    assert one.xcoms == {"watcher": {"task": "t", "try_number": 1}}


def test_a_retry_finds_the_application_that_an_earlier_try_has_launched(tries: Callable[..., Try]) -> None:
    first = tries().execute()
    assert tries().execute().token == first.token


def test_another_run_is_refused_at_once_by_the_owners_name(tries: Callable[..., Try]) -> None:
    tries().execute()
    other = tries(run="r2")
    with pytest.raises(AirflowFailException, match=r"already runs.*d\|r1\|run\|-1"):
        other.operator.execute(other.context)


def moved(one: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is on another host from now on."""
    monkeypatch.setattr(operator_module, "here", lambda: HostBoot("host-b", "another"))


def test_a_retry_on_another_host_is_refused_by_name_and_launches_nothing(
    tries: Callable[..., Try], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = tries()
    first = one.execute()
    moved(one, monkeypatch)
    with pytest.raises(NoRetry, match="host-b") as error:
        one.operator.execute(one.context)
    assert first.host in str(error.value)
    run = one.folder.observe().run
    assert run is not None
    assert run.token == first.token


def test_a_retry_on_a_host_without_the_folder_waits_until_the_lease_of_the_other_ran_out(
    tries: Callable[..., Try], monkeypatch: pytest.MonkeyPatch, unique: str
) -> None:
    one = tries()
    one.execute()
    moved(one, monkeypatch)
    elsewhere = RunFolder(one.folder.path.with_name(f"{unique}-on-b"))
    monkeypatch.setattr(operator_module, "run_folder", lambda _: elsewhere)
    for _ in range(2):
        with pytest.raises(NoRetry, match="host-b"):
            one.operator.execute(one.context)
    kept = one.context["task_state_store"]["launched"]
    assert kept["until_us"] > CLOCK.now_us()
    kept["until_us"] = 1
    second = one.execute()
    assert RunFolder(Path(second.folder)).ask_to_end(second.token)
    deadline = CLOCK.monotonic_s() + 20
    while elsewhere.held():
        assert CLOCK.monotonic_s() < deadline
        CLOCK.sleep(0.02)


def test_what_another_host_reckoned_holds_no_more_once_the_stream_is_watched_again(
    tries: Callable[..., Try], monkeypatch: pytest.MonkeyPatch, unique: str
) -> None:
    one = tries()
    first = one.execute()
    on_a = one.folder
    elsewhere = RunFolder(one.folder.path.with_name(f"{unique}-on-b"))
    with monkeypatch.context() as on_b:
        moved(one, on_b)
        on_b.setattr(operator_module, "run_folder", lambda _: elsewhere)
        with pytest.raises(NoRetry, match="host-b"):
            one.operator.execute(one.context)
    assert one.execute().token == first.token
    assert on_a.held()
    moved(one, monkeypatch)
    monkeypatch.setattr(operator_module, "run_folder", lambda _: elsewhere)
    with pytest.raises(NoRetry, match="host-b"):
        one.operator.execute(one.context)
    assert not elsewhere.held()


def test_a_run_that_takes_over_on_another_host_starts_no_second_one(
    tries: Callable[..., Try], monkeypatch: pytest.MonkeyPatch, unique: str
) -> None:
    one = tries()
    one.execute()
    elsewhere = RunFolder(one.folder.path.with_name(f"{unique}-on-b"))
    heir = tries(run="renewed__2026-01-08T00:00:00Z")
    moved(heir, monkeypatch)
    monkeypatch.setattr(operator_module, "run_folder", lambda _: elsewhere)
    with pytest.raises(NoRetry, match="another host"):
        heir.operator.execute(heir.context)
    assert not elsewhere.held()


def test_a_task_whose_application_was_seen_ending_may_go_to_another_host(
    tries: Callable[..., Try], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = tries("crash", restarts=1)
    event = one.event(one.execute())
    moved(one, monkeypatch)
    assert one.resume(event).token != event["token"]


def test_a_trigger_that_cannot_watch_from_its_host_fails_the_task_at_once(tries: Callable[..., Try]) -> None:
    one = tries(restarts=5)
    first = one.execute()
    first.host, first.boot_id = "host-b", "another"
    with pytest.raises(NoRetry, match="host-b"):
        one.operator.resume(one.context, one.event(first))
    assert one.folder.held()


def test_an_application_that_ends_well_ends_the_task(tries: Callable[..., Try]) -> None:
    one = tries("finish")
    one.operator.resume(one.context, one.event(one.execute()))
    assert not one.folder.held()


def test_a_crash_is_restarted_within_the_budget_and_then_fails_with_its_last_words(
    tries: Callable[..., Try],
) -> None:
    one = tries("crash", restarts=1)
    first = one.execute()
    second = one.resume(one.event(first))
    assert second.token != first.token
    with pytest.raises(Transient, match=r"status 3.*my last words") as error:
        one.operator.resume(one.context, one.event(second))
    assert "app.log" in error.value.fix


def test_the_budget_outlives_a_retry(tries: Callable[..., Try]) -> None:
    one = tries("crash", restarts=1)
    event = one.event(one.resume(one.event(one.execute())))
    again = tries("crash", restarts=1)
    again.context["task_state_store"] = one.context["task_state_store"]
    with pytest.raises(Transient):
        again.operator.resume(again.context, event)


def test_one_that_was_asked_to_end_is_started_again_as_the_task_still_wants_it(tries: Callable[..., Try]) -> None:
    one = tries(restarts=0)
    first = one.execute()
    one.folder.ask_to_end(first.token)
    assert one.resume(one.event(first)).token != first.token


def test_a_clear_waits_without_a_slot_for_the_old_generation_to_drain(tries: Callable[..., Try]) -> None:
    one = tries("slow")
    first = one.execute()
    asyncio.run(first.on_kill())
    deadline = CLOCK.monotonic_s() + 20
    while not one.folder.observe().stop:
        assert CLOCK.monotonic_s() < deadline
        CLOCK.sleep(0.01)
    again = tries()
    waiting = again.execute()
    assert one.folder.held()
    assert (waiting.token, waiting.end_within_s) == (first.token, 45)
    second = again.resume(again.event(waiting))
    assert second.token != first.token
    assert second.end_within_s == 0
    assert one.folder.held()


def test_a_stalled_application_ends_before_the_next_one_starts_and_no_slot_is_held_until_then(
    tries: Callable[..., Try],
) -> None:
    one = tries("slow")
    first = one.execute()
    waiting = one.resume({"what": "stalled", "token": first.token, "rc": None, "why": None, "problem": None})
    assert one.folder.held()
    assert waiting.token == first.token
    second = one.resume(one.event(waiting))
    seen = one.folder.observe()
    assert seen.run is not None
    assert seen.run.token == second.token != first.token
    assert len(one.context["task_state_store"]["restarts_us"]) == 1


def test_one_that_does_not_end_in_time_fails_the_try_with_the_guardian_s_log(tries: Callable[..., Try]) -> None:
    one = tries()
    waiting = one.execute()
    waiting.end_within_s = 0.1
    with pytest.raises(Transient, match=r"did not end within 0\.1 s") as error:
        one.operator.resume(one.context, one.event(waiting))
    assert "guardian.log" in error.value.fix


def test_a_try_that_is_killed_before_it_defers_drains_what_it_launched(tries: Callable[..., Try]) -> None:
    one = tries()
    one.execute()
    one.operator.on_kill()
    deadline = CLOCK.monotonic_s() + 20
    while one.folder.held():
        assert CLOCK.monotonic_s() < deadline
        CLOCK.sleep(0.02)
    ended = one.folder.observe().ended
    assert ended is not None
    assert ended.why == "asked"


NEWS = {"id": "aside:s.t:9", "kind": "aside", "text": "table s.t is set aside", "fix": "lyrebird capture …"}
ALERTS = Alerts.model_validate({"from": "lyrebird@localhost", "to": ["on-call@localhost"]})


class Mails:
    """Receives instead of the outbox."""

    def __init__(self) -> None:
        self.identities: list[str] = []

    def __call__(self, mail: Mail) -> None:
        self.identities.append(mail.identity.rpartition(" ")[2])


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Mails:
    made = Mails()
    monkeypatch.setattr("supervision.alerts.post", made)
    return made


def test_an_incident_that_ends_the_application_is_mailed_before_it_is_started_again(
    tries: Callable[..., Try], mails: Mails
) -> None:
    one = tries("once")
    one.operator.alerts = ALERTS
    event = one.event(one.execute())
    assert one.resume(event | {"incidents": [NEWS]}).token != event["token"]
    assert mails.identities == [NEWS["id"]]


def waits(one: Try) -> bool:
    seen = one.folder.observe()
    return seen.held and seen.run is not None and seen.run.waits


def test_what_restarts_do_not_help_is_tried_again_slowly_with_one_mail(tries: Callable[..., Try], mails: Mails) -> None:
    one = tries("crash", restarts=1, every_s=1)
    one.operator.alerts = ALERTS
    trigger = one.resume(one.event(one.execute()))
    for _ in range(3):
        before_s = CLOCK.monotonic_s()
        trigger = one.resume(one.event(trigger))
        assert waits(one)
        assert one.event(trigger)["rc"] == 3
        assert CLOCK.monotonic_s() - before_s >= 1
    down, incident = one.folder.down()
    assert down is not None
    assert mails.identities == [f"down:{down.since_us}"]
    assert "status 3, and 1 restarts did not help" in incident["text"]
    assert "my last words" in incident["text"]


def test_what_is_down_is_its_run_s_alone_and_counts_as_running(tries: Callable[..., Try]) -> None:
    one = tries("crash", restarts=0, every_s=600)
    waiting = one.resume(one.event(one.execute()))
    other = tries("crash", run="r2")
    with pytest.raises(AirflowFailException, match=r"already runs.*d\|r1\|run\|-1"):
        other.operator.execute(other.context)
    assert one.folder.held()
    assert one.execute().token == waiting.token


def test_the_log_of_what_is_down_is_that_of_its_last_crash(tries: Callable[..., Try]) -> None:
    one = tries("crash", restarts=0, every_s=600)
    one.resume(one.event(one.execute()))
    assert one.folder.log_tail(1) == ["my last words"]


def test_to_clear_what_is_down_tries_it_at_once(tries: Callable[..., Try]) -> None:
    one = tries("once", restarts=0, every_s=600)
    waiting = one.resume(one.event(one.execute()))
    asyncio.run(waiting.on_kill())
    event = one.event(waiting)
    assert (event["what"], event["why"]) == ("exited", "asked")
    assert one.event(one.execute())["rc"] == 0


def test_a_guardian_that_is_killed_while_it_waits_spends_no_restart_and_leaves_the_rest_of_the_wait(
    tries: Callable[..., Try], mails: Mails
) -> None:
    one = tries("crash", restarts=0, every_s=600)
    one.operator.alerts = ALERTS
    watching = one.resume(one.event(one.execute()))
    before, exits, told = one.folder.down(), one.folder.exits(), list(mails.identities)
    for left_s in (600, 300):
        down, incident = before
        assert down is not None
        before = replace(down, next_us=CLOCK.now_us() + left_s * 1_000_000), incident
        one.folder.note_down(*before)
        run = one.folder.observe().run
        assert run is not None
        os.kill(run.guardian_pid, signal.SIGKILL)
        watching = one.resume(one.event(watching))
        assert waits(one)
        run = one.folder.observe().run
        assert run is not None
        assert left_s - 60 < run.start_after_s <= left_s
        assert one.folder.down() == before
    assert one.context["task_state_store"]["restarts_us"] == []
    assert [each["rc"] for each in exits] == [each["rc"] for each in one.folder.exits()] == [3]
    assert mails.identities == told


@pytest.mark.parametrize(("next_in_s", "waits_s"), [(-86_400, 0), (86_400, 600)])
def test_a_wall_clock_that_was_set_ends_no_wait_late_or_before_it_began(
    tries: Callable[..., Try], next_in_s: int, waits_s: float
) -> None:
    one = tries("slow", restarts=0, every_s=600)
    one.folder.path.mkdir(parents=True)
    one.folder.note_down(CrashLoop(1, CLOCK.now_us() + next_in_s * 1_000_000, 600))
    one.resume({"what": "exited", "token": "t", "why": "killed while it waited"})
    run = one.folder.observe().run
    assert run is not None
    assert run.start_after_s == waits_s


def test_one_that_is_down_as_it_stands_still_waits_from_its_end_on(tries: Callable[..., Try]) -> None:
    one = tries("slow", restarts=0, every_s=600)
    first = one.execute()
    with pytest.raises(TaskDeferred) as deferral:
        one.operator.resume(one.context, {"what": "stalled", "token": first.token})
    draining = one.watching(deferral.value)
    assert draining.end_within_s > 0
    event = one.event(draining)
    with pytest.raises(TaskDeferred):
        one.operator.resume(one.context, event, **(deferral.value.kwargs or {}))
    assert waits(one)


def test_a_person_s_new_start_of_what_is_down_is_a_new_budget_and_the_keeper_s_is_not(
    tries: Callable[..., Try], mails: Mails
) -> None:
    one = tries("crash", restarts=0, every_s=600)
    one.operator.alerts = ALERTS
    watching = one.resume(one.event(one.execute()))
    for run, told in (("keeper__1", 1), ("manual__1", 2)):
        one.folder.ask_to_end(watching.token)
        one.event(watching)
        heir = tries("crash", run=run, restarts=0, every_s=600)
        heir.operator.alerts = ALERTS
        watching = heir.resume(heir.event(heir.execute()))
        assert len(mails.identities) == told


def test_what_was_down_and_ends_well_is_down_no_more(tries: Callable[..., Try]) -> None:
    one = tries("once", restarts=0, every_s=1)
    waiting = one.resume(one.event(one.execute()))
    assert one.folder.down()[0] is not None
    one.operator.resume(one.context, one.event(waiting))
    assert one.folder.down()[0] is None


def test_a_run_that_took_over_and_saw_an_end_here_starts_whoever_had_the_folder_since(
    tries: Callable[..., Try],
) -> None:
    heir = tries("crash", run="renewed__1", restarts=5)
    heir.context["task_state_store"]["launched"] = {}
    one = tries("finish")
    one.event(one.execute())
    assert heir.execute()


def test_how_long_it_ran_is_told_by_its_reports_and_not_by_when_a_worker_hears_of_its_end(
    tries: Callable[..., Try],
) -> None:
    one = tries("crash", restarts=0, every_s=600)
    event = one.event(one.execute())
    now_us = CLOCK.now_us()
    one.folder.note_down(CrashLoop(1, 2, 600), {})
    run = json.loads((one.folder.path / "run.json").read_text())
    (one.folder.path / "run.json").write_text(json.dumps({**run, "started_us": now_us - 10_000_000_000}))
    (one.folder.path / "progress.json").write_text("{}")
    os.utime(one.folder.path / "progress.json", ns=((now_us - 9_990_000_000) * 1000,) * 2)
    one.resume(event)
    down = one.folder.down()[0]
    assert down is not None
    assert down.since_us == 1


def test_an_application_that_gives_up_fails_the_task_at_once_with_one_mail(
    tries: Callable[..., Try], mails: Mails
) -> None:
    end = NEWS | {"id": "fenced:1", "kind": "fenced", "text": "taken over", "fix": "lyrebird capture status"}
    one = tries("give-up", json.dumps(end), restarts=5)
    one.operator.alerts = ALERTS
    event = one.event(one.execute())
    with pytest.raises(AirflowFailException, match="taken over") as error:
        one.operator.resume(one.context, event | {"incidents": [NEWS, end]})
    assert getattr(error.value, "run_next", None) == "lyrebird capture status"
    # The end is the mail of the failed task; what else was to be told is told before.
    assert mails.identities == [NEWS["id"]]
    assert one.folder.told() == [NEWS["id"]]
    assert isinstance(error.value, NoRetry)
    assert not error.value.told
    assert error.value.on_mailed is not None
    error.value.on_mailed()
    assert one.folder.told() == [NEWS["id"], "fenced:1"]


def test_an_end_that_was_mailed_before_is_not_mailed_again(tries: Callable[..., Try]) -> None:
    end = json.dumps(NEWS | {"id": "standing:1", "text": "stands still"})
    ends = []
    for _ in range(2):
        one = tries("give-up", end, restarts=5)
        with pytest.raises(NoRetry, match="stands still") as error:
            one.operator.resume(one.context, one.event(one.execute()))
        ends.append(error.value.told)
        if error.value.on_mailed is not None:
            error.value.on_mailed()
    assert ends == [False, True]


def test_an_old_run_hands_the_application_over_to_a_new_one_while_it_runs(tries: Callable[..., Try]) -> None:
    """Before a clean-up of Airflow's database takes the run with its task."""
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    one = tries()
    one.context["dag_run"] = SimpleNamespace(start_date=begun, conf={"memory": "2g"})
    watching = one.execute()
    assert watching.renew_at_us == round(begun.timestamp() * 1e6) + 7 * 86_400_000_000
    event = one.event(watching)
    assert event["what"] == "due"
    with pytest.raises(DagRunTriggerException) as handed:
        one.operator.resume(one.context, event)
    new = handed.value
    assert (new.trigger_dag_id, new.conf, new.reset_dag_run) == ("d", {"memory": "2g"}, False)
    # What ended was the run: the application goes on, and is the new run's, over its retries.
    for _ in range(2):
        next_one = tries(run=new.dag_run_id)
        next_one.context["dag_run"] = SimpleNamespace(start_date=datetime.now(UTC), conf={})
        assert next_one.execute().token == watching.token
    with pytest.raises(AirflowFailException, match="already runs"):
        tries(run="r1").operator.execute(one.context)


def test_a_generation_that_was_handed_over_is_the_heirs_and_the_next_one_its_starters(
    tries: Callable[..., Try],
) -> None:
    one = tries("once")
    watching = one.execute()
    one.folder.hand_over(watching.token, "d|r2|run|-1")
    event = one.event(watching)
    heir = tries("once", run="r2")
    assert heir.resume(event).token != watching.token
    seen = heir.folder.observe()
    assert seen.run is not None
    assert seen.run.owner == "d|r2|run|-1"


def test_what_was_given_up_for_is_forgotten_at_the_next_start(tries: Callable[..., Try]) -> None:
    one = tries("give-up", json.dumps({"text": "gone"}))
    with pytest.raises(AirflowFailException):
        one.operator.resume(one.context, one.event(one.execute()))
    again = tries()
    again.execute()
    assert not (again.folder.path / "gave-up.json").exists()


def test_events_are_held_by_the_interval_that_airflow_is_configured_with(
    tries: Callable[..., Try], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "7")
    one = tries()
    before_us = CLOCK.now_us()
    assert one.execute().not_before_us - before_us >= 10_000_000


def test_the_plugin_names_settings_that_supervision_cannot_work_with(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from lyrebird_schedules_plugin import LyrebirdSchedules

    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT", "90")
    LyrebirdSchedules.on_load()
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert "CeleryExecutor" in record.getMessage()


@pytest.fixture(scope="module")
def database() -> None:
    from airflow.utils.db import initdb

    initdb()


def test_a_run_goes_through_deferral_crash_and_restart_to_its_end(database: None, unique: str, tmp_path: Path) -> None:
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.sdk import DAG
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    with DAG(f"t_{unique}", schedule=None, catchup=False) as dag:
        StreamingOperator(
            task_id="run",
            application=unique,
            argv=[sys.executable, "-c", APPLICATION, "once"],
            poll_s=0.1,
            restarts=RestartBudget(1, 600),
        )
    with create_session() as session:
        session.add(DagBundleModel(name="testing"))
        session.commit()
        lazy = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db("testing", None, [lazy], None, session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="testing", session=session)
    run = dag.test()
    assert run.state == "success"
    ended = run_folder(unique).observe().ended
    assert ended is not None
    assert (ended.rc, ended.why) == (0, None)
