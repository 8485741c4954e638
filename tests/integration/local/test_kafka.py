"""A real Kafka of the local stack lets in who has its password, through every client that we have."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from include.errors import LyrebirdError, Terminal
from include.lake.reading.kafka_group import KafkaGroupLog
from include.local.stack import Stack
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.kafka.offsets import KafkaOffsets
from include.log.kafka.transaction_end import end_transaction
from include.log.kafka.writer import KafkaWriter
from include.log.ports import TopicSpec
from include.settings.connections import Kafka
from include.settings.deployment import Deployment
from tests.support.paths import ROOT
from tests.support.sites import files_of

Started = tuple[Path, dict[str, str], Stack]
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    state = tmp_path_factory.mktemp("stack") / "state"
    found = Stack(state, free_ports=True)
    try:
        yield state, found.up(["kafka"]), found
    finally:
        found.down()


@pytest.fixture
def shipped(stack: Started) -> Kafka:
    return Deployment.load(ROOT / "include" / "deployment", stack[1]).one("kafka", Kafka)


def strangers(password: str) -> dict[str, dict[str, str]]:
    return {
        "no login": {},
        "another password": {**LOGIN, "sasl.username": "lyrebird", "sasl.password": f"{password}x"},
        "another user": {**LOGIN, "sasl.username": "admin", "sasl.password": password},
    }


def test_who_has_no_password_sees_no_topic_at_the_broker_s_port_nor_at_the_controller_s(
    stack: Started, shipped: Kafka
) -> None:
    state, env, _ = stack
    ports = json.loads((state / "stack.json").read_text())["ports"]
    for port in (ports["kafka"], ports["kafka_controller"]):
        for login in strangers(env["LYREBIRD_KAFKA_PASSWORD"]).values():
            stranger = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0, **login})
            with pytest.raises(KafkaException):
                stranger.list_topics(timeout=3)
    KafkaAdmin(shipped.bootstrap, shipped.options).ensure(TopicSpec("seen", 1, {}))
    assert "seen" in KafkaAdmin(shipped.bootstrap, shipped.options).names()


def test_each_kind_of_client_logs_in_as_the_shipped_deployment_says(shipped: Kafka) -> None:
    place = (shipped.bootstrap, shipped.options)
    KafkaAdmin(*place).ensure(TopicSpec("written", 1, {}))
    writer = KafkaWriter(shipped.bootstrap, "one", shipped.options)
    writer.begin()
    writer.append("written", b"k", b"v")
    writer.commit()
    with closing(KafkaReader(*place)) as reader:
        (record,) = reader.read("written", 0, 0, reader.end_offsets("written")[0])
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


def test_a_client_without_a_login_is_told_of_by_name(stack: Started, shipped: Kafka) -> None:
    wrong = strangers(stack[1]["LYREBIRD_KAFKA_PASSWORD"])["another password"]
    with pytest.raises(LyrebirdError, match="Kafka") as refused:
        KafkaAdmin(shipped.bootstrap, wrong, timeout_s=3).names()
    assert wrong["sasl.password"] not in repr(refused.value)


def test_the_password_is_in_a_private_file_alone(stack: Started) -> None:
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
        now = Stack(tmp_path / "state", free_ports=True)
        with pytest.raises(Terminal, match="without a password") as refused:
            now.up(["kafka"])
        assert "lyrebird down" in str(refused.value)
        (running,) = (one.state for one in now.status().processes if one.pid)
        assert running == "running"
    finally:
        before.down()
