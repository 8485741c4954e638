"""Committed offsets, asked for while the broker cannot tell them yet."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from include.clock import ManualClock
from include.errors import Terminal, Transient
from include.log.kafka import KafkaReader

TOPIC = "orders"


class Broker:
    """Answers in turn; the last one again and again."""

    def __init__(self, *answers: KafkaError | list[TopicPartition]) -> None:
        self.left = list(answers)

    def list_topics(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(topics={TOPIC: SimpleNamespace(error=None, partitions={0: None, 1: None})})

    def list_consumer_group_offsets(self, asked: list[Any], **_: Any) -> dict[str, Future[Any]]:
        answer: Any = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        told: Future[Any] = Future()
        if isinstance(answer, KafkaError):
            told.set_exception(KafkaException(answer))
        else:
            told.set_result(SimpleNamespace(topic_partitions=answer))
        return {asked[0].group_id: told}


def reader(broker: Broker, clock: ManualClock) -> KafkaReader:
    made = KafkaReader("127.0.0.1:1", clock=clock)
    made._admin = broker
    return made


@pytest.mark.parametrize(
    "code", [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE]
)
def test_a_broker_that_still_loads_the_group_is_asked_again(code: int) -> None:
    clock = ManualClock()
    offsets = [TopicPartition(TOPIC, 0, 7), TopicPartition(TOPIC, 1, -1001)]
    assert reader(Broker(KafkaError(code), KafkaError(code), offsets), clock).committed("g", TOPIC) == {0: 7}


def test_one_that_loads_for_ever_is_told_in_the_end() -> None:
    clock = ManualClock()
    began_s = clock.monotonic_s()
    with pytest.raises(Transient, match="committed offsets"):
        reader(Broker(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)), clock).committed("g", TOPIC)
    assert 30 <= clock.monotonic_s() - began_s < 31


def test_what_does_not_pass_is_raised_at_once() -> None:
    clock = ManualClock()
    began_s = clock.monotonic_s()
    with pytest.raises(Terminal):
        reader(Broker(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)), clock).committed("g", TOPIC)
    assert clock.monotonic_s() == began_s
