"""How anyone asks a running capture for something: a request goes to its topic once, and its answers are looked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

from include.clock import Clock
from include.errors import Terminal, Transient
from include.log.kafka import KafkaAdmin, KafkaReader
from include.log.kafka_writer import KafkaWriter
from include.log.ports import LogReader
from include.log.requests import Answer, Request
from include.log.topics import source_requests
from include.settings.connections import Kafka
from include.source.desk import answers_by_id
from include.source.direct_log import ensure_topics

__all__ = ["ask", "require_done"]

_LOOK_S: Final = 0.5


def ask(
    kafka: Kafka,
    source: str,
    request: Request,
    clock: Clock,
    *,
    wait_s: float = 0.0,
    taken_s: float | None = None,
    check: Callable[[LogReader], None] = lambda _reader: None,
    tell: Callable[[Answer | None], None] = lambda _answer: None,
) -> Answer | None:
    """Append a request unless its id was answered before, and wait for the last answer; None without any.

    Args:
        kafka: the brokers.
        source: whose capture.
        request: its id is carried out once, however often it is asked.
        clock: waits.
        wait_s: for an answer that says `done` or `refused`.
        taken_s: for any answer at all; None: as `wait_s`.
        check: called before a request is sent that was not answered; what it raises keeps it from being sent.
        tell: hears each look.

    Raises:
        Transient: no answer within the time.
    """
    with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:
        ensure_topics(source, KafkaAdmin(kafka.bootstrap, kafka.options))
        answer = answers_by_id(reader, source).get(request.id)
        if answer is None:
            check(reader)
            with closing(KafkaWriter(kafka.bootstrap, f"lyrebird.ask.{source}.{request.id}", kafka.options)) as writer:
                writer.begin()
                writer.append(source_requests(source), request.key(), request.value())
                writer.commit()
        begun_s = clock.monotonic_s()
        while wait_s and (answer is None or answer.state not in ("done", "refused")):
            waited_s = clock.monotonic_s() - begun_s
            if waited_s > wait_s or (answer is None and taken_s is not None and waited_s > taken_s):
                raise Transient(
                    "the request is not done yet" if answer else "capture does not answer a request",
                    system="capture",
                    id=request.id,
                    state=answer.state if answer else "unanswered",
                    fix=f"Does capture run? See `lyrebird capture status --source {source}`; ask again with this id.",
                )
            clock.sleep(_LOOK_S)
            answer = answers_by_id(reader, source).get(request.id)
            tell(answer)
    return answer


def require_done(source: str, id_: str, answer: Answer | None) -> None:
    """Raise `Terminal` where capture refused the request."""
    if answer is not None and answer.state == "refused":
        raise Terminal(
            "capture refused the request",
            reason=answer.note,
            id=id_,
            fix=f"See `lyrebird capture status --source {source}`, and ask anew for what it names.",
        )
