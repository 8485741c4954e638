"""`purge` on a deployment's servers, in every generation that is fed: each has marks of its own."""

from __future__ import annotations

from collections.abc import Callable

from include.index.deployed import DeployedIndex
from include.index.generations.target import fed_indexes
from include.index.progress.document import IndexProgress, read_progress
from include.index.progress.grown_topics import require_no_growth
from include.index.server.port import IndexInfo
from include.index.states import States, feed_of
from include.index.upkeep.purge import ProtectedDocuments, Purge, PurgeResult, horizon_ms, protected
from include.index.upkeep.replay import letters_of
from include.log import topics
from include.log.kafka.log import KafkaAdmin
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Cluster, Kafka, Registry

__all__ = ["purge_deployed"]


def purge_deployed(
    on: DeployedIndex, *, per_second: int, dry_run: bool, on_progress: Callable[[PurgeResult], None]
) -> list[PurgeResult]:
    """Purge the tombstones of all topics of an index that are past their use; the one that serves first.

    Raises `Terminal` and `Transient` as `fed_indexes`, `require_no_growth` and `Purge.run`.
    """
    kafka = on.deployment.one("kafka", Kafka)
    admin = KafkaAdmin(kafka.bootstrap, dict(kafka.options))
    registry = ConfluentRegistry(on.deployment.one("registry", Registry))
    fed = fed_indexes(on.index, on.alias)
    purged = []
    try:
        for info in sorted(fed.infos, key=lambda each: each.name != fed.serving):
            for topic in on.definition.topics:
                purge = Purge(on.index, info, topic, on.clock, per_second=per_second)
                there = admin.describe(topic)
                known = (read_progress(on.index, info, topic) or IndexProgress(topic)).topic_ids.get(topic)
                if there is None or there.topic_id != known:
                    purged.append(
                        PurgeResult(info.name, topic, why="the application has not read the topic as it is now")
                    )
                    continue
                require_no_growth(on.definition, topic, admin, on.reader)
                purged.append(
                    purge.run(
                        horizon_ms(admin.deletions_kept_ms(topic)),
                        keeps=lambda info=info, topic=topic: _protected(on, info, topic, registry),  # type: ignore[misc]
                        on_progress=on_progress,
                        dry_run=dry_run,
                    )
                )
    finally:
        registry.close()
    return purged


def _protected(on: DeployedIndex, info: IndexInfo, topic: str, registry: ConfluentRegistry) -> ProtectedDocuments:
    progress = read_progress(on.index, info, topic) or IndexProgress(topic)
    states = States(feed_of(on.deployment.one("cluster", Cluster), on.definition, topic, progress), registry)
    dead = topics.dead(topic, on.definition.application)
    return protected(letters_of(on.reader, dead, topic, progress.topic_ids.get(topic, "")), states)
