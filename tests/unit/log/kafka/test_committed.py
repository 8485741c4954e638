"""Committed offsets, asked for while the broker cannot tell them yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from include.clock import ManualClock
from include.errors import Terminal, Transient
from include.log.kafka.log import KafkaReader

TOPIC = "orders"


class Broker:
    """Answers in turn; the last one again and again."""

    def __init__(self, *answers: KafkaError | list[TopicPartition]) -> None:
        self.left = list(answers)
        self.configurations: list[dict[str, Any]] = []
        self.closed = 0

    def consumer(self, configuration: dict[str, Any]) -> Broker:
        self.configurations.append(configuration)
        return self

    def list_topics(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(topics={TOPIC: SimpleNamespace(error=None, partitions={0: None, 1: None})})

    def committed(self, _asked: list[Any], **_: Any) -> list[TopicPartition]:
        answer = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        return answer

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def reader(broker: Broker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> KafkaReader:
    monkeypatch.setattr("include.log.kafka.errors.Consumer", broker.consumer)
    made = KafkaReader("127.0.0.1:1", clock=clock)
    made._admin = broker
    return made


@pytest.mark.parametrize(
    "code", [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE]
)
def test_a_broker_that_still_loads_the_group_is_asked_again(
    code: int, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = [TopicPartition(TOPIC, 0, 7), TopicPartition(TOPIC, 1, -1001)]
    broker = Broker(KafkaError(code), KafkaError(code), offsets)
    assert reader(broker, clock, monkeypatch).committed("g", TOPIC) == {0: 7}
    assert broker.closed == 1


def test_one_that_loads_for_ever_is_told_in_the_end(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    began_s = clock.monotonic_s()
    broker = Broker(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
    with pytest.raises(Transient, match="committed offsets"):
        reader(broker, clock, monkeypatch).committed("g", TOPIC)
    assert 30 <= clock.monotonic_s() - began_s < 31
    assert broker.closed == 1


def test_what_does_not_pass_is_raised_at_once(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    began_s = clock.monotonic_s()
    broker = Broker(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(Terminal):
        reader(broker, clock, monkeypatch).committed("g", TOPIC)
    assert clock.monotonic_s() == began_s
    assert broker.closed == 1


def test_it_asks_as_the_group_for_what_is_decided_and_commits_nothing(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker([TopicPartition(TOPIC, 0, 7)])
    reader(broker, clock, monkeypatch).committed("g", TOPIC)
    (asked,) = broker.configurations
    assert (asked["group.id"], asked["isolation.level"], asked["enable.auto.commit"]) == ("g", "read_committed", False)
