"""Opens log and registry for the driver of a stage that writes topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from include.clock import Clock, SystemClock
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.kafka.transaction_end import end_transaction
from include.log.ports import LogReader, LogWriter, SchemaRegistry, TopicAdmin
from include.log.publishing.publisher import Finish
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Kafka, Registry

__all__ = ["LogAccess", "log_access"]

_TRANSACTION_S: Final = 300.0


@dataclass(frozen=True)
class LogAccess:
    """`open_writer` and `finish` are those of `Publisher`."""

    registry: SchemaRegistry
    reader: LogReader
    admin: TopicAdmin
    open_writer: Callable[[str], LogWriter]
    finish: Finish
    clock: Clock


@contextmanager
def log_access(kafka: Kafka, registry: Registry) -> Iterator[LogAccess]:
    """Access to these servers, until the block ends; transactions may take five minutes."""
    options = dict(kafka.options)
    with closing(KafkaReader(kafka.bootstrap, options)) as reader:
        yield LogAccess(
            ConfluentRegistry(registry),
            reader,
            KafkaAdmin(kafka.bootstrap, options),
            lambda name: KafkaWriter(kafka.bootstrap, name, options, transaction_timeout_s=_TRANSACTION_S),
            lambda id_, places, commit: end_transaction(
                kafka.bootstrap, id_, places, commit=commit, group=id_, options=options
            ),
            SystemClock(),
        )
