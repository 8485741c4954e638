"""What only the real log can show: whose cluster answers, and servers that do not."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from include.clock import SystemClock
from include.errors import Fenced, Restart, Terminal, Transient
from include.local.ports import free_port
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.ports import TopicSpec


def test_the_cluster_that_answers_tells_its_id(kafka: str) -> None:
    assert KafkaAdmin(kafka).cluster_id() == KafkaAdmin(kafka).cluster_id() != ""


def test_a_server_that_is_away_is_named_with_the_next_step() -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    admin = KafkaAdmin(nowhere, timeout_s=1)
    reader = KafkaReader(nowhere, timeout_s=1)
    for call in (
        admin.names,
        admin.cluster_id,
        lambda: admin.describe("t"),
        lambda: admin.ensure(TopicSpec("t", 1)),
        lambda: reader.end_offsets("t"),
        lambda: list(reader.read("t", 0, 0, 1)),
        lambda: KafkaWriter(nowhere, "w", timeout_s=1),
    ):
        with pytest.raises(Transient, match=rf"does not answer.*{nowhere}.*lyrebird status") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_options_reach_the_client_and_win(kafka: str, unique: str) -> None:
    # A maximum that the record exceeds: refused by the client only if it heard of the option.
    admin = KafkaAdmin(kafka)
    admin.ensure(TopicSpec(unique, 1))
    writer = KafkaWriter(kafka, unique, {"message.max.bytes": 2000})
    writer.begin()
    writer.append(unique, b"k", b"x" * 3000)
    with pytest.raises(Terminal, match=f"large.*{unique}|{unique}.*large"):
        writer.next_offsets()
    writer.abort()
    writer.close()
    admin.delete(unique)


def test_what_befell_an_earlier_record_is_told_though_nobody_waits_for_its_delivery(kafka: str, unique: str) -> None:
    # The broker refuses the first, and with it the whole transaction; the others are not even sent.
    admin = KafkaAdmin(kafka)
    admin.ensure(TopicSpec(unique, 1, {"max.message.bytes": "2000"}))
    writer = KafkaWriter(kafka, unique)
    writer.begin()
    for size in (3000, 10):
        writer.append(unique, b"k", random.randbytes(size))
    SystemClock().sleep(1)
    with pytest.raises(Terminal, match=f"{unique}.*large|large.*{unique}"):
        writer.commit()
    writer.abort()
    writer.close()
    admin.delete(unique)


def test_a_writer_that_is_overtaken_in_its_commits_always_says_that_it_is_fenced(kafka: str, unique: str) -> None:
    # Some of these commits are answered by UNKNOWN_SERVER_ERROR, which says nothing of another writer.
    KafkaAdmin(kafka).ensure(TopicSpec(unique, 1))
    kinds: list[type[Exception]] = []

    def commits(writer: KafkaWriter) -> None:
        try:
            while True:
                writer.begin()
                writer.append(unique, b"k", b"v")
                writer.commit()
        except Exception as error:  # noqa: BLE001 - its kind is what is asked
            kinds.append(type(error))
        finally:
            writer.close()

    for number in range(10):
        first = KafkaWriter(kafka, f"{unique}.{number}")
        thread = threading.Thread(target=commits, args=(first,), daemon=True)
        thread.start()
        SystemClock().sleep(0.1 + random.random() / 20)
        second = KafkaWriter(kafka, f"{unique}.{number}")
        second.begin()
        second.append(unique, b"k", b"w")
        second.commit()
        thread.join(60)
        second.close()
    assert kinds == [Fenced] * 10


class _Unsure:
    """A producer whose commit a broker refuses without a reason."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def commit_transaction(self, _timeout_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN, "no reason", txn_requires_abort=True))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


class _Losing:
    """A producer that loses the error of a flush on its way, as the client does when two callbacks raise at once."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def flush(self, timeout_s: float) -> int:
        with contextlib.suppress(KafkaException, SystemError):
            self._producer.flush(timeout_s)
        raise SystemError("<method 'flush'> returned a result with an exception set")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


@pytest.mark.parametrize("overtaken", [False, True])
def test_an_error_that_the_client_loses_is_told_as_fenced_where_it_was(
    kafka: str, unique: str, overtaken: bool
) -> None:
    KafkaAdmin(kafka).ensure(TopicSpec(unique, 1))
    first = KafkaWriter(kafka, unique)
    first.begin()
    first.append(unique, b"k", b"v")
    first._producer = _Losing(first._producer)
    second = KafkaWriter(kafka, unique) if overtaken else None
    with pytest.raises(Fenced if overtaken else Restart):
        first.next_offsets()
    first.close()
    if second is not None:
        second.close()


@pytest.mark.parametrize("overtaken", [False, True])
def test_a_commit_that_is_refused_without_a_reason_is_fenced_only_for_who_was_overtaken(
    kafka: str, unique: str, overtaken: bool
) -> None:
    KafkaAdmin(kafka).ensure(TopicSpec(unique, 1))
    first = KafkaWriter(kafka, unique)
    sure = first._producer
    first.begin()
    first.append(unique, b"k", b"v")
    first.next_offsets()
    first._producer = _Unsure(sure)
    second = KafkaWriter(kafka, unique) if overtaken else None
    with pytest.raises(Fenced if overtaken else Transient):
        first.commit()
    if second is None:
        # The transaction is aborted, and the writer takes the next one.
        first._producer = sure
        first.begin()
        first.append(unique, b"k", b"w")
        first.commit()
        assert [
            each.value for each in KafkaReader(kafka).read(unique, 0, 0, KafkaReader(kafka).end_offsets(unique)[0])
        ] == [b"w"]
    else:
        second.close()
    first.close()
