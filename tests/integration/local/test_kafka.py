"""A real Kafka of the local stack lets in who has its password, through every client that we have."""

from __future__ import annotations

import json
import socket
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from include.errors import Terminal, Transient
from include.lake.reading.kafka_group import KafkaGroupLog
from include.local.stack import Stack
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.kafka.offsets import KafkaOffsets
from include.log.kafka.transaction_end import end_transaction
from include.log.kafka.writer import KafkaWriter
from include.log.ports import TopicSpec
from include.settings.connections import Kafka
from include.settings.deployment import Deployment
from include.settings.environment import environment
from tests.support.log.broker import Broker
from tests.support.paths import ROOT
from tests.support.sites import Started, files_of, opened, started

SHIPPED = ROOT / "include" / "deployment"
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with started(tmp_path_factory.mktemp("stack") / "state", "kafka") as found:
        yield found


@pytest.fixture
def shipped(stack: Started) -> Kafka:
    return Deployment.load(SHIPPED, stack[1]).one("kafka", Kafka)


def strangers(password: str) -> dict[str, dict[str, str]]:
    return {
        "no login": {},
        "another password": {**LOGIN, "sasl.username": "lyrebird", "sasl.password": f"{password}x"},
        "another user": {**LOGIN, "sasl.username": "admin", "sasl.password": password},
    }


def described(port: int) -> bytes:
    """What the controller at this port says of its cluster to one who does not log in (DescribeCluster, version 1)."""
    asked = struct.pack(">hhihB", 60, 1, 7, -1, 0) + struct.pack(">BBB", 0, 2, 0)
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(struct.pack(">i", len(asked)) + asked)
        return connection.recv(4096)


def controller_port(state: Path) -> int:
    return int(json.loads((state / "stack.json").read_text())["ports"]["kafka_controller"])


def test_who_has_no_password_sees_no_topic(stack: Started, shipped: Kafka) -> None:
    for login in strangers(stack[1]["LYREBIRD_KAFKA_PASSWORD"]).values():
        stranger = AdminClient({"bootstrap.servers": shipped.bootstrap, "log_level": 0, **login})
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=3)
    KafkaAdmin(shipped.bootstrap, shipped.options).ensure(TopicSpec("seen", 1, {}))
    assert "seen" in KafkaAdmin(shipped.bootstrap, shipped.options).names()


def test_the_controller_tells_nothing_to_one_who_does_not_log_in(stack: Started) -> None:
    assert described(controller_port(stack[0])) == b""


def test_each_kind_of_client_logs_in_as_the_shipped_deployment_says(shipped: Kafka) -> None:
    place = (shipped.bootstrap, shipped.options)
    KafkaAdmin(*place).ensure(TopicSpec("written", 1, {}))
    writer = KafkaWriter(shipped.bootstrap, "one", shipped.options)
    writer.begin()
    writer.append("written", b"k", b"v")
    writer.commit()
    with closing(KafkaReader(*place)) as reader:
        # The broker's answer to a commit comes before what shows its records.
        until_s = time.monotonic() + 30
        while not (end := reader.end_offsets("written")[0]):
            assert time.monotonic() < until_s
            time.sleep(0.05)
        (record,) = reader.read("written", 0, 0, end)
    assert (record.key, record.value) == (b"k", b"v")
    writer.begin()
    writer.append("written", b"k", b"left open")
    # By a client of another library.
    end_transaction(shipped.bootstrap, "one", [("written", 0)], commit=False, options=shipped.options)
    with closing(KafkaOffsets(shipped.bootstrap, "group", shipped.options)) as offsets:
        offsets.commit({("written", 0): 1})
        until_s = time.monotonic() + 30
        while not (answers := offsets.answers()):
            assert time.monotonic() < until_s
            time.sleep(0.05)
        assert answers == [None]
    assert "written" in {info.name for info in KafkaGroupLog(*place).topics()}


def test_a_login_that_is_refused_or_not_there_is_told_as_such(stack: Started, shipped: Kafka) -> None:
    logins = strangers(stack[1]["LYREBIRD_KAFKA_PASSWORD"])
    with pytest.raises(Transient, match="Kafka refuses the login: list topics") as refused:
        KafkaAdmin(shipped.bootstrap, logins["another password"], timeout_s=3).names()
    assert "Invalid username or password" in refused.value.details["reason"]
    assert logins["another password"]["sasl.password"] not in repr(refused.value)
    with pytest.raises(Transient, match=r"does not answer.*Does it want a login"):
        KafkaAdmin(shipped.bootstrap, timeout_s=3).names()


def test_of_the_broker_s_files_and_the_logs_one_has_the_password_and_is_private(stack: Started) -> None:
    state, env, found = stack
    password = env["LYREBIRD_KAFKA_PASSWORD"]
    assert len(password) >= 20
    files = [path for path in (*files_of("kafka", state).rglob("*"), *(state / "log").iterdir()) if path.is_file()]
    assert {path.name for path in files} >= {"server.properties", "kafka.log", "meta.properties"}
    holding = [path for path in files if password.encode() in path.read_bytes()]
    assert [path.name for path in holding] == ["server.properties"]
    assert stat.S_IMODE(holding[0].stat().st_mode) == 0o600
    (pid,) = (one.pid for one in found.status().processes if one.pid)
    broker = psutil.Process(pid)
    assert password not in " ".join((*broker.cmdline(), *broker.environ().values()))


def test_a_broker_that_a_former_release_started_is_told_of_with_the_way_out(tmp_path: Path) -> None:
    before = Stack(tmp_path / "state", free_ports=True, kafka_login=False)
    try:
        before.up(["kafka"])
        # So the silence of the controller above is that of a refusal.
        assert len(described(controller_port(tmp_path / "state"))) > 20
        env = tmp_path / "state" / "env"
        # As that one has left it, which knew of no such user.
        lines = env.read_text().splitlines(keepends=True)
        env.write_text("".join(line for line in lines if not line.startswith("LYREBIRD_KAFKA_")))
        now = Stack(tmp_path / "state", free_ports=True)
        with pytest.raises(Terminal, match="without a password") as refused:
            now.up(["kafka"])
        assert "lyrebird down" in str(refused.value)
        (running,) = (one.state for one in now.status().processes if one.pid)
        assert running == "running"
        # What begins meanwhile still finds the broker as it is.
        found = Deployment.load(SHIPPED, environment({"LYREBIRD_STATE": str(tmp_path / "state")})).one("kafka", Kafka)
        assert found.options == {}
        assert KafkaAdmin(found.bootstrap).names() == []
    finally:
        before.down()


def test_topics_of_a_broker_without_logins_are_there_when_it_asks_for_one(tmp_path: Path) -> None:
    with opened(tmp_path / "state", kafka_login=False) as site:
        before, after = Broker(site), Broker(replace(site, kafka_login=True))
        try:
            before.start()
            KafkaAdmin(before.address).ensure(TopicSpec("kept", 1, {}))
            before.kill()
            after.start()
            login = {"user": "lyrebird", "password": site.secrets["LYREBIRD_KAFKA_PASSWORD"]}
            kafka = Kafka.model_validate({"bootstrap": after.address, **login})
            assert "kept" in KafkaAdmin(kafka.bootstrap, kafka.options).names()
        finally:
            before.kill()
            after.kill()
