"""The guardian with real processes: one owner, nothing outlives it, a request to end is drained."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from include.clock import SystemClock
from include.incidents.supervision import is_crash
from include.log.running.spark_home import installed_spark
from supervision.decisions import Reconnect, on_start
from supervision.launch import application_environment, launch
from supervision.processes import here, marked, start_ticks
from supervision.run_folder import RunFolder

CLOCK = SystemClock()
# What bears them is killed behind each test: beside these tests others run in another process of pytest.
ONE, TWO, THREE = (f"{number}-{os.getpid()}" for number in ("one", "two", "three"))

# Reports progress, and ends cleanly when `stop` is there; "deaf" ignores it and SIGTERM; a child of its own session
# stands for a worker process of Spark.
APPLICATION = """
import json, os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(os.environ["LYREBIRD_RUN"])
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "child" in sys.argv:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    (folder / "child").write_text(str(child.pid))
print("hello from the application", flush=True)
n = 0
while "deaf" in sys.argv or not (folder / "stop").exists():
    n += 1
    (folder / "p").write_text(json.dumps({"n": n}))
    os.replace(folder / "p", folder / "progress.json")
    time.sleep(0.05)
(folder / "drained").write_text("yes")
"""


def eventually(condition: Callable[[], bool], what: str, within_s: float = 20.0) -> None:
    deadline = CLOCK.monotonic_s() + within_s
    while not condition():
        assert CLOCK.monotonic_s() < deadline, f"not seen: {what}"
        CLOCK.sleep(0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    folder = RunFolder(tmp_path / "state" / "run" / "app")
    yield folder
    seen = folder.observe()
    if seen.held and seen.run is not None:
        os.kill(seen.run.guardian_pid, signal.SIGKILL)
        eventually(lambda: not folder.held(), "the guardian's end")
    for token in (ONE, TWO):
        for pid in marked("LYREBIRD_TOKEN", token):
            os.kill(pid, signal.SIGKILL)


def start(
    folder: RunFolder,
    *words: str,
    token: str = ONE,
    grace_s: float = 10,
    ttl_s: float = 60,
    code: str = APPLICATION,
    start_after_s: float = 0,
) -> bool:
    return launch(
        folder,
        [sys.executable, "-c", code, *words],
        application_environment(),
        owner="dag|run|task|-1",
        token=token,
        grace_s=grace_s,
        lease_ttl_s=ttl_s,
        clock=CLOCK,
        start_after_s=start_after_s,
    )


def pid_of(folder: RunFolder) -> int:
    run = folder.observe().run
    assert run is not None
    assert run.pid is not None
    return run.pid


def test_a_launched_application_runs_under_its_token_and_holds_the_lock(folder: RunFolder) -> None:
    assert start(folder)
    seen = folder.observe()
    assert seen.held
    assert seen.run is not None
    assert (seen.run.token, seen.run.owner) == (ONE, "dag|run|task|-1")
    assert psutil.pid_exists(pid_of(folder))
    eventually(lambda: folder.progress()[0] != 0, "progress")
    eventually(lambda: folder.log_tail(5) == ["hello from the application"], "the log")


def test_run_json_names_the_guardian_by_pid_and_start(folder: RunFolder) -> None:
    start(folder)
    run = json.loads((folder.path / "run.json").read_text())
    guardian = psutil.Process(run["guardian_pid"])
    assert abs(guardian.create_time() - run["guardian_start"]) <= 1.0
    assert guardian.children()[0].pid == run["pid"]


def test_nobody_else_reads_what_is_made_for_an_application(folder: RunFolder, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        assert start(folder)
        eventually(lambda: folder.progress()[0] != 0, "progress")
    finally:
        os.umask(before)
    made = list((tmp_path / "state").rglob("*"))
    assert {"app", "guardian.log", "app.log", "run.json", "progress.json"} <= {each.name for each in made}
    assert [each for each in made if each.stat().st_mode & 0o077] == []


def test_a_request_to_end_is_drained(folder: RunFolder) -> None:
    start(folder)
    assert folder.ask_to_end(ONE)
    eventually(lambda: not folder.held(), "its end")
    ended = folder.observe().ended
    assert ended is not None
    assert (ended.rc, ended.why, ended.token) == (0, "asked", ONE)
    assert (folder.path / "drained").exists()


def test_a_guardian_that_no_signal_reaches_is_asked_by_a_file(folder: RunFolder) -> None:
    start(folder)
    (folder.path / f"end-{ONE}").write_text("stalled")
    eventually(lambda: not folder.held(), "its end")
    ended = folder.observe().ended
    assert ended is not None
    assert (ended.rc, ended.why) == (0, "stalled")
    assert start(folder, token=TWO)
    assert not (folder.path / f"end-{ONE}").exists()


def test_run_json_names_the_host_and_the_start_of_its_kernel(folder: RunFolder) -> None:
    start(folder)
    run = folder.observe().run
    assert run is not None
    assert run.place == here()
    assert run.guardian_ticks == start_ticks(run.guardian_pid)
    assert run.lives_on_s == 2 * 60 + 10 + 20


def test_a_request_in_the_name_of_an_older_generation_changes_nothing(folder: RunFolder) -> None:
    start(folder)
    assert not folder.ask_to_end("zero")
    assert not (folder.path / "stop").exists()
    assert folder.held()


def test_the_last_generations_stop_does_not_speak_of_the_next_one(folder: RunFolder) -> None:
    """It is there until the next one's guardian, which has said who it is, has removed it."""
    start(folder)
    folder.ask_to_end(ONE)
    eventually(lambda: folder.observe().stop, "its request to end")
    stop = (folder.path / "stop").read_text()
    eventually(lambda: not folder.held(), "its end")
    start(folder, "deaf", token=TWO)
    (folder.path / "stop").write_text(stop)
    seen = folder.observe()
    assert not seen.stop
    assert on_start(seen, "dag|run|task|-1", here=here(), now_us=CLOCK.now_us()) == Reconnect(TWO)


