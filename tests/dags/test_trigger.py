"""The trigger alone, over a run folder that the test writes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from include.clock import SystemClock
from include.outbox.folder import Mail
from supervision.decisions import Event
from supervision.processes import here, start_ticks, start_time
from supervision.run_folder import RunFolder
from supervision.trigger import ApplicationTrigger

CLOCK = SystemClock()


class Guarded:
    """A run folder as a guardian keeps it, without one."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        path.mkdir()
        self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT)
        (path / "lease").touch()

    def take(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def let_go(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._lock)

    def write(self, name: str, **content: Any) -> None:
        (self.folder.path / name).write_text(json.dumps(content))

    def run(self, token: str) -> None:
        place, me = here(), os.getpid()
        self.write(
            "run.json",
            token=token,
            owner="o",
            host=place.host,
            boot_id=place.boot_id,
            guardian_pid=me,
            guardian_ticks=start_ticks(me),
            pid=1,
            started_us=0,
        )

    def change_run(self, **fields: Any) -> None:
        run = json.loads((self.folder.path / "run.json").read_text())
        self.write("run.json", **{**run, **fields})


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path / "app")
    guarded.take()
    guarded.run("t1")
    yield guarded
    guarded.close()


def trigger(guarded: Guarded, **more: Any) -> ApplicationTrigger:
    kwargs: dict[str, Any] = {
        "token": "t1",
        "not_before_us": 0,
        "poll_s": 0.01,
        "stall_after_s": 60.0,
        "start_within_s": 90.0,
    }
    kwargs |= more
    return ApplicationTrigger(folder=str(guarded.folder.path), **kwargs)


async def first(watching: ApplicationTrigger) -> Event:
    async for event in watching.run():
        return Event(**event.payload)
    raise AssertionError("it ended without an event")


def test_a_trigger_that_moves_to_another_triggerer_is_the_same(guarded: Guarded) -> None:
    path, kwargs = trigger(guarded, log_every_s=5.0, host="a", boot_id="b", end_within_s=9.0).serialize()
    assert path == f"{ApplicationTrigger.__module__}.{ApplicationTrigger.__qualname__}"
    assert ApplicationTrigger(**kwargs).serialize() == (path, kwargs)
    assert json.loads(json.dumps(kwargs)) == kwargs


def test_an_older_triggerer_takes_what_shall_only_be_watched(guarded: Guarded) -> None:
    known = {
        "folder", "token", "not_before_us", "poll_s", "stall_after_s", "start_within_s", "log_every_s", "host",
        "boot_id", "alerts", "renew_at_us",
    }  # fmt: skip
    assert set(trigger(guarded).serialize()[1]) == known


def test_it_fires_when_the_application_has_ended(guarded: Guarded) -> None:
    async def scene() -> Event:
        watching = asyncio.create_task(first(trigger(guarded)))
        await asyncio.sleep(0.05)
        assert not watching.done()
        guarded.write("exit.json", token="t1", rc=3, why=None)
        guarded.let_go()
        return await watching

    assert asyncio.run(scene()) == Event("exited", "t1", 3)


def test_it_fires_when_progress_stands_still(guarded: Guarded) -> None:
    guarded.write("progress.json", n=1)
    assert asyncio.run(first(trigger(guarded, stall_after_s=0.2))).what == "stalled"


