"""Ask the only writer of a topic for something: a record in the topic that it takes requests from."""

from __future__ import annotations

from include.log import topics
from include.log.kafka import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.ports import TopicSpec
from include.log.requests import Answer, Request
from include.log.spoken import all_of
from include.settings.connections import Kafka

__all__ = ["answer_to", "ask"]


def ask(kafka: Kafka, topic: str, request: Request) -> None:
    """Append a request about `topic`; raises `Transient` when the log does not answer."""
    admin = KafkaAdmin(kafka.bootstrap, kafka.options)
    for name in (topics.requests(topic), topics.answers(topic)):
        admin.ensure(TopicSpec(name, 1, topics.policy(name)))
    writer = KafkaWriter(kafka.bootstrap, f"request.{request.id}", kafka.options)
    try:
        writer.begin()
        writer.append(topics.requests(topic), request.key(), request.value())
        writer.commit()
    finally:
        writer.close()


def answer_to(kafka: Kafka, topic: str, id_: str) -> Answer | None:
    """The newest answer to a request; None when nobody has taken it in."""
    reader = KafkaReader(kafka.bootstrap, kafka.options)
    try:
        records = all_of(reader, topics.answers(topic))
    finally:
        reader.close()
    found = (Answer.parse(record.value) for record in records if record.key == id_.encode() and record.value)
    return max(found, key=lambda answer: answer.at_us, default=None)
