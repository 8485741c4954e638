"""An index of the deployment with the servers that it is on: what commands about its generations work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from include.clock import Clock, SystemClock
from include.errors import Terminal
from include.index.definition import IndexDefinition, alias_of, index_named
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.elasticsearch_admin import ElasticsearchAdmin
from include.log.kafka.log import KafkaReader
from include.settings.connections import Elasticsearch, Kafka
from include.settings.deployment import Deployment

__all__ = ["DeployedIndex"]


@dataclass(frozen=True)
class DeployedIndex:
    """One entry of `indexes`, its server and the log. A context: leaving it closes connections."""

    alias: str
    definition: IndexDefinition
    deployment: Deployment
    index: ElasticsearchIndex
    admin: ElasticsearchAdmin
    reader: KafkaReader
    clock: Clock

    @classmethod
    def of(cls, deployment: Deployment, name: str, clock: Clock | None = None) -> DeployedIndex:
        """The entry of that alias, or of the index that this topic fills; raises `SettingsError`. Asks no server."""
        name = alias_of(deployment, name)
        definition = index_named(deployment, name)
        server, kafka = deployment.one("elasticsearch", Elasticsearch), deployment.one("kafka", Kafka)
        index = ElasticsearchIndex(server)
        admin = ElasticsearchAdmin(server, index.client)
        reader = KafkaReader(kafka.bootstrap, dict(kafka.options))
        return cls(name, definition, deployment, index, admin, reader, clock or SystemClock())

    def ends(self, topic: str) -> Mapping[int, int]:
        """Last stable offset of each partition; none for a topic that nobody has made yet."""
        try:
            return self.reader.end_offsets(topic)
        except Terminal:
            return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reader.close()
        self.index.close()
