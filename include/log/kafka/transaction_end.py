"""End a transaction in partitions that never heard of its end.

When a transaction's end is decided, Kafka's coordinator tells each partition by a marker. Since 4.2 (4.4.0 still does
it) a coordinator that starts again takes a partition without a leader for a deleted one, leaves its marker out, and
calls the transaction complete (KAFKA-20734). What was written there stays unseen until the same producer ends another
transaction in that partition, whose end then counts for both: records of an aborted one are committed with it.

librdkafka adds a partition to a transaction only with a record. These are the three requests that need none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from include.clock import Clock, SystemClock
from include.errors import Fenced, Terminal, Transient
from include.log.kafka.errors import ClientOptions

__all__ = ["end_transaction", "security"]


class _Producer(NamedTuple):
    id: int
    epoch: int


_LONGEST_MS: Final = 60_000
_NAMES: Final[Mapping[str, str]] = {
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
# What concerns neither who we are nor whom we trust.
_OTHERS: Final = ("ssl.", "sasl.", "security.", "enable.ssl.", "https.")


def security(options: ClientOptions) -> dict[str, Any]:
    """Settings of kafka-python for librdkafka's `options`; raises `Terminal` for one of security without a like."""
    settings: dict[str, Any] = {}
    for name, value in options.items():
        if name in _NAMES:
            settings[_NAMES[name]] = value.upper() if name == "security.protocol" and isinstance(value, str) else value
        elif name == "ssl.endpoint.identification.algorithm":
            settings["ssl_check_hostname"] = value != "none"
        elif name.startswith(_OTHERS):
            raise Terminal(
                "a transaction that Kafka left open cannot be ended under this option",
                option=name,
                fix="Name certificates as PEM files and users by PLAIN or SCRAM, for as long as one start takes.",
            )
    return settings


def end_transaction(
    bootstrap: str,
    transactional_id: str,
    places: Collection[tuple[str, int]],
    *,
    commit: bool,
    group: str | None = None,
    options: ClientOptions | None = None,
    timeout_s: float = 30.0,
    clock: Clock | None = None,
) -> None:
    """Fence the writer of that id, and have an end written to these partitions; without any record.

    It is decided when this returns; a new writer of the id is open when the partitions have heard of it.

    Args:
        bootstrap: the brokers.
        transactional_id: the writer's.
        places: (topic, partition) of each partition that is to have the end.
        commit: the end commits; False: it aborts.
        group: consumer group whose offsets the transaction may have: they are committed, or dropped, too.
        options: librdkafka's own, of which those of security are taken.
        timeout_s: seconds for which it is tried again.
        clock: measures them; None for the system's.

    Raises:
        Transient: Kafka does not answer, or is busy with that id, for `timeout_s`.
        Terminal: it refuses, or an option of security has no equivalent in kafka-python.
        Fenced: another writer of that id was opened since.
    """
    from kafka.admin import KafkaAdminClient
    from kafka.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError

    clock = clock or SystemClock()
    until_s = clock.monotonic_s() + timeout_s
    coordinates = {"system": "kafka", "bootstrap": bootstrap, "transactional_id": transactional_id}
    settings = security(options or {})
    producer: _Producer | None = None
    opened: Any = KafkaAdminClient
    while True:
        client: Any = None
        try:
            client = opened(bootstrap_servers=bootstrap, bootstrap_timeout_ms=5000, **settings)
            run = client._manager.run  # noqa: SLF001 - it sends any request
            # Opened once: opening again would abort what was added before its end was decided.
            producer = producer or run(_open, client, transactional_id)
            run(_end, client, transactional_id, producer, places, commit, group)
        except (InvalidProducerEpochError, ProducerFencedError) as error:
            raise Fenced(
                "another process has taken over (end a transaction)",
                fix="This one ends; look for a second instance if none was meant to run.",
                **coordinates,
            ) from error
        except KafkaError as error:
            if not error.retriable:
                raise Terminal(
                    "Kafka refuses to end a transaction that it left open",
                    fix="See the reason; `kafka-transactions.sh find-hanging` shows what is open.",
                    **coordinates,
                    reason=_text(error),
                ) from error
            if clock.monotonic_s() > until_s:
                raise Transient(
                    "Kafka does not end a transaction that it left open",
                    fix="Is Kafka up? See `lyrebird status`.",
                    **coordinates,
                    reason=_text(error),
                ) from error
        else:
            return
        finally:
            if client is not None:
                client.close()
        clock.sleep(0.2)


async def _coordinator(client: Any, transactional_id: str) -> Any:
    from kafka.protocol.metadata import CoordinatorType

    return await client._find_coordinator_id(transactional_id, key_type=CoordinatorType.TRANSACTION)  # noqa: SLF001


async def _open(client: Any, transactional_id: str) -> _Producer:
    from kafka.protocol.producer import InitProducerIdRequest

    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_LONGEST_MS,
        producer_id=-1,
        producer_epoch=-1,
        max_version=4,
    )
    node = await _coordinator(client, transactional_id)
    answer = await client._manager.send(request, node_id=node)  # noqa: SLF001
    _check(answer.error_code)
    return _Producer(answer.producer_id, answer.producer_epoch)


async def _end(
    client: Any,
    transactional_id: str,
    producer: _Producer,
    places: Collection[tuple[str, int]],
    commit: bool,
    group: str | None,
) -> None:
    from kafka.protocol.producer import AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest

    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(places):
        topics[topic].append(partition)
    topic_type = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    # The highest versions that are for clients, and for transactions whose epochs the client counts.
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[topic_type(name=topic, partitions=found) for topic, found in topics.items()],
        max_version=3,
    )
    end = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=commit,
        max_version=4,
    )
    node = await _coordinator(client, transactional_id)
    send = client._manager.send  # noqa: SLF001
    # All are on their way before the first is answered: whoever dies in between must not leave it open for an abort.
    offsets = None
    if group is not None:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=group,
            max_version=3,
        )
        offsets = send(request, node_id=node)
    added, ended = send(add, node_id=node), send(end, node_id=node)
    if offsets is not None:
        _check((await offsets).error_code)
    answer, outcome = await added, await ended
    for topic in answer.results_by_topic_v3_and_below:
        for partition in topic.results_by_partition:
            _check(partition.partition_error_code)
    _check(outcome.error_code)


def _check(code: int) -> None:
    from kafka import errors

    if code:
        of_code: Any = errors.for_code
        raise of_code(code)()


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
