"""`replay` on a deployment's servers, in every generation that is fed.

Why all of them: readers may be given the next one, or the former one again, at any moment, and each was proved to hold
the same documents.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from include.clock import SystemClock
from include.index.bulk.routing import Copies
from include.index.bulk.sender import Delivery
from include.index.deployed import DeployedIndex
from include.index.generations.target import fed_indexes
from include.index.mapping.evolving import MappingEvolution
from include.index.mapping.file import mapping_of
from include.index.outcome import TaskOutcome
from include.index.progress.document import IndexProgress, read_progress
from include.index.server.port import IndexInfo
from include.index.states import States, feed_of
from include.index.task import IndexTask, raw_of
from include.index.upkeep.replay import Replayed, letters_of, replay, try_out
from include.log import topics
from include.log.ports import Record, SchemaRegistry
from include.log.registry.confluent import ConfluentRegistry
from include.record.json.formats import Keys, Values
from include.settings.connections import Cluster, Registry

__all__ = ["replay_deployed"]

_PATIENCE_S = 60.0


def replay_deployed(
    on: DeployedIndex, *, dry_run: bool, on_progress: Callable[[Replayed], None]
) -> dict[str, list[Replayed]]:
    """Replay the letters of all topics of an index; gives what became of them by index, the one that serves first.

    Raises `Terminal` and `Transient` as `fed_indexes` and `replay`.
    """
    fed = fed_indexes(on.index, on.alias)
    registry = ConfluentRegistry(on.deployment.one("registry", Registry))
    replayed: dict[str, list[Replayed]] = {}
    try:
        for info in sorted(fed.infos, key=lambda each: each.name != fed.serving):
            replayed[info.name] = [
                _replayed(on, info, registry, topic, dry_run=dry_run, on_progress=on_progress)
                for topic in on.definition.topics
            ]
    finally:
        registry.close()
    return replayed


def _replayed(
    on: DeployedIndex,
    info: IndexInfo,
    registry: SchemaRegistry,
    topic: str,
    *,
    dry_run: bool,
    on_progress: Callable[[Replayed], None],
) -> Replayed:
    progress = read_progress(on.index, info, topic) or IndexProgress(topic)
    feed = feed_of(on.deployment.one("cluster", Cluster), on.definition, topic, progress)
    dead = topics.dead(topic, on.definition.application)
    records = letters_of(on.reader, dead, topic, progress.topic_ids.get(topic, ""))
    if dry_run:
        states = States(feed, registry)
        return try_out(topic, records, states, functools.partial(_versions, on, info.name, states))
    own, evolves = feed.topic, MappingEvolution.of(info, on.definition, mapping_of(on.deployment, on.definition))
    bodies = evolves.bodies(
        Values(registry, own.value), on.index.describe, on.admin.put_mapping, registry, topic, own.entity, own.value
    )
    states = States(feed, registry, (Keys(registry, own.key), bodies))
    return replay(topic, records, functools.partial(_run, on, info.name, states), on_progress)


def _versions(on: DeployedIndex, name: str, states: States, doc_ids: list[str]) -> dict[str, int]:
    if states.feed.topic.routing is not None:
        # Nobody knows the shard that a document lies in but a search.
        out: dict[str, int] = {}
        for copy in on.index.copies(name, states.feed.name, doc_ids):
            doc_id = copy.source["metadata"]["doc_id"]
            out[doc_id] = max(out.get(doc_id, -1), copy.version)
        return out
    names = {states.feed.index_id(doc_id): doc_id for doc_id in doc_ids}
    return {names[one]: found.version for one, found in on.index.get_many(name, list(names)).items()}


def _run(on: DeployedIndex, name: str, states: States, records: list[Record]) -> TaskOutcome:
    delivery = Delivery(
        functools.partial(on.index.bulk, name),
        SystemClock(),
        index=name,
        bulk_bytes=on.definition.bulk_bytes,
        patience_s=_PATIENCE_S,
    )
    task = IndexTask(
        states={states.feed.name: states},
        delivery=delivery,
        window_bytes=on.definition.bulk_bytes,
        copies=Copies(on.index, name, SystemClock(), _PATIENCE_S),
    )
    return task.run(map(raw_of, records))
