"""Secrets in the deployment files and in Airflow's connections: nothing that Airflow keeps, mails or lists has one."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.serialization.serialized_objects import DagSerialization

from include.clock import SystemClock
from include.errors import LyrebirdError
from include.local.mail import Mailbox
from include.local.ports import free_port
from include.outbox.folder import outbox
from include.settings.applications import Alerts
from supervision import posting
from supervision.alerts import tell
from supervision.budget import RestartBudget
from supervision.launch import application_environment
from supervision.operator import StreamingOperator
from supervision.run_folder import run_folder
from supervision.spark_operators import SparkStreamingOperator
from supervision.trigger import ApplicationTrigger
from tests.support.planted import appearances, commands_of, files_below, planted
from tests.support.planted_deployment import plant_deployment
from tests.support.shipped_environment import ENV

CLOCK = SystemClock()
ALERTS = Alerts.model_validate({"from": "lyrebird@localhost", "to": ["on-call@localhost"]})
CONNECTED = "planted_conn"
STAYS = """
import time
from include.settings.connections import Elasticsearch, Kafka
from include.settings.deployment import Deployment
deployment = Deployment.load()
print(deployment, deployment.one("kafka", Kafka), deployment.one("elasticsearch", Elasticsearch), flush=True)
time.sleep(600)
"""


class Store(dict[str, Any]):
    """What Airflow keeps for a task over its tries."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))


@pytest.fixture
def sends_mails() -> None:
    """Asks conftest.py for real senders."""


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """In the deployment files, and a further one in a connection that these name."""
    found = plant_deployment(tmp_path / "deployment", "by password")
    found[CONNECTED] = planted(CONNECTED)
    platform = tmp_path / "deployment" / "platform.yaml"
    text = platform.read_text(encoding="utf-8").replace("lyrebird\n", "${conn:kafka.login}\n", 1)
    text += "\nfrom_a_connection: {password: '${conn:kafka.password}'}\n"
    platform.write_text(text, encoding="utf-8")
    known = {"conn_type": "generic", "login": "lyrebird", "password": found[CONNECTED]}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", json.dumps(known))
    for name, value in {**ENV, "LYREBIRD_DEPLOYMENT": str(tmp_path / "deployment")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path / "state"))
    yield found
    outbox(tmp_path / "state").end_sender(CLOCK, within_s=20)


class Supervised:
    """A task that keeps an application running, and what Airflow has of it."""

    def __init__(self, *argv: str) -> None:
        self.operator = StreamingOperator(
            task_id="run",
            application="planted",
            argv=list(argv),
            grace_s=1,
            lease_ttl_s=60,
            poll_s=0.05,
            restarts=RestartBudget(0, 600),
            alerts=ALERTS,
        )
        self.store = Store()
        ti = SimpleNamespace(dag_id="d", run_id="r", task_id="run", map_index=-1, id="t", try_number=1)
        ti.xcom_push = lambda *_: None
        self.context: Any = {"ti": ti, "task_state_store": self.store}

    def start(self) -> ApplicationTrigger:
        with pytest.raises(TaskDeferred) as deferral:
            self.operator.execute(self.context)
        assert isinstance(deferral.value.trigger, ApplicationTrigger)
        return deferral.value.trigger

    def kept(self, trigger: ApplicationTrigger) -> Iterator[tuple[str, bytes]]:
        fields = {name: getattr(self.operator, name) for name in self.operator.template_fields}
        for place, value in (("templates", fields), ("the task's store", self.store), ("trigger", trigger.serialize())):
            yield place, repr(value).encode()


def event(trigger: ApplicationTrigger) -> dict[str, Any]:
    async def first() -> dict[str, Any]:
        trigger.not_before_us = 0
        async for each in trigger.run():
            payload: dict[str, Any] = each.payload
            return payload
        raise AssertionError("no event")

    return asyncio.run(first())


