"""An hour of the demo with the lake, while Airflow, the mail server, the disk and the host have their accidents.

Orders go on all the time. Two minutes after each accident's end every application runs. At the end the copies are
right, the audits are clean, and each mail has come once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from functools import partial
from pathlib import Path
from typing import Final

import psutil
import pytest

from demo import pipeline
from demo.extras import EXTRAS, ORDER_SEARCH
from include.outbox.folder import outbox
from supervision.run_folder import RunFolder
from tests.support.platform import Platform, eventually, running_platform
from tests.support.sites import files_of
from tests.support.small_disk import filled, small_disk

pytestmark = pytest.mark.timeout(1200)

SOAK_S: Final = 3600
ROUNDS: Final = 2
WITHIN_S: Final = 120
# The keeper has looked once more by then.
KEEPER_LOOKS_S: Final = 130
DISK: Final = "8g"
STREAMS: Final = (*ORDER_SEARCH.streams, *EXTRAS["lake"].streams)
APPLICATIONS: Final = (*ORDER_SEARCH.applications, *EXTRAS["lake"].applications)
DAGS: Final = ("source_replicate", *STREAMS)
INDEXER: Final = "index_orders"


@dataclass
class Soak:
    """The platform, and what accidents need of it."""

    platform: Platform
    began_s: float = field(default_factory=time.monotonic)
    accidents: int = 0

    def folder(self, application: str) -> RunFolder:
        return RunFolder(self.platform.state / "run" / application)

    def reported_us(self, application: str) -> int:
        """When it last said how far it is, by the disk's clock."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder(application).path / "progress.json").stat().st_mtime_ns // 1000
        return 0

    def all_run(self, within_s: float = WITHIN_S) -> None:
        """Each application has a guardian that nobody asks to end, makes progress from now on, and waits for none."""
        now_us = time.time_ns() // 1000
        end = time.monotonic() + within_s

        def waits() -> list[str]:
            seen = {each: self.folder(each).observe() for each in APPLICATIONS}
            down = [a for a, s in seen.items() if not s.held or s.stop or self.reported_us(a) <= now_us]
            # An indexer reports that it waits for its server, too.
            return down or [a for a in APPLICATIONS if "again_in_s" in self.folder(a).progress()[1]]

        while found := waits():
            if time.monotonic() > end:
                pytest.fail(f"{', '.join(found)} not running {within_s:g} s after the accident's end")
            time.sleep(0.5)

    def kill(self, application: str) -> None:
        """All processes of it but the guardian."""
        run = self.folder(application).observe().run
        assert run is not None
        assert run.pid is not None
        for each in [*psutil.Process(run.pid).children(recursive=True), psutil.Process(run.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()

    def guardian(self, application: str) -> int:
        run = self.folder(application).observe().run
        assert run is not None
        return run.guardian_pid

    def pause(self, dag: str, paused: bool) -> None:
        self.platform.airflow._call("PATCH", f"/api/v2/dags/{dag}", json={"is_paused": paused})


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    with small_disk(DISK) as path:
        yield path


@pytest.fixture(scope="module")
def soak(disk: Path) -> Iterator[Soak]:
    state = disk / "state"
    state.mkdir()
    with running_platform(state) as platform:
        assert files_of("kafka", state) == state / "kafka"
        assert not pipeline.start(platform.airflow, [EXTRAS["lake"]])
        found = Soak(platform)
        found.all_run(300)
        found.began_s = time.monotonic()
        with platform.ordering(rate=3) as shop:
            yield found
        assert shop.counts.placed > SOAK_S


def streams_are_paused_and_unpaused(soak: Soak) -> None:
    """One dies meanwhile: nobody starts it until its DAG is unpaused. Each is mailed, once a day."""
    for dag in DAGS:
        soak.pause(dag, True)
    try:
        soak.kill(INDEXER)
        killed_s = time.monotonic()
        for application in APPLICATIONS:
            eventually(f"mail of {application}", partial(soak.platform.mails, "PAUSED", f" {application} "), 200)
        time.sleep(max(0.0, killed_s + KEEPER_LOOKS_S - time.monotonic()))
        assert not soak.folder(INDEXER).held()
    finally:
        for dag in DAGS:
            soak.pause(dag, False)


def airflow_cleans_its_database(soak: Soak) -> None:
    """All runs, also those that run; new ones take the applications over as they run."""
    pid = soak.platform.server_pid("airflow-scheduler")
    assert pid is not None
    before = {each: soak.guardian(each) for each in APPLICATIONS}
    asked = [sys.executable, "-m", "airflow", "db", "clean", "--yes", "--skip-archive"]
    asked += ["--tables", "dag_run,task_instance,trigger"]
    asked += ["--clean-before-timestamp", datetime.now(UTC).isoformat()]
    done = subprocess.run(asked, env=psutil.Process(pid).environ(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for dag in STREAMS:
        eventually(f"{dag} has a run", partial(soak.platform.airflow.running, dag), 300)
    assert {each: soak.guardian(each) for each in APPLICATIONS} == before


def the_mail_server_is_silent(soak: Soak) -> None:
    """It takes connections and says nothing: what dies is started meanwhile, and mails wait."""
    pid = soak.platform.server_pid("mail")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        run = soak.platform.airflow.trigger("source_snapshot", {"source": "shop", "mode": "start"})
        assert soak.platform.airflow.wait("source_snapshot", run, 180) == "failed"
        soak.kill(INDEXER)
        soak.all_run()
        assert outbox(soak.platform.state).state().waiting
    finally:
        os.kill(pid, signal.SIGCONT)


def the_disk_is_full_for_a_minute(soak: Soak) -> None:
    """Every server and application that writes gets ENOSPC."""
    with filled(soak.platform.state.parent):
        time.sleep(60)


def another_host_has_the_state_folder(soak: Soak) -> None:
    """Its run was started elsewhere, it seems: nobody starts a second one here, until the folder is ours again."""
    folder, dag = soak.folder(INDEXER), f"stream_{INDEXER}"
    run = soak.platform.airflow.running(dag)
    assert run is not None
    before = len(soak.platform.mails("FAILED", INDEXER, "elsewhere"))
    path = folder.path / "run.json"
    ours = path.read_text()
    path.write_text(json.dumps({**json.loads(ours), "host": "elsewhere", "boot_id": "0" * 8}))
    os.kill(soak.guardian(INDEXER), signal.SIGKILL)
    eventually("a mail", lambda: len(soak.platform.mails("FAILED", INDEXER, "elsewhere")) > before, 180)
    assert not folder.held()
    path.write_text(ours)
    # The mail is written while the task still runs, and a run that is just about to fail does so though it is cleared.
    assert soak.platform.airflow.wait(dag, run, 60) == "failed"
    asked = {"dry_run": False, "dag_run_id": run, "only_failed": True, "reset_dag_runs": True}
    soak.platform.airflow._call("POST", f"/api/v2/dags/{dag}/clearTaskInstances", json=asked)


def airflow_and_all_guardians_are_killed(soak: Soak) -> None:
    """Triggerer and scheduler first, so that nobody sees the rest dying."""
    servers = [soak.platform.server_pid(name) for name in ("airflow-triggerer", "airflow-scheduler")]
    for pid in [*servers, *map(soak.guardian, APPLICATIONS)]:
        assert pid is not None
        os.kill(pid, signal.SIGKILL)


def thirty_incidents_open_at_once(soak: Soak) -> None:
    """Thirty tables get rows that cannot be read."""
    names = [f"notices_{soak.accidents}_{number}" for number in range(30)]
    soak.platform.as_root(
        *[f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20), w int NOT NULL)" for name in names],
        *[f"INSERT INTO {name} VALUES (1, 'a', 1)" for name in names],
        "SET SESSION binlog_row_image = MINIMAL",
        *[f"UPDATE {name} SET v = 'c' WHERE id = 1" for name in names],
    )
    for name in names:
        eventually(f"mail of {name}", partial(soak.platform.mails, "INCIDENT", "aside", f"shop.{name}"), WITHIN_S)
    tables = [f"shop.{name}" for name in names]
    done = soak.platform.lyrebird("capture", "resume-table", "--source", "shop", *tables, "--wait", "--timeout", "120")
    assert done.returncode == 0, done.stderr
    soak.platform.as_root(f"DROP TABLE {', '.join(names)}")


ACCIDENTS: Final = (
    streams_are_paused_and_unpaused,
    airflow_cleans_its_database,
    the_mail_server_is_silent,
    the_disk_is_full_for_a_minute,
    another_host_has_the_state_folder,
    airflow_and_all_guardians_are_killed,
    thirty_incidents_open_at_once,
)


@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("turn", range(1, ROUNDS + 1))
def test_every_application_runs_two_minutes_after(soak: Soak, accident: Callable[[Soak], None], turn: int) -> None:
    soak.accidents += 1
    accident(soak)
    soak.all_run()
    # What an accident leaves behind shows itself before the next one.
    due_s = soak.began_s + SOAK_S * soak.accidents / (ROUNDS * len(ACCIDENTS))
    time.sleep(max(20.0, due_s - time.monotonic()))
    soak.all_run()


@pytest.mark.parametrize("dag", ["audit_search", "audit_chain"])
def test_the_copies_are_right(soak: Soak, dag: str) -> None:
    # Orders go on: an audit has what five streams leave it of the machine.
    soak.platform.succeed(dag, within_s=1080)


def test_each_mail_has_come_once(soak: Soak) -> None:
    eventually("nothing waits", lambda: not outbox(soak.platform.state).state().waiting, WITHIN_S)
    assert not outbox(soak.platform.state).state().refused
    sent = {json.loads(each.read_text())["message_id"] for each in (soak.platform.state / "outbox" / "sent").iterdir()}
    files = files_of("mail", soak.platform.state).rglob("*.eml")
    came = Counter(message_from_bytes(each.read_bytes().partition(b"\n")[2])["Message-ID"] for each in files)
    assert len(sent) > len(APPLICATIONS)
    assert came == Counter(sent)
