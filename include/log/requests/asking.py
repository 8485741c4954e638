"""Ask the only writer of a topic for something: a record in the topic that it takes requests from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from include.clock import Clock
from include.errors import Terminal, Transient
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.ports import TopicSpec, all_of
from include.log.requests.records import Answer, Request
from include.settings.connections import Kafka

__all__ = ["answer_to", "ask", "ask_and_wait"]

_LOOK_S: Final = 0.5


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
    admin = KafkaAdmin(kafka.bootstrap, kafka.options)
    if admin.describe(topics.answers(topic)) is None:
        return None
    reader = KafkaReader(kafka.bootstrap, kafka.options)
    try:
        records = all_of(reader, topics.answers(topic))
    finally:
        reader.close()
    found = (Answer.parse(record.value) for record in records if record.key == id_.encode() and record.value)
    return max(found, key=lambda answer: answer.at_us, default=None)


def ask_and_wait(
    kafka: Kafka,
    topic: str,
    request: Request,
    clock: Clock,
    wait_s: float,
    *,
    status: str,
    taken_s: float | None = None,
    check: Callable[[], None] = lambda: None,
    tell: Callable[[Answer | None], None] = lambda _answer: None,
) -> Answer | None:
    """Append a request unless its id was answered before, and wait for the last answer; None without any.

    Args:
        kafka: the brokers.
        topic: that is asked about; of capture `cdc.<source>`.
        request: its id is carried out once, however often it is asked.
        clock: waits.
        wait_s: for an answer that says `done` or `refused`; 0: not at all.
        status: the command that tells how the writer is.
        taken_s: longest wait for any answer at all; None: as `wait_s`.
        check: called before a request is sent that was not answered; what it raises keeps it from being sent.
        tell: hears each look.

    Raises:
        Transient: no last answer within the time.
        Terminal: the request was refused.
    """
    answer = answer_to(kafka, topic, request.id)
    if answer is None:
        check()
        ask(kafka, topic, request)
    begun_s = clock.monotonic_s()
    while wait_s and (answer is None or answer.state not in ("done", "refused")):
        waited_s = clock.monotonic_s() - begun_s
        if waited_s > wait_s or (answer is None and taken_s is not None and waited_s > taken_s):
            raise Transient(
                "the request is not done yet" if answer else "nobody answers the request",
                system="log",
                topic=topic,
                id=request.id,
                state=answer.state if answer else "unanswered",
                fix=f"Does the application run that writes it? See `{status}`; ask again with the same id.",
            )
        clock.sleep(_LOOK_S)
        answer = answer_to(kafka, topic, request.id)
        tell(answer)
    if answer is not None and answer.state == "refused":
        raise Terminal(
            "the request was refused",
            reason=answer.note,
            id=request.id,
            fix=f"See `{status}`, and ask anew for what it names.",
        )
    return answer
