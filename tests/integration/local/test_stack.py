"""The stack's life with real processes; only light services, each test in a state folder of its own."""

import json
import os
import shutil
import signal
import smtplib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import psutil
import pytest

from include.clock import SystemClock
from include.errors import Terminal
from include.local import process
from include.local.process import Launch
from include.local.recipes import recipe
from include.local.recipes.probe import get_json
from include.local.records import Records, ServerState
from include.local.services import Service, service
from include.local.site import Site
from include.local.stack import Stack
from tests.support.sites import files_of

CLOCK = SystemClock()


def eventually(seen: Callable[[], Any], within_s: float = 40.0) -> Any:
    begin = CLOCK.monotonic_s()
    while CLOCK.monotonic_s() - begin < within_s:
        found = seen()
        if found:
            return found
        CLOCK.sleep(0.1)
    pytest.fail(f"not seen within {within_s} s")


def mails(env: dict[str, str]) -> Any:
    """What the catcher lists; None where it does not answer."""
    return get_json(
        f"{env['LYREBIRD_MAIL']}/messages.json", 5, (env["LYREBIRD_MAIL_USER"], env["LYREBIRD_MAIL_PASSWORD"])
    )


def sent(env: dict[str, str], mail: EmailMessage) -> None:
    host, port = env["LYREBIRD_SMTP"].split(":")
    with smtplib.SMTP(host, int(port), timeout=10) as client:
        client.login(env["LYREBIRD_MAIL_USER"], env["LYREBIRD_MAIL_PASSWORD"])
        client.send_message(mail)


def pids(stack: Stack) -> dict[str, int]:
    return {one.process: one.pid for one in stack.status().processes if one.pid}


def left_of(state: Path) -> list[str]:
    """Processes that name the state folder in their arguments, environment or working folder."""
    found = []
    for one in psutil.process_iter():
        try:
            if str(state) in " ".join(one.cmdline()) or one.environ().get("LYREBIRD_STATE") == str(state):
                found.append(f"{one.pid} {one.name()}")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path / "state", free_ports=True)
    yield made
    made.down()
    assert left_of(tmp_path / "state") == []


def test_up_twice_starts_once_and_down_leaves_no_process_and_no_port(stack: Stack, tmp_path: Path) -> None:
    first = stack.up(["s3", "mail", "kafka"])
    running = pids(stack)
    assert set(running) == {"s3", "mail", "kafka"}
    assert stack.up(["s3", "mail", "kafka"]) == first
    assert pids(stack) == running
    assert stack.down() == ["kafka", "mail", "s3"]
    assert left_of(tmp_path / "state") == []
    for name in ("LYREBIRD_KAFKA", "LYREBIRD_SMTP"):
        host, port = first[name].split(":")
        with socket.socket() as probe:
            assert probe.connect_ex((host, int(port))) != 0
    assert stack.down() == []


def test_a_killed_server_is_started_again(stack: Stack) -> None:
    stack.up(["mail", "s3"])
    before = pids(stack)["mail"]
    os.kill(before, signal.SIGKILL)
    after = eventually(lambda: pids(stack).get("mail") not in {None, before} and pids(stack)["mail"])
    assert after != before
    row = next(one for one in stack.status().processes if one.process == "mail")
    assert (row.state, row.deaths) == ("running", 1)


def test_without_its_supervisor_the_stack_still_goes_down(stack: Stack, tmp_path: Path) -> None:
    stack.up(["mail", "s3"])
    supervisor = stack.status().supervisor
    assert supervisor
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: stack.status().supervisor is None)
    assert set(pids(stack)) == {"mail", "s3"}
    assert stack.down() == ["mail", "s3"]
    assert left_of(tmp_path / "state") == []


def test_a_new_supervisor_adopts_the_servers_of_a_killed_one(stack: Stack) -> None:
    stack.up(["mail"])
    running, supervisor = pids(stack), stack.status().supervisor
    assert supervisor
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: stack.status().supervisor is None)
    stack.up(["mail"])
    assert stack.status().supervisor not in {None, supervisor}
    assert pids(stack) == running
    os.kill(running["mail"], signal.SIGKILL)
    eventually(lambda: pids(stack).get("mail") not in {None, running["mail"]})


def test_a_taken_port_is_refused_with_its_owner_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setenv("LYREBIRD_PORT_SMTP", str(port))
        with pytest.raises(Terminal, match=rf"port {port} is in use by pid {os.getpid()} \(.+\).*LYREBIRD_PORT_SMTP"):
            Stack(tmp_path / "state").up(["mail"])
    assert left_of(tmp_path / "state") == []


