"""What a survey makes of answers of Kafka's client that are none."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from include.errors import Transient
from include.log.kafka.log import KafkaReader
from include.log.planning.survey import KafkaSurvey

Answer = int | KafkaException


class Client:
    """An admin client that gives what it was told to, one list of answers for each call."""

    def __init__(self, *answers: list[Answer]) -> None:
        self.answers = list(answers)
        self.described = 0

    def poll(self, _timeout_s: float) -> int:
        return 0

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        given = self.answers.pop(0)
        return {place: _future(answer) for place, answer in zip(asked, given, strict=True)}

    def describe_topics(self, _asked: Any, **_: Any) -> dict[str, Future[Any]]:
        self.described += 1
        found: Future[Any] = Future()
        found.set_result(SimpleNamespace(topic_id="id", partitions=[0, 1]))
        return {"t": found}

    def list_topics(self, name: str, **_: Any) -> Any:
        return SimpleNamespace(topics={name: SimpleNamespace(error=None, partitions={0: 0, 1: 1})})


def _future(answer: Answer) -> Future[Any]:
    found: Future[Any] = Future()
    if isinstance(answer, KafkaException):
        found.set_exception(answer)
    else:
        found.set_result(SimpleNamespace(offset=answer))
    return found


def refused(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def survey(monkeypatch: pytest.MonkeyPatch, client: Client) -> KafkaSurvey:
    monkeypatch.setattr("confluent_kafka.admin.AdminClient", lambda _configuration: client)
    return KafkaSurvey("127.0.0.1:9")


PLACES = [("t", 0), ("t", 1)]


def test_an_offset_that_is_none_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Transient, match="does not answer") as error:
        survey(monkeypatch, Client([7, -1001])).offsets(PLACES, "end")
    assert error.value.details["partition"] == 1


@pytest.mark.parametrize("code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_a_leader_that_has_moved_is_looked_up_and_asked_again_once(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    client = Client([7, refused(code)], [7, 8])
    assert survey(monkeypatch, client).offsets(PLACES, "end") == {("t", 0): 7, ("t", 1): 8}
    assert client.described == 1
    with pytest.raises(Transient):
        survey(monkeypatch, Client([7, refused(code)], [7, refused(code)])).offsets(PLACES, "end")


def test_a_partition_that_does_not_exist_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client([7, refused(KafkaError.UNKNOWN_TOPIC_OR_PART)])
    assert survey(monkeypatch, client).offsets(PLACES, "end") == {("t", 0): 7}
    assert client.described == 0


def test_a_reader_asks_again_for_offsets_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client([7, -1001], [7, 8])
    monkeypatch.setattr("confluent_kafka.admin.AdminClient", lambda _configuration: client)
    assert KafkaReader("127.0.0.1:9").end_offsets("t") == {0: 7, 1: 8}
