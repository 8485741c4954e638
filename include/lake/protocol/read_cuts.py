"""The cuts of a Kafka partition as readers see them: in order, each in the one generation that the pointer names."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from include.errors import Terminal
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.protocol.inventory import stored_partitions
from include.lake.protocol.pointer import ReadersPointer
from include.store.object_store import ObjectStore

__all__ = ["ReadCut", "read_cuts", "read_partitions"]


class ReadCut(NamedTuple):
    """A whole cut, and the chain that it is read in."""

    chain: ChainKey
    commit: Commit


def read_partitions(store: ObjectStore, topic: TopicKey, pointer: ReadersPointer) -> list[int]:
    """Kafka partitions of which readers may find something."""
    generations = {entry.generation for entry in pointer.entries}
    return sorted({p for generation in generations for p in stored_partitions(store, topic, generation)})


def read_cuts(
    store: ObjectStore,
    topic: TopicKey,
    pointer: ReadersPointer,
    partition: int,
    since: int = 0,
    *,
    oldest_gone: bool = False,
    commits: Mapping[int, Iterable[Commit]] | None = None,
) -> Iterator[ReadCut]:
    """The cuts that end after `since`, by `first`, each beginning where the one before it ends; none that is forgotten.

    Args:
        store: the bucket of the lake.
        topic: one life of a topic, below the prefix of its group.
        pointer: the readers' pointer of the topic.
        partition: number of the Kafka partition.
        since: offset; cuts that end at it or before it are left out.
        oldest_gone: the first cut may begin later than `since`.
        commits: those that end after `since`, by generation, where they are known; None: they are read.

    Raises:
        Terminal: there is a hole, which readers must not pass over; or an object of the chain cannot be read.
        Transient: the store does not answer.
        BackPressure: the store asks to slow down.
    """
    since = max(since, pointer.floor(partition))
    generations = sorted({entry.generation for entry in pointer.entries})
    chains = [ChainKey(topic, generation, partition) for generation in generations]
    end: int | None = None
    for cut in heapq.merge(
        *(
            _of(chain, pointer, _commits(store, chain, since) if commits is None else commits.get(chain.generation, ()))
            for chain in chains
        ),
        key=lambda each: each.commit.first,
    ):
        hole = (cut.commit.first > since and not oldest_gone) if end is None else cut.commit.first != end
        if hole:
            raise Terminal(
                "cuts that readers should find are missing",
                topic=topic.topic,
                partition=partition,
                after=since if end is None else end,
                before=cut.commit.first,
                fix=f"Run `lyrebird audit chain {topic.topic}`."
                + (
                    " If a lifecycle rule of the bucket took them: `lyrebird lake forget --accept-missing`."
                    if end is None
                    else ""
                ),
            )
        end = cut.commit.next
        yield cut


def _commits(store: ObjectStore, chain: ChainKey, since: int) -> Iterator[Commit]:
    return Chain(store, chain).commits(since, contiguous=False)


def _of(chain: ChainKey, pointer: ReadersPointer, commits: Iterable[Commit]) -> Iterator[ReadCut]:
    for commit in commits:
        if pointer.generation_of(chain.partition, commit.first) == chain.generation:
            yield ReadCut(chain, commit)
