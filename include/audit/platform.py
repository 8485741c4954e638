"""A search audit on the servers that the deployment names; who folds the expected side is the caller's choice."""

from __future__ import annotations

from collections.abc import Callable

from include.audit.definition import SearchAuditSpec
from include.audit.elasticsearch import ElasticsearchView
from include.audit.expected import Expected, fold, records_below
from include.audit.range_count import Window
from include.audit.report import SearchReport
from include.audit.search import audit_search
from include.clock import SystemClock
from include.index.elasticsearch import ElasticsearchIndex
from include.log.kafka import KafkaAdmin, KafkaReader
from include.log.registry import ConfluentRegistry
from include.record.codec import Decoder
from include.settings.connections import Elasticsearch, Kafka, Registry
from include.settings.deployment import Deployment

__all__ = ["audit_on_servers"]


def audit_on_servers(
    deployment: Deployment, spec: SearchAuditSpec, expected: Callable[[Window], Expected] | None = None
) -> SearchReport:
    """`audit_search` of `spec`; without `expected` this process reads the topic itself. Raises what that raises."""
    kafka, registry = deployment.one("kafka", Kafka), deployment.one("registry", Registry)
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    reader = KafkaReader(kafka.bootstrap, dict(kafka.options))
    decode = Decoder(ConfluentRegistry(registry.url).schema)
    topic = spec.index.topic
    try:
        return audit_search(
            spec,
            index=index,
            view=lambda concrete, window: ElasticsearchView(index, concrete, topic, window),
            expected=expected or (lambda window: fold(records_below(reader, topic, window), decode)),
            admin=KafkaAdmin(kafka.bootstrap, dict(kafka.options)),
            reader=reader,
            clock=SystemClock(),
        )
    finally:
        reader.close()
        index.close()
