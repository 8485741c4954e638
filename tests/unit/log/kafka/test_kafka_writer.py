"""What a writer does with a client that does not come back; real brokers are in the contract."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from include.errors import Restart, Transient
from include.log.kafka import writer as kafka_writer
from include.log.kafka.writer import KafkaWriter


class Client:
    """A producer whose `send_offsets_to_transaction` is given."""

    def __init__(self, send: Any) -> None:
        self.committed = False
        self.asked = 0
        self.send_offsets_to_transaction = send

    def init_transactions(self, _seconds: float) -> None: ...

    def begin_transaction(self) -> None: ...

    def flush(self, _seconds: float) -> int:
        return 0

    def commit_transaction(self, _seconds: float) -> None:
        self.committed = True

    def consumer_group_metadata(self) -> object:
        return object()

    def produce(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def list_topics(self, *_: object, **__: object) -> None:
        self.asked += 1


def writer(monkeypatch: pytest.MonkeyPatch, client: Client) -> KafkaWriter:
    monkeypatch.setattr("include.log.kafka.errors.Producer", lambda _configuration: client)
    monkeypatch.setattr("include.log.kafka.errors.Consumer", lambda _configuration: client)
    monkeypatch.setattr(kafka_writer, "_CALL_S", 0.05)
    made = KafkaWriter("127.0.0.1:9", "w", timeout_s=0.1)
    made.begin()
    return made


def test_a_client_that_never_comes_back_is_given_up_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    client = Client(lambda *_: released.wait(30))
    hanging = writer(monkeypatch, client)
    begun_s = time.monotonic()
    with pytest.raises(Restart, match="does not come back"):
        hanging.commit("g", {("t", 0): 1})
    assert time.monotonic() - begun_s < 10
    assert not client.committed
    assert client.asked == 1
    with pytest.raises(Restart):
        hanging.abort()
    hanging.close()
    released.set()


def test_a_client_that_comes_back_now_and_then_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    begun_s = time.monotonic()

    def away(*_: object) -> None:
        if time.monotonic() - begun_s < 0.5:
            time.sleep(0.05)
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, "moving", False, True))

    client = Client(away)
    moving = writer(monkeypatch, client)
    moving._timeout_s = 5.0
    moving.commit("g", {("t", 0): 1})
    assert client.committed
    assert time.monotonic() - begun_s >= 0.5


def test_what_the_client_says_of_the_offsets_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "gone"))

    client = Client(refused)
    with pytest.raises(Transient):
        writer(monkeypatch, client).commit("g", {("t", 0): 1})
    assert not client.committed


def test_offsets_that_were_sent_are_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    client = Client(lambda positions, *_: sent.append([(each.topic, each.offset) for each in positions]))
    writer(monkeypatch, client).commit("g", {("t", 0): 7})
    assert sent == [[("t", 7)]]
    assert client.committed


def test_a_client_that_loses_its_own_error_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = writer(monkeypatch, Client(lambda *_: None))

    def flush(_seconds: float) -> int:
        raise SystemError("<method 'flush'> returned NULL without setting an exception")

    monkeypatch.setattr(lost._producer, "flush", flush)
    with pytest.raises(Restart, match=r"without an answer \(flush\) .*returned NULL"):
        lost.next_offsets()
