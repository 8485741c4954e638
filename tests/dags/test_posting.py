"""Mails from a task to a mail server: the outbox, the process that sends, Airflow's connection."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.smtp.hooks.smtp import SmtpHook

from include.clock import ManualClock, SystemClock
from include.local import status
from include.local.mail import Mailbox, serve
from include.outbox.folder import Mail, outbox
from supervision import posting

CLOCK = SystemClock()


@pytest.fixture
def sends_mails() -> None:
    """Asks conftest.py for real senders."""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sends_mails: None) -> Iterator[Path]:
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path))
    yield tmp_path
    outbox(tmp_path).end_sender(CLOCK, within_s=20)
    for process in posting._started:
        process.wait(20)


def goes_through(monkeypatch: pytest.MonkeyPatch, port: int, **extra: Any) -> None:
    extra = {"disable_ssl": True, "disable_tls": True, **extra}
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def eventually(there: Callable[[], Any]) -> Any:
    deadline_s = CLOCK.monotonic_s() + 40
    while not (found := there()):
        assert CLOCK.monotonic_s() < deadline_s
        CLOCK.sleep(0.05)
    return found


def mail(identity: str) -> Mail:
    return Mail(identity, "lyrebird@localhost", ("on-call@localhost",), identity, "<p>words</p>")


def test_what_waited_for_a_silent_server_arrives_once_when_it_is_back(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    goes_through(monkeypatch, port, timeout=0.5)
    box = outbox(state)
    with socket.create_server(("127.0.0.1", port)) as silent:
        silent.listen(64)
        began_s = CLOCK.monotonic_s()
        for number in range(30):
            posting.post(mail(f"i{number}"))
            posting.ensure_sender()
        # Nobody has waited for the server.
        assert CLOCK.monotonic_s() - began_s < 30 * 0.5
        assert len([each for each in posting._started if each.poll() is None]) >= 1
        eventually(lambda: box.state().problem)
        shown = status.read(state, ManualClock()).mails
        assert (shown.waiting, shown.refused) == (30, 0)
        # The sender is killed meanwhile, and started by the next who looks.
        for process in posting._started:
            process.kill()
            process.wait()
        assert not box.has_sender()
    mailbox = Mailbox(tmp_path / "mail", CLOCK)
    stop = serve(mailbox, ("127.0.0.1", port), ("127.0.0.1", 0))
    try:
        posting.ensure_sender()
        eventually(lambda: not box.state().waiting)
    finally:
        stop()
    assert sorted(each["subject"] for each in mailbox.messages()) == sorted(f"i{number}" for number in range(30))
    assert box.end_sender(CLOCK, within_s=20)
    assert not box.has_sender()


def test_without_a_connection_mails_wait_and_nobody_is_harmed(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SMTP_DEFAULT")
    posting.post(mail("i"))
    posting.ensure_sender()
    assert outbox(state).state().waiting == 1


def test_the_password_is_in_no_file_no_command_and_no_environment(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        secret = {"conn_type": "smtp", "host": "127.0.0.1", "port": silent.getsockname()[1], "password": "hush-7"}
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps({**secret, "login": "u"}))
        posting.post(mail("i"))
        posting.ensure_sender()
        proc = Path(f"/proc/{posting._started[-1].pid}")
        eventually(outbox(state).has_sender)
        seen = [(proc / name).read_bytes() for name in ("cmdline", "environ")]
        seen += [path.read_bytes() for path in state.rglob("*") if path.is_file()]
        assert not any(b"hush-7" in each for each in seen)


@pytest.mark.parametrize(
    ("extra", "settings"),
    [
        ({}, {"ssl": True, "starttls": True, "verify": True, "timeout_s": 5.0}),
        ({"disable_ssl": True, "ssl_context": "none", "timeout": 30}, {"ssl": False, "verify": False, "timeout_s": 30}),
        (
            {"auth_type": "oauth2", "access_token": "t", "from_email": "a@x", "disable_tls": True},
            {"token": "t", "user": "a@x", "starttls": False},
        ),
    ],
)
def test_settings_are_those_of_airflows_own_hook(
    extra: dict[str, Any], settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps({"conn_type": "smtp", "host": "h", "extra": extra}))
    made = posting.settings_of(SmtpHook.get_connection("smtp_default"))
    assert {name: getattr(made, name) for name in settings} == settings
    assert (made.host, made.port) == ("h", 0)