@pytest.fixture
def _without_mails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mail catcher ends at its start: there is a file where it needs a folder."""
    prepare = recipe(service("mail")).prepare

    def broken(site: Site, row: Service) -> tuple[Launch, ...]:
        (launch,) = prepare(site, row)
        file = site.folder(row) / "file"
        file.write_text("in the way")
        words = (f"--folder={file}" if word.startswith("--folder=") else word for word in launch.argv)
        return (replace(launch, argv=tuple(words)),)

    monkeypatch.setattr(recipe(service("mail")), "prepare", broken)


@pytest.mark.usefixtures("_without_mails")
def test_a_service_that_fails_is_named_with_its_log_and_nothing_is_left(tmp_path: Path) -> None:
    state = tmp_path / "state"
    stack = Stack(state, free_ports=True)
    with pytest.raises(Terminal, match=r"mail did not come up: mail exited with 1: .*FileExistsError.*The log: "):
        stack.up(["s3", "mail"])
    assert pids(stack) == {}
    assert stack.status().supervisor is None
    assert left_of(state) == []
    stack.down()  # with the data of what did come up


@pytest.mark.usefixtures("_without_mails")
def test_the_error_of_an_earlier_start_is_not_taken_for_the_cause_of_this_failure(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "log").mkdir(parents=True)
    (state / "log" / "mail.log").write_text("ERROR of yesterday\n")
    with pytest.raises(Terminal, match="FileExistsError") as told:
        Stack(state, free_ports=True).up(["mail"])
    assert "yesterday" not in str(told.value)


@pytest.mark.usefixtures("_without_mails")
def test_a_failure_leaves_what_ran_before_it(stack: Stack) -> None:
    stack.up(["s3"])
    running = pids(stack)
    with pytest.raises(Terminal, match="mail did not come up"):
        stack.up(["mail"])
    assert pids(stack) == running
    assert stack.status().supervisor is not None


def test_a_server_that_dies_again_and_again_is_given_up_visibly(stack: Stack, tmp_path: Path) -> None:
    stack.up(["mail"])
    state = tmp_path / "state"
    # From now on it cannot start any more.
    folder = files_of("mail", state)
    shutil.rmtree(folder)
    folder.write_text("in the way")
    os.kill(pids(stack)["mail"], signal.SIGKILL)

    def given_up() -> Any:
        row = next(one for one in stack.status().processes if one.process == "mail")
        return row if row.state == "gave up" else None

    row = eventually(given_up)
    assert row.note.startswith("gave up after 5 deaths in ")
    assert "mail: gave up after 5 deaths" in (state / "log" / "supervisor.log").read_text()
    folder.unlink()
    stack.up(["mail"])
    assert given_up() is None
    assert "mail" in pids(stack)


def test_two_stacks_live_side_by_side(stack: Stack, tmp_path: Path) -> None:
    other = Stack(tmp_path / "other", free_ports=True)
    try:
        here, there = stack.up(["mail"]), other.up(["mail"])
        assert here["LYREBIRD_SMTP"] != there["LYREBIRD_SMTP"]
        stack.down()
        assert mails(there) == []
    finally:
        other.down()


def test_a_stack_for_tests_takes_another_port_where_its_own_was_taken_meanwhile(stack: Stack, tmp_path: Path) -> None:
    s3 = stack.up(["s3"])["LYREBIRD_S3"]
    port = json.loads((tmp_path / "state" / "stack.json").read_text())["ports"]["smtp"]
    with socket.create_server(("127.0.0.1", port)):
        found = stack.up(["mail"])
        assert found["LYREBIRD_SMTP"] != f"127.0.0.1:{port}"
        assert mails(found) == []
        assert stack.up(["s3"])["LYREBIRD_S3"] == s3


def test_only_what_was_started_is_stopped(tmp_path: Path) -> None:
    state = tmp_path / "state"
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        # As after a reboot: the pid of the record belongs to somebody else now.
        Records(state).write(ServerState("s3", "running", "x", pid=stranger.pid, started=1.0))
        assert Stack(state).down() == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.communicate()


def test_down_ends_the_guardians_of_applications(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "run" / "assemble_orders"
    folder.mkdir(parents=True)
    guardian = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    identity = process.identify(guardian.pid)
    assert identity
    run = {"guardian_pid": identity.pid, "guardian_start": identity.started, "pid": 0}
    (folder / "run.json").write_text(json.dumps(run))
    assert Stack(tmp_path / "state").down() == ["assemble_orders"]
    guardian.communicate()
    assert guardian.returncode == -signal.SIGTERM


def test_mail_sent_to_the_catcher_is_listed_and_kept_over_a_restart(stack: Stack) -> None:
    found = stack.up(["mail"])
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "airflow@localhost", "ops@localhost", "Task failed"
    mail.set_content("see the log")
    sent(found, mail)
    (listed,) = mails(found)
    assert (listed["subject"], listed["to"]) == ("Task failed", ["ops@localhost"])
    os.kill(pids(stack)["mail"], signal.SIGKILL)
    assert eventually(lambda: mails(found)) == [listed]


def test_nobody_else_reads_what_servers_write_also_where_an_older_version_left_it_open(
    stack: Stack, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    (state / "run").mkdir(parents=True)
    state.chmod(0o755)
    (state / "run").chmod(0o755)
    found = stack.up(["mail", "s3", "kafka", "mariadb"])
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@localhost", "b@localhost", "secret"
    sent(found, mail)
    # An account of its own, where root starts servers, may pass but not look.
    assert state.stat().st_mode & 0o777 == (0o711 if os.geteuid() == 0 else 0o700)
    assert {path.name for path in state.iterdir() if path.is_dir() and path.stat().st_mode & 0o077} == set()
    (kept,) = files_of("mail", state).glob("*.eml")
    for path in (kept, state / "log" / "kafka.log", files_of("kafka", state) / "data" / "meta.properties"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_env_file_leads_to_the_servers_and_is_private(stack: Stack, tmp_path: Path) -> None:
    found = stack.up(["mail"])
    env = tmp_path / "state" / "env"
    assert env.stat().st_mode & 0o777 == 0o600
    lines = dict(line.split("=", 1) for line in env.read_text().splitlines())
    assert lines["LYREBIRD_MAIL"] == found["LYREBIRD_MAIL"]
    assert "LYREBIRD_KAFKA" not in lines
    assert len(lines["LYREBIRD_MYSQL_ROOT_PASSWORD"]) >= 20
