"""`replay` on a deployment's servers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from include.clock import SystemClock
from include.index.delivery import Delivery
from include.index.deployed import DeployedIndex
from include.index.fed import serving
from include.index.outcome import TaskOutcome
from include.index.progress import Progress, read_progress
from include.index.replay import Replayed, letters_of, replay, try_out
from include.index.routing import Copies
from include.index.states import States, feed_of
from include.index.task import IndexTask, raw_of
from include.log import topics
from include.log.ports import Record
from include.log.registry import ConfluentRegistry
from include.settings.connections import Cluster, Registry

__all__ = ["replay_deployed"]

_PATIENCE_S = 60.0


def replay_deployed(
    on: DeployedIndex, *, dry_run: bool, on_progress: Callable[[Replayed], None]
) -> tuple[str, list[Replayed]]:
    """Replay the letters of all topics of an index into the generation that serves; gives its name and the outcome.

    Raises `Terminal` when none serves, and as `replay`.
    """
    info = serving(on.index, on.alias)
    registry = ConfluentRegistry(on.deployment.one("registry", Registry).url)
    cluster = on.deployment.one("cluster", Cluster)
    found = []
    try:
        for topic in on.definition.topics:
            progress = read_progress(on.index, info, topic) or Progress(topic)
            states = States(feed_of(cluster, on.definition, topic, progress), registry)
            letters = letters_of(on.reader, topics.dead(topic, on.definition.application))
            # Letters of records beside the topic (resolved ones) are no documents.
            records = (record for record in letters if record.topic == topic)
            run = functools.partial(_run, on, info.name, states)
            found.append(
                _tried(on, info.name, topic, records, states) if dry_run else replay(topic, records, run, on_progress)
            )
    finally:
        registry.close()
    return info.name, found


def _tried(on: DeployedIndex, name: str, topic: str, records: Iterable[Record], states: States) -> Replayed:
    def versions(ids: list[str]) -> dict[str, int]:
        return {doc_id: found.version for doc_id, found in on.index.get_many(name, ids).items()}

    return try_out(topic, records, states, versions)


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
