"""Makes the feed of each topic with expectations, as its index has it: a record's document and its version."""

from __future__ import annotations

from include.audit.definition import audited_index
from include.audit.expectations.definition import expectations_of_audit
from include.index.definition import index_named
from include.index.feed import Feed
from include.index.generations.active import serving
from include.index.progress.document import IndexProgress, read_progress
from include.index.server.port import SearchIndex
from include.index.states import feed_of
from include.settings.connections import Cluster
from include.settings.deployment import Deployment

__all__ = ["feeds_of"]


def feeds_of(deployment: Deployment, audit: str, index: SearchIndex) -> dict[str, Feed]:
    """The feed of each topic of `audit` that has expectations.

    Raises:
        SettingsError: the audit is not declared.
        Terminal: no index serves.
        Transient: the server did not answer.
    """
    alias = audited_index(deployment, audit)
    definition, info = index_named(deployment, alias), serving(index, alias)
    cluster = deployment.one("cluster", Cluster)
    return {
        topic: feed_of(cluster, definition, topic, read_progress(index, info, topic) or IndexProgress(topic))
        for topic in expectations_of_audit(deployment, audit)
    }