def test_what_cannot_report_as_its_disk_is_full_does_not_stand_still(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.write("progress.json", n=1)
    full_until_s = CLOCK.monotonic_s() + 0.6
    statvfs = os.statvfs

    def of_a_full_disk(path: Path) -> Any:
        found = statvfs(path)
        free = found.f_bavail if CLOCK.monotonic_s() >= full_until_s else 0
        return os.statvfs_result((*found[:4], free, *found[5:]))

    monkeypatch.setattr(os, "statvfs", of_a_full_disk)
    assert asyncio.run(first(trigger(guarded, stall_after_s=0.2))).what == "stalled"
    assert CLOCK.monotonic_s() >= full_until_s + 0.15


def test_a_slow_start_is_no_stall_until_its_own_limit(guarded: Guarded) -> None:
    event = asyncio.run(first(trigger(guarded, stall_after_s=0.01, start_within_s=0.2)))
    assert event == Event("stalled", "t1", problem="it made no progress for 0.2 s")


def test_one_that_waits_for_its_start_does_not_stand_still_meanwhile(guarded: Guarded) -> None:
    guarded.change_run(pid=None, start_after_s=0.4)
    before_s = CLOCK.monotonic_s()
    assert asyncio.run(first(trigger(guarded, stall_after_s=0.05, start_within_s=0.1))).what == "stalled"
    assert CLOCK.monotonic_s() - before_s >= 0.5


def test_the_applications_log_is_relayed_from_where_it_was_left(guarded: Guarded) -> None:
    log = guarded.folder.path / "app.log"
    log.write_text("one\ntwo\nthr")
    lines, offset = guarded.folder.log_since(0)
    assert lines == ["one", "two"]
    log.write_text("one\ntwo\nthree\n")
    assert guarded.folder.log_since(offset)[0] == ["three"]
    log.write_text("anew\n")
    assert guarded.folder.log_since(offset)[0] == ["anew"]


def test_what_is_left_out_of_a_long_log_is_said(guarded: Guarded) -> None:
    (guarded.folder.path / "app.log").write_text("x" * 79 + "\n" + "line of the log\n" * 2048)
    lines, offset = guarded.folder.log_since(0)
    assert "bytes left out" in lines[0]
    assert lines[-1] == "line of the log"
    assert guarded.folder.log_since(offset) == ([], offset)


def test_it_fires_when_another_generation_runs(guarded: Guarded) -> None:
    guarded.run("t2")
    assert asyncio.run(first(trigger(guarded))) == Event("replaced", "t1")


def test_each_look_renews_the_lease(guarded: Guarded) -> None:
    lease = guarded.folder.path / "lease"
    os.utime(lease, (0, 0))

    async def scene() -> None:
        watching = asyncio.create_task(first(trigger(guarded)))
        await asyncio.sleep(0.05)
        watching.cancel()

    asyncio.run(scene())
    assert lease.stat().st_mtime > 0


def test_an_event_is_held_until_the_deferral_is_booked(guarded: Guarded) -> None:
    clock = SystemClock()
    not_before = clock.now_us() + 300_000
    guarded.let_go()
    asyncio.run(first(trigger(guarded, not_before_us=not_before)))
    assert clock.now_us() >= not_before


NEWS = {"id": "aside:t:9", "kind": "aside", "text": "t is set aside", "fix": "resume it"}


ALERTS = {"from": "lyrebird@localhost", "to": ["on-call@localhost"]}


class Mails:
    """Receives instead of the outbox, as long as the disk takes it."""

    def __init__(self) -> None:
        self.identities: list[str] = []
        self.full = False

    def __call__(self, mail: Mail) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.identities.append(mail.identity)


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Mails:
    made = Mails()
    monkeypatch.setattr("supervision.alerts.post", made)
    return made


def watched(guarded: Guarded, **more: Any) -> Event:
    """The event that ends a watch of 0.2 s: the application has nothing to tell but incidents."""
    return asyncio.run(first(trigger(guarded, stall_after_s=0.2, **more)))


def test_an_incident_is_mailed_while_the_application_and_its_watch_go_on(guarded: Guarded, mails: Mails) -> None:
    guarded.write("progress.json", incidents=[NEWS])
    lease = guarded.folder.path / "lease"

    async def scene() -> None:
        watching = asyncio.create_task(first(trigger(guarded, alerts=ALERTS)))
        while not mails.identities:
            await asyncio.sleep(0.01)
        # No task is asked for anything: a paused DAG lets nobody down, and the lease goes on.
        os.utime(lease, (0, 0))
        await asyncio.sleep(0.05)
        assert not watching.done()
        assert lease.stat().st_mtime > 0
        guarded.write("progress.json", incidents=[NEWS, NEWS | {"id": "purge:1"}])
        await asyncio.sleep(0.1)
        watching.cancel()

    asyncio.run(scene())
    assert mails.identities == ["INCIDENT app aside:t:9", "INCIDENT app purge:1"]
    assert guarded.folder.told() == ["aside:t:9", "purge:1"]


def test_a_run_that_is_marked_while_a_mail_is_handed_over_is_known_as_marked(
    guarded: Guarded, mails: Mails, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.write("progress.json", incidents=[NEWS])
    asked = threading.Event()

    def connection() -> None:
        asked.set()
        time.sleep(0.3)

    monkeypatch.setattr("supervision.trigger.ensure_sender_async", sync_to_async(connection))

    async def marked() -> tuple[Any, ...]:
        watching = asyncio.create_task(first(trigger(guarded, alerts=ALERTS)))
        await asyncio.to_thread(asked.wait, 5)
        watching.cancel("as Airflow marks it")
        try:
            await watching
        except asyncio.CancelledError as cancelled:
            return cancelled.args
        return ()

    assert asyncio.run(marked()) == ("as Airflow marks it",)


def test_an_incident_that_was_told_is_told_no_more(guarded: Guarded, mails: Mails) -> None:
    guarded.write("progress.json", incidents=[NEWS])
    guarded.folder.remember_told("aside:t:9")
    assert watched(guarded, alerts=ALERTS).what == "stalled"
    assert mails.identities == []


def test_without_receivers_an_incident_is_said_in_the_log_alone(guarded: Guarded, mails: Mails) -> None:
    guarded.write("progress.json", incidents=[NEWS])
    assert watched(guarded).incidents == []
    assert (mails.identities, guarded.folder.told()) == ([], ["aside:t:9"])


def test_what_the_disk_does_not_take_is_tried_again_in_a_while_and_at_the_end(guarded: Guarded, mails: Mails) -> None:
    guarded.write("progress.json", incidents=[NEWS])
    mails.full = True
    assert watched(guarded, alerts=ALERTS).incidents == [NEWS]
    assert guarded.folder.told() == []
    mails.full = False
    assert watched(guarded, alerts=ALERTS).incidents == []
    assert len(mails.identities) == 1


def test_the_last_incidents_of_an_application_are_told_before_its_end(guarded: Guarded, mails: Mails) -> None:
    guarded.write("progress.json", incidents=[NEWS])
    guarded.write("exit.json", token="t1", rc=3, why=None)
    guarded.let_go()
    assert asyncio.run(first(trigger(guarded, alerts=ALERTS))) == Event("exited", "t1", 3)
    assert len(mails.identities) == 1


def test_what_an_application_ends_with_is_left_to_its_end(guarded: Guarded, mails: Mails) -> None:
    """It takes a moment from its last word to its exit; a look in between tells nothing, or it would be told twice."""
    last = {**NEWS, "id": "stopped:1", "kind": "stopped"}
    guarded.write("progress.json", incidents=[NEWS, last])
    guarded.write("gave-up.json", **last)
    guarded.write("exit.json", token="t1", rc=1, why=None)
    guarded.let_go()
    event = asyncio.run(first(trigger(guarded, alerts=ALERTS)))
    assert (event.gave_up, event.incidents) == (last, [last])
    assert mails.identities == ["INCIDENT app aside:t:9"]


def test_what_it_would_have_ended_with_is_told_where_it_hangs_in_place_of_ending(
    guarded: Guarded, mails: Mails
) -> None:
    last = {**NEWS, "id": "stopped:1", "kind": "stopped"}
    guarded.write("gave-up.json", **last)
    guarded.write("progress.json", incidents=[last])
    assert watched(guarded, alerts=ALERTS).what == "stalled"
    assert mails.identities == ["INCIDENT app stopped:1"]


def test_a_thousand_incidents_are_remembered_each_once(guarded: Guarded) -> None:
    guarded.write("told.json", ids=[f"i{number}" for number in range(1003)])
    for number in (1003, 1004, 1004):
        guarded.folder.remember_told(f"i{number}")
    told = guarded.folder.told()
    assert (len(told), told[0], told[-1]) == (1000, "i5", "i1004")
    guarded.write("told.json", ids="x")
    assert guarded.folder.told() == []


def test_a_kill_signals_only_its_own_generation(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    signalled: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _number: signalled.append(pid))
    asyncio.run(trigger(guarded, token="t0").on_kill())
    assert signalled == []
    asyncio.run(trigger(guarded).on_kill())
    assert signalled == [os.getpid()]


def test_of_two_that_are_marked_at_once_each_ends_though_airflow_cancels_again_what_takes_long(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(_task: object) -> bool:
        time.sleep(0.3)
        return False

    monkeypatch.setattr("supervision.trigger.is_cleaned_away", slow)
    asked: list[str] = []
    monkeypatch.setattr(RunFolder, "ask_to_end", lambda _folder, token: asked.append(token))

    async def scene() -> None:
        kills = [asyncio.create_task(trigger(guarded, token=token).on_kill()) for token in ("t1", "t2")]
        await asyncio.sleep(0.05)
        for kill in kills:
            kill.cancel()
        await asyncio.gather(*kills, return_exceptions=True)
        await asyncio.sleep(1)

    asyncio.run(scene())
    assert asked == ["t1", "t2"]


@pytest.mark.parametrize(("answers", "ends"), [([True], False), ([False], True), ([None, True], False)])
def test_a_clean_up_of_airflow_s_database_kills_no_application(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, answers: list[bool | None], ends: bool
) -> None:
    """Airflow calls it when a person marks or clears the task, and when the task is gone."""
    signalled: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _number: signalled.append(pid))
    asked = list(answers)
    monkeypatch.setattr("supervision.trigger.is_cleaned_away", lambda _task: asked.pop(0))
    asyncio.run(trigger(guarded).on_kill())
    assert bool(signalled) is ends
    assert (guarded.folder.path / "end-t1").exists() is ends
    assert asked == []


def test_where_nobody_says_who_has_come_the_application_ends(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr("supervision.trigger.is_cleaned_away", lambda _task: None)
    monkeypatch.setattr("supervision.trigger._SAID_WITHIN_S", 0.5)
    asyncio.run(trigger(guarded).on_kill())
    assert (guarded.folder.path / "end-t1").exists()


@pytest.mark.parametrize(
    "other", [{"guardian_ticks": 1}, {"boot_id": "another"}, {"guardian_ticks": None, "guardian_start": 1.0}]
)
def test_a_process_that_only_has_the_guardian_s_pid_gets_no_signal(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    signalled: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _number: signalled.append(pid))
    guarded.change_run(**other)
    asyncio.run(trigger(guarded).on_kill())
    assert signalled == []
    # It is asked by the file that it looks for, wherever it is.
    assert (guarded.folder.path / "end-t1").read_text() == "asked"


def test_a_guardian_of_an_older_version_is_known_by_the_time_of_its_start(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _number: signalled.append(pid))
    guarded.write(
        "run.json",
        token="t1",
        owner="o",
        guardian_pid=os.getpid(),
        guardian_start=start_time(os.getpid()),
        started_us=0,
    )
    asyncio.run(trigger(guarded).on_kill())
    assert signalled == [os.getpid()]


def test_a_trigger_on_another_host_says_so_by_name_and_renews_nothing(guarded: Guarded) -> None:
    lease = guarded.folder.path / "lease"
    os.utime(lease, (0, 0))
    event = asyncio.run(first(trigger(guarded, host="host-b", boot_id="another")))
    assert (event.what, event.token) == ("elsewhere", "t1")
    assert "host-b" in (event.problem or "")
    assert lease.stat().st_mtime == 0


def test_a_shutdown_of_the_triggerer_stops_nothing(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    signalled: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _number: signalled.append(pid))
    asyncio.run(trigger(guarded).cleanup())
    assert signalled == []
    assert not (guarded.folder.path / "stop").exists()


@pytest.mark.parametrize("text", ["", "{", '"text"', "[]"])
def test_half_a_file_is_no_file(guarded: Guarded, text: str) -> None:
    (guarded.folder.path / "exit.json").write_text(text)
    (guarded.folder.path / "progress.json").write_text(text)
    assert guarded.folder.observe().ended is None
    assert guarded.folder.progress()[1] == {}


def test_a_folder_that_never_was_is_free_and_empty(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "nobody")
    seen = folder.observe()
    assert (seen.held, seen.stop, seen.run, seen.ended) == (False, False, None, None)
    assert folder.log_tail(3) == []
    assert folder.progress() == (0, {})
    folder.touch_lease()
    assert not folder.ask_to_end("t1")
