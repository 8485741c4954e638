"""A search audit on the servers that the deployment names; who folds the expected side is the caller's choice."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from typing_extensions import override

from include.audit.definition import SearchAuditSpec
from include.audit.search.bounds import AuditBounds
from include.audit.search.cut import AuditCut
from include.audit.search.expected import ExpectedDocuments, ExpectedSide
from include.audit.search.repair import Writing
from include.audit.search.scrub import StoredDocuments
from include.audit.search.sides import AuditSides
from include.audit.search.views.elasticsearch.documents import ElasticsearchDocuments
from include.audit.search.views.elasticsearch.forget import forget_versions
from include.audit.search.views.elasticsearch.moment import ElasticsearchView, counting_client
from include.audit.search.views.elasticsearch.states import ElasticsearchStates
from include.audit.search.views.elasticsearch.topics import undeclared_topics
from include.audit.search.views.range_count import IndexView
from include.audit.search.views.state_view import StateView
from include.clock import Clock, SystemClock
from include.index.feed import Feed
from include.index.mapping.file import mapping_of
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.port import SearchIndex
from include.index.states import States, feed_of
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.ports import LogReader, TopicAdmin
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Cluster, Elasticsearch, Kafka, Registry
from include.settings.deployment import Deployment

__all__ = ["ServerSides", "server_sides"]

Folding = Callable[[SearchAuditSpec, Feed, AuditCut], ExpectedSide]


class ServerSides(AuditSides):
    """`AuditSides` on the servers that a deployment names."""

    def __init__(self, deployment: Deployment, folding: Folding | None = None) -> None:
        kafka, registry = deployment.one("kafka", Kafka), deployment.one("registry", Registry)
        server = deployment.one("elasticsearch", Elasticsearch)
        self._elastic = ElasticsearchIndex(server, counting_client(server))
        self.index: SearchIndex = self._elastic
        self.admin: TopicAdmin = KafkaAdmin(kafka.bootstrap, dict(kafka.options))
        self.reader: LogReader = KafkaReader(kafka.bootstrap, dict(kafka.options))
        self.clock: Clock = SystemClock()
        self._registry = ConfluentRegistry(registry)
        self._cluster = deployment.one("cluster", Cluster)
        self._deployment = deployment
        self._folding = folding
        self._followings: dict[str, ExpectedDocuments] = {}

    @override
    def states(self, name: str, spec: SearchAuditSpec, bounds: AuditBounds) -> StateView:
        return ElasticsearchStates(self._elastic, name, spec.topic, bounds, spec.index_id)

    @override
    def ranges(self, name: str, spec: SearchAuditSpec, bounds: AuditBounds) -> IndexView:
        return ElasticsearchView(self._elastic, name, spec.topic, bounds, spec.index_id)

    @override
    def documents(self, name: str, spec: SearchAuditSpec) -> StoredDocuments:
        return ElasticsearchDocuments(self._elastic, name, spec.topic, spec.entity, spec.index_id)

    @override
    def writing(self, name: str, spec: SearchAuditSpec, at: AuditCut) -> Writing:
        states = States(self.feed(spec, at), self._registry)
        forget = functools.partial(forget_versions, self._elastic, name, spec.index_id)
        return Writing(self.index, self.reader, self.clock, states, forget)

    @override
    def expected(self, spec: SearchAuditSpec, at: AuditCut) -> ExpectedSide:
        """Without a folding of the caller's this process reads the topic itself."""
        if self._folding is not None:
            return self._folding(spec, self.feed(spec, at), at)
        states = States(self.feed(spec, at), self._registry)
        following = self._followings.setdefault(spec.name, ExpectedDocuments(self.reader))
        return following.upto(at.window, states)

    @override
    def declared(self, spec: SearchAuditSpec) -> Mapping[str, Any]:
        return mapping_of(self._deployment, spec.index)

    @override
    def undeclared(self, name: str, spec: SearchAuditSpec) -> Mapping[str, int]:
        return undeclared_topics(self._elastic, name, spec.index.topics)

    def feed(self, spec: SearchAuditSpec, at: AuditCut) -> Feed:
        """How records became documents, as the index's progress document knows."""
        return feed_of(self._cluster, spec.index, spec.topic, at.progress)

    def close(self) -> None:
        """Give up the connections."""
        self.reader.close()
        self.index.close()


@contextlib.contextmanager
def server_sides(deployment: Deployment, folding: Folding | None = None) -> Iterator[ServerSides]:
    """The sides on the deployment's servers, closed at the end."""
    sides = ServerSides(deployment, folding)
    try:
        yield sides
    finally:
        sides.close()
