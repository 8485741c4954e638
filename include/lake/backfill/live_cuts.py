"""The cuts of a topic as its readers' pointer follows them: those of live generations, and what stands in for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from include.errors import Terminal
from include.lake.protocol.chain import Chain, give_up
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.protocol.generations import lives
from include.lake.protocol.inventory import require_stored, stored_partitions
from include.lake.protocol.pointer import ReadersPointer
from include.lake.protocol.runner import Pause
from include.store.object_store import ObjectStore

__all__ = ["GenerationCut", "live_cuts", "only_life", "partitions_of", "read_instead"]


class GenerationCut(NamedTuple):
    """A cut, and the generation that it is of."""

    generation: int
    commit: Commit


def live_cuts(
    store: ObjectStore, topic: TopicKey, pointer: ReadersPointer, partition: int, since: int = 0, pause: Pause = give_up
) -> Iterator[GenerationCut]:
    """The cuts that were written live and end after `since`, one behind the other, none that is forgotten.

    What an older revision wrote behind the place where a newer one took over is no part of them.

    Args:
        store: the bucket of the lake.
        topic: one life of a topic, below the prefix of its group.
        pointer: the readers' pointer of the topic.
        partition: number of the Kafka partition.
        since: offset; cuts that end at it or before it are left out.
        pause: decides how long to go on with a store that does not answer.

    Raises:
        Terminal: there is a hole between two cuts, or a commit cannot be read.
        Transient: the store does not answer, and `pause` gives up.
        BackPressure: the store asks to slow down, and `pause` gives up.
    """
    since = max(since, pointer.floor(partition))
    starts = [(each.generation, each.start(partition)) for each in pointer.entries if each.others]
    for number, (generation, start) in enumerate(starts):
        later = [begin for _, begin in starts[number + 1 :] if begin is not None]
        if start is None:
            continue
        chain = Chain(store, ChainKey(topic, generation, partition), start=start, pause=pause)
        for commit in chain.commits(since):
            if later and commit.first >= min(later):
                break
            yield GenerationCut(generation, commit)


def read_instead(
    store: ObjectStore,
    topic: TopicKey,
    pointer: ReadersPointer,
    partition: int,
    live: GenerationCut,
    pause: Pause = give_up,
) -> GenerationCut:
    """The cut that readers read instead of a live one: itself, or what a backfill made of it.

    Args:
        store: the bucket of the lake.
        topic: one life of a topic, below the prefix of its group.
        pointer: the readers' pointer of the topic.
        partition: number of the Kafka partition.
        live: a cut of `live_cuts`.
        pause: decides how long to go on with a store that does not answer.

    Raises:
        Terminal: the pointer sends readers to a cut that is not there, or its commit cannot be read.
        Transient: the store does not answer, and `pause` gives up.
        BackPressure: the store asks to slow down, and `pause` gives up.
    """
    generation = pointer.generation_of(partition, live.commit.first)
    if generation is None or generation == live.generation:
        return live
    chain = ChainKey(topic, generation, partition)
    commit = Chain(store, chain, pause=pause).commit(live.commit.first)
    if commit is None or commit.next != live.commit.next:
        raise Terminal(
            "readers are sent to a cut that is not there",
            key=chain.commit(live.commit.first),
            fix="Run `lyrebird audit chain` on the topic.",
        )
    return GenerationCut(generation, commit)


def partitions_of(store: ObjectStore, topic: TopicKey, pointer: ReadersPointer) -> list[int]:
    """Kafka partitions that have a chain in a live generation; one listing for each."""
    generations = [entry.generation for entry in pointer.entries if entry.others]
    return sorted({partition for each in generations for partition in stored_partitions(store, topic, each)})


def only_life(store: ObjectStore, prefix: str, topic: str, topic_id: str = "") -> TopicKey:
    """The topic of that name and, where it was made anew, of that id; `Terminal` with the names or ids there are."""
    require_stored(store, [prefix], topic)
    keys = list(lives(store, prefix, topic))
    chosen = [key for key in keys if topic_id in ("", key.topic_id)]
    if len(chosen) == 1:
        return chosen[0]
    raise Terminal(
        "which life of the topic? It was made anew" if chosen else "no life of the topic has this id",
        prefix=prefix,
        topic=topic,
        topic_id=topic_id or None,
        allowed=[key.topic_id for key in keys],
        fix="Name one by --topic-id.",
    )