def test_an_application_that_does_not_listen_is_ended_after_its_grace(folder: RunFolder) -> None:
    start(folder, code="import time; time.sleep(600)", grace_s=0.1)
    folder.ask_to_end(ONE)
    eventually(lambda: not folder.held(), "its end")
    ended = folder.observe().ended
    assert ended is not None
    assert (ended.rc, ended.why) == (-signal.SIGTERM, "asked")


def test_killing_the_guardian_kills_the_application(folder: RunFolder) -> None:
    start(folder)
    pid = pid_of(folder)
    run = folder.observe().run
    assert run is not None
    os.kill(run.guardian_pid, signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie", "its death")
    eventually(lambda: not folder.held(), "a free lock")
    assert folder.observe().ended is None


def test_a_new_generation_first_ends_what_the_old_one_left_behind(folder: RunFolder) -> None:
    start(folder, "child")
    note = folder.path / "child"
    eventually(lambda: note.exists() and bool(note.read_text()), "the child")
    child = int(note.read_text())
    run = folder.observe().run
    assert run is not None
    os.kill(run.guardian_pid, signal.SIGKILL)
    eventually(lambda: not folder.held(), "a free lock")
    assert psutil.pid_exists(child)
    assert start(folder, token=TWO)
    eventually(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie", "its death")
    assert marked("LYREBIRD_TOKEN", ONE) == []


def test_how_earlier_generations_ended_is_kept_each_once(folder: RunFolder) -> None:
    start(folder, code="raise SystemExit(3)")
    eventually(lambda: not folder.held(), "its end")
    start(folder, token=TWO)
    run = folder.observe().run
    assert run is not None
    os.kill(run.guardian_pid, signal.SIGKILL)
    eventually(lambda: not folder.held(), "a free lock")
    for token in (THREE, "four"):
        start(folder, token=token, code="pass")
        eventually(lambda: not folder.held(), "its end")
    exits = json.loads((folder.path / "exits.json").read_text())["exits"]
    assert [(each["token"], each["rc"]) for each in exits] == [(ONE, 3), (TWO, None), (THREE, 0)]
    assert exits[1]["problem"] == "its guardian was killed"


def test_ends_that_a_person_hears_of_otherwise_are_told_from_crashes(folder: RunFolder) -> None:
    why = "pathlib.Path(os.environ['LYREBIRD_RUN'], 'gave-up.json').write_text('{\"id\": 1}')"
    start(folder, code=f"import os, pathlib, sys; {why}; sys.exit(1)")
    eventually(lambda: not folder.held(), "its end")
    start(folder, token=TWO)
    run = json.loads((folder.path / "run.json").read_text())
    os.kill(run["guardian_pid"], signal.SIGKILL)
    eventually(lambda: not folder.held(), "a free lock")
    (folder.path / "run.json").write_text(json.dumps({**run, "boot_id": "before"}))
    start(folder, token=THREE)
    exits = json.loads((folder.path / "exits.json").read_text())["exits"]
    assert [each["why"] for each in exits] == ["gave up", "its host was restarted"]
    assert [is_crash(each) for each in exits] == [False, False]


def test_one_that_waits_for_its_start_ends_at_once_when_it_is_asked_and_by_its_lease(folder: RunFolder) -> None:
    for token, ttl_s, why in ((ONE, 60, "asked"), (TWO, 1, "lease expired")):
        assert start(folder, token=token, ttl_s=ttl_s, start_after_s=600)
        run = folder.observe().run
        assert run is not None
        assert run.waits
        if why == "asked":
            folder.ask_to_end(token)
        eventually(lambda: not folder.held(), "its end")
        ended = folder.observe().ended
        assert ended is not None
        assert (ended.token, ended.rc, ended.why) == (token, 0, why)
    assert not (folder.path / "app.log").exists()


def test_one_that_is_killed_while_it_waits_is_no_end_of_the_application(folder: RunFolder) -> None:
    start(folder, code="raise SystemExit(3)")
    eventually(lambda: not folder.held(), "its end")
    for token in (TWO, THREE):
        assert start(folder, token=token, start_after_s=600)
        run = folder.observe().run
        assert run is not None
        assert run.waits
        os.kill(run.guardian_pid, signal.SIGKILL)
        eventually(lambda: not folder.held(), "a free lock")
    start(folder, token="four")
    assert [(each["token"], each["rc"]) for each in folder.exits()] == [(ONE, 3)]


def test_one_that_is_killed_after_its_slow_try_began_is_an_end_of_the_application(folder: RunFolder) -> None:
    assert start(folder, start_after_s=0.2)
    eventually(lambda: (run := folder.observe().run) is not None and run.pid is not None, "its start")
    run = folder.observe().run
    assert run is not None
    os.kill(run.guardian_pid, signal.SIGKILL)
    eventually(lambda: not folder.held(), "a free lock")
    start(folder, token=TWO)
    assert [(each["token"], each["rc"]) for each in folder.exits()] == [(ONE, None)]


def test_one_that_is_killed_before_it_began_at_once_is_an_end_of_the_application(folder: RunFolder) -> None:
    start(folder)
    run = json.loads((folder.path / "run.json").read_text())
    os.kill(run["guardian_pid"], signal.SIGKILL)
    eventually(lambda: not folder.held(), "a free lock")
    (folder.path / "run.json").write_text(json.dumps({**run, "pid": None}))
    start(folder, token=TWO)
    assert [(each["token"], each["rc"]) for each in folder.exits()] == [(ONE, None)]


def test_an_application_that_ends_takes_its_children_along(folder: RunFolder) -> None:
    start(folder, "child")
    eventually((folder.path / "child").exists, "the child")
    folder.ask_to_end(ONE)
    eventually(lambda: not folder.held(), "its end")
    assert marked("LYREBIRD_TOKEN", ONE) == []


def test_nobody_touching_the_lease_ends_the_application(folder: RunFolder) -> None:
    start(folder, ttl_s=0.5)
    eventually(lambda: not folder.held(), "its end")
    ended = folder.observe().ended
    assert ended is not None
    assert (ended.rc, ended.why) == (0, "lease expired")


def test_a_second_guardian_is_turned_away(folder: RunFolder) -> None:
    assert start(folder)
    assert not start(folder, token=TWO)
    run = folder.observe().run
    assert run is not None
    assert run.token == ONE


def test_a_prober_that_takes_the_lock_for_an_instant_does_not_turn_a_guardian_away(folder: RunFolder) -> None:
    import threading

    folder.path.mkdir(parents=True)
    (folder.path / "lock").touch()
    done = threading.Event()

    def probe() -> None:
        while not done.is_set():
            folder.held()

    probers = [threading.Thread(target=probe) for _ in range(2)]
    for prober in probers:
        prober.start()
    try:
        assert start(folder)
    finally:
        done.set()
        for prober in probers:
            prober.join()


def test_a_program_that_does_not_exist_is_told_as_such(folder: RunFolder) -> None:
    launch(
        folder,
        ["/does/not/exist"],
        application_environment(),
        owner="o",
        token=ONE,
        grace_s=1,
        lease_ttl_s=60,
        clock=CLOCK,
    )
    eventually(lambda: not folder.held(), "its end")
    ended = folder.observe().ended
    assert ended is not None
    assert ended.rc == 127
    assert "cannot start /does/not/exist" in folder.log_tail(1)[0]


def test_the_log_of_the_last_generation_is_kept(folder: RunFolder) -> None:
    start(folder, code="print('first')")
    eventually(lambda: not folder.held(), "its end")
    start(folder, token=TWO, code="print('second')")
    eventually(lambda: not folder.held(), "its end")
    assert folder.log_tail(9) == ["second"]
    assert (folder.path / "app.log.1").read_text() == "first\n"


# Prints more than its disk has room for, and notes on another one how far it got.
TALKER = """
import os, pathlib, sys, time
folder, beat = pathlib.Path(os.environ["LYREBIRD_RUN"]), pathlib.Path(sys.argv[1])
n = 0
while not (folder / "stop").exists():
    n += 1
    print("x" * 1000, flush=True)
    beat.write_text(str(n))
    time.sleep(0.002)
print("the last words", flush=True)
"""


class SmallDisk:
    """A file system of 256 KiB; who may not mount one takes from the guardian the right to make files longer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        asked = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(path)]
        self._own = subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def fill(self, guardian: int) -> None:
        if self._own:
            with contextlib.suppress(OSError):
                (self.path / "ballast").write_bytes(b"x" * 300_000)
        else:
            self._limit(guardian, 0)

    def free(self, guardian: int) -> None:
        if self._own:
            (self.path / "ballast").unlink()
        else:
            self._limit(guardian, resource.RLIM_INFINITY)

    def close(self) -> None:
        if self._own:
            subprocess.run(["umount", "--lazy", str(self.path)], check=True)

    @staticmethod
    def _limit(pid: int, size: int) -> None:
        # Python ignores SIGXFSZ: a write that would make a file longer is an OSError.
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if size == resource.RLIM_INFINITY else size, hard))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path / "disk")
    yield made
    made.close()


@pytest.mark.parametrize("asked_while_full", [False, True])
def test_a_full_disk_ends_neither_guardian_nor_application(
    disk: SmallDisk, tmp_path: Path, asked_while_full: bool
) -> None:
    folder, beat = RunFolder(disk.path / "app"), tmp_path / "beat"

    def beats() -> int:
        return int(beat.read_text() or 0) if beat.exists() else 0

    try:
        assert start(folder, str(beat), code=TALKER)
        pid = pid_of(folder)
        guardian = psutil.Process(pid).ppid()
        disk.fill(guardian)
        full_at = beats()
        eventually(lambda: beats() > full_at + 400, "prints into a full disk")
        assert folder.held()
        assert pid_of(folder) == pid
        if asked_while_full:
            assert folder.ask_to_end(ONE)
            CLOCK.sleep(1.0)
            assert folder.held()
        disk.free(guardian)
        if not asked_while_full:
            (folder.path / "app.log").unlink()
            assert folder.ask_to_end(ONE)
        eventually(lambda: not folder.held(), "its end")
        ended = folder.observe().ended
        assert ended is not None
        assert (ended.rc, ended.why) == (0, "asked")
    finally:
        for left in marked("LYREBIRD_TOKEN", ONE):
            os.kill(left, signal.SIGKILL)
        seen = folder.observe()
        if seen.held and seen.run is not None:
            os.kill(seen.run.guardian_pid, signal.SIGKILL)


def test_airflows_own_settings_do_not_reach_the_application() -> None:
    given = {"AIRFLOW__CORE__FERNET_KEY": "k", "LYREBIRD_RUN": "x", "LYREBIRD_KAFKA": "a:1", "PATH": "/bin"}
    names = application_environment(given)
    assert "AIRFLOW__CORE__FERNET_KEY" not in names
    assert "LYREBIRD_RUN" not in names
    assert names["LYREBIRD_KAFKA"] == "a:1"
    assert (Path(names["SPARK_HOME"]) / "bin" / "spark-submit").exists()


def test_another_python_finds_pyspark_in_sparks_own_home() -> None:
    assert application_environment({"PYSPARK_PYTHON": "/opt/python"})["SPARK_HOME"] == str(installed_spark())
    assert application_environment({"SPARK_HOME": "/opt/spark"})["SPARK_HOME"] == "/opt/spark"
