"""The log of a source in the deployment's Kafka and registry."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from include.clock import Clock
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.kafka.transaction_end import end_transaction
from include.log.kafka.writer import KafkaWriter
from include.log.ports import LogWriter
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Kafka, Registry
from include.settings.deployment import Deployment
from include.source.log.direct_log import DirectLog, transactional_id
from include.source.log.ports import LogPorts

__all__ = ["kafka_log"]

_TIMEOUT_S: Final = 20.0
# A huge source transaction is one of Kafka's too; brokers take up to 15 minutes by default.
_LONGEST_MS: Final = 900_000


def kafka_log(deployment: Deployment, name: str, clock: Clock) -> DirectLog:
    """Connects at the first need; a call that gets no answer gives up after 20 s.

    `transaction.timeout.ms` among the deployment's options is how long a source transaction may take.
    """
    kafka = deployment.one("kafka", Kafka)
    bootstrap, options = kafka.bootstrap, kafka.options
    longest_s = int(options.get("transaction.timeout.ms", _LONGEST_MS)) / 1000

    def writer() -> LogWriter:
        return KafkaWriter(
            bootstrap,
            transactional_id(name),
            options,
            timeout_s=_TIMEOUT_S,
            transaction_timeout_s=longest_s,
            clock=clock,
        )

    reader = KafkaReader(bootstrap, options, timeout_s=_TIMEOUT_S, clock=clock)
    registry = ConfluentRegistry(deployment.one("registry", Registry))

    def finish(places: Collection[tuple[str, int]], commit: bool) -> None:
        id_ = transactional_id(name)
        end_transaction(bootstrap, id_, places, commit=commit, options=options, timeout_s=_TIMEOUT_S, clock=clock)

    ports = LogPorts(writer, reader, KafkaAdmin(bootstrap, options), registry, finish)
    return DirectLog(name, ports, clock, longest_s=longest_s)