def test_what_airflow_keeps_of_the_dags_has_no_secret(secrets: dict[str, str]) -> None:
    bag = DagBag()
    assert bag.import_errors == {}
    kept = [(name, json.dumps(DagSerialization.to_dict(dag), default=str).encode()) for name, dag in bag.dags.items()]
    assert len(kept) > 10
    assert appearances(secrets, kept) == []


def test_a_running_application_shows_no_secret_but_to_its_own_account(secrets: dict[str, str], tmp_path: Path) -> None:
    one = Supervised(sys.executable, "-c", STAYS)
    trigger = one.start()
    folder = Path(trigger.folder)
    run = json.loads((folder / "run.json").read_text())
    deadline_s = CLOCK.monotonic_s() + 60
    while not (folder / "app.log").read_bytes().endswith(b"\n"):
        assert CLOCK.monotonic_s() < deadline_s
        CLOCK.sleep(0.05)
    seen = [*one.kept(trigger), *commands_of(run["guardian_pid"]), *files_below(tmp_path / "state")]
    environ = Path(f"/proc/{run['pid']}/environ")
    has, mode = planted(CONNECTED).encode() in environ.read_bytes(), stat.S_IMODE(environ.stat().st_mode)
    asyncio.run(trigger.on_kill())
    event(trigger)
    # It has what it needs, where no other account looks.
    assert (has, mode) == (True, 0o400)
    assert b"SecretStr('**********')" in (folder / "app.log").read_bytes()
    assert appearances(secrets, [*seen, *files_below(tmp_path / "state")]) == []


def test_a_failure_and_its_mails_show_no_secret(
    secrets: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sends_mails: None
) -> None:
    mailbox = Mailbox(tmp_path / "mailbox", CLOCK)
    secrets["smtp password"] = planted("smtp password")
    logins, port = list[str](), free_port()

    def let_in(_server: Any, _session: Any, _envelope: Any, _way: str, login: Any) -> AuthResult:
        assert isinstance(login, LoginPassword)
        logins.append(login.password.decode())
        return AuthResult(success=True)

    server = Controller(mailbox, hostname="127.0.0.1", port=port, authenticator=let_in, auth_require_tls=False)
    server.start()
    try:
        smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "login": "lyrebird"}
        smtp |= {
            "password": secrets["smtp password"],
            "extra": {"disable_ssl": True, "disable_tls": True, "timeout": 30},
        }
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(smtp))
        one = Supervised(sys.executable, "-m", "include", "table", "status")
        trigger = one.start()
        with pytest.raises((LyrebirdError, AirflowFailException)) as failed:
            one.operator.resume(one.context, event(trigger))
        incident = {"id": "i:1", "kind": "i", "text": str(failed.value), "fix": "lyrebird table status"}
        assert tell(run_folder("planted"), ALERTS, [incident])
        posting.ensure_sender()
        seen = [*commands_of(posting._started[-1].pid)]
        deadline_s = CLOCK.monotonic_s() + 40
        while not mailbox.messages():
            assert CLOCK.monotonic_s() < deadline_s, outbox(tmp_path / "state").state()
            CLOCK.sleep(0.05)
    finally:
        server.stop()
    assert logins == [secrets["smtp password"]]
    words = json.dumps(mailbox.messages())
    assert "Kafka refuses this" in words
    seen += [("the mail", words.encode()), ("the error", repr(failed.value).encode()), *one.kept(trigger)]
    assert appearances(secrets, [*seen, *files_below(tmp_path / "state"), *files_below(tmp_path / "mailbox")]) == []


def test_the_command_that_starts_spark_has_no_secret(secrets: dict[str, str], tmp_path: Path) -> None:
    names = application_environment(os.environ)
    assert names["LYREBIRD_CONN_KAFKA_PASSWORD"] == secrets[CONNECTED]
    operator = SparkStreamingOperator(task_id="run", application="a", entry="spark_apps/index_documents.py")
    said = repr(operator.command(names)).encode()
    assert b"spark-submit" in said
    assert appearances(secrets, [("the command", said), *files_below(tmp_path / "state")]) == []
