"""The client of one entry of `searches`, on the deployment's servers."""

from __future__ import annotations

from include.clock import Clock
from include.index.server.elasticsearch import ElasticsearchIndex
from include.metrics.exporter import Metrics
from include.search.client import IndexSearch
from include.search.database import DatabaseDocuments
from include.search.database_mysql import primary_tables
from include.search.definition import SearchTarget
from include.search.engine import ElasticsearchEngine
from include.search.fresh import FreshSearch
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment

__all__ = ["connect", "database_of_search"]


def connect(deployment: Deployment, target: SearchTarget, clock: Clock, metrics: Metrics | None = None) -> FreshSearch:
    """A client that a whole process shares. Nothing is asked yet; connections are made as they are needed."""
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    search = IndexSearch(target, index, ElasticsearchEngine(index.client), clock)
    return FreshSearch(search, database_of_search(deployment, target, clock), clock, metrics)


def database_of_search(deployment: Deployment, target: SearchTarget, clock: Clock) -> DatabaseDocuments | None:
    """The database's side; None for a search that declares no `documents`."""
    document = target.document
    if document is None:
        return None
    return DatabaseDocuments(target, lambda: primary_tables(deployment, document, clock), clock)
