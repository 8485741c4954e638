"""Taking a topic's live generation over: which one a revision of a group writes, and where its chains begin.

A revision takes over once:
 1. reserve a generation for it, in the pointer
 2. look up the heads of the chains that are live
 3. append its entry: from these heads on, and for partitions not named then, readers follow it
and only then writes. What the older revision still writes behind those heads is read by nobody, so both may run at
once for as long as a roll-out takes. Whoever crashes in between begins again at 1 and finds what is done.

The chain of the one before may end before what the pointer notes of it: its newest commits are gone, or the log was
truncated below them. A person who raises the revision accepts that, and the new one stores what the log has from where
it begins. It would be silent: its chain is a whole one, and what was noted is not of it. So 3 keeps in the pointer how
far the cuts had come (`gone`), in the same request. A driver that finds it there tells, whichever one and however often
the first has crashed; and what the log lacks below it is lost, also below the first cut of a chain.

Topics of one name share folders, so a topic made anew takes numbers that none of its former lives has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from include.errors import Fenced, Terminal
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.pointer import PointerEntry, Purpose, ReadersPointer, change_pointer, read_pointer
from include.store.object_store import ObjectStore

__all__ = ["HeadsOf", "LiveGeneration", "least_generation", "lives", "note_heads", "require_current", "take_over"]

HeadsOf = Callable[[Mapping[ChainKey, int]], Mapping[ChainKey, int]]
"""Chains, with where each begins → their heads. All of a topic's at once, so that they can be asked for together."""

_LIVE: Final = re.compile(r"revision ([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class LiveGeneration:
    """The generation that a revision writes of a topic."""

    topic: TopicKey
    generation: int
    pointer: ReadersPointer
    """As it was when it was taken over."""

    @property
    def entry(self) -> PointerEntry:
        """That of the generation."""
        return next(each for each in self.pointer.entries if each.generation == self.generation)

    def chain(self, partition: int) -> ChainKey:
        """The chain of a partition."""
        return ChainKey(self.topic, self.generation, partition)

    def start(self, partition: int) -> int:
        """Where it begins."""
        return self.pointer.start(self.entry, partition)

    def gone(self, partition: int) -> int:
        """Up to which offset cuts were stored that readers found before it took over, and find no more; 0: none."""
        gone = self.pointer.gone.get(partition, 0)
        return gone if gone > max(self.start(partition), self.pointer.floor(partition)) else 0

    def check_head(self, partition: int, head: int) -> None:
        """Raise `Terminal` when the chain ends before the place that it had reached: its commits were taken away."""
        reached = self.pointer.heads.get(partition, 0)
        if head < reached:
            raise Terminal(
                "the chain ends before what was stored of it: commits are gone",
                topic=self.topic.topic,
                partition=partition,
                head=head,
                reached=reached,
                fix="Did a lifecycle rule of the bucket take them? Let none touch `_chain/`. Put them back from older "
                "versions of the bucket; or raise the group's `revision`: it goes on with what Kafka has.",
            )


def take_over(store: ObjectStore, topic: TopicKey, revision: int, partitions: int, heads_of: HeadsOf) -> LiveGeneration:
    """What `revision` writes of a topic of so many partitions, taken over from the one before where it is newer.

    `Fenced` when a newer one has taken over; the store's errors as they come.
    """
    by = f"revision {revision}"
    least = least_generation(store, topic)
    while True:
        # 1. Reserve.
        pointer = change_pointer(store, topic, lambda now: _reserved(now, revision, by, "live", least))
        generation = next(each.generation for each in pointer.reserved if each.by == by)
        entry = next((each for each in pointer.entries if each.generation == generation), None)
        if entry is not None:
            return LiveGeneration(topic, generation, pointer)
        # 2. Where the one before stands.
        before = pointer.live
        heads = _heads(topic, pointer, partitions, heads_of)
        # 3. From now on readers follow this one.
        change_pointer(store, topic, partial(_upgraded, generation=generation, before=before, heads=heads))


def require_current(store: ObjectStore, live: LiveGeneration) -> None:
    """Returns where this generation is live still.

    Raises:
        Fenced: a newer revision has taken the topic over since: nobody reads what this one writes.
        Terminal: the pointer is gone.
    """
    now = read_pointer(store, live.topic).live
    if now is None:
        raise Terminal(
            "the readers' pointer is gone",
            system="s3",
            key=live.topic.pointer,
            fix="Did a lifecycle rule of the bucket take it? Let none touch `_chain/`, and put the pointer back from "
            "an older version of the bucket.",
        )
    if now.generation != live.generation:
        raise Fenced(
            "a newer revision of the group writes this topic",
            topic=live.topic.topic,
            generation=live.generation,
            now=now.generation,
            fix="Nothing is lost: it goes on where this one was. End what still runs of the older one.",
        )


def _heads(topic: TopicKey, pointer: ReadersPointer, partitions: int, heads_of: HeadsOf) -> dict[int, int]:
    live = pointer.live
    if live is None:
        return {}
    # Where the chain of one was taken away, the next one begins at the floor: nothing is read twice.
    chains = [ChainKey(topic, live.generation, p) for p in range(partitions)]
    heads = heads_of({chain: pointer.start(live, chain.partition) for chain in chains})
    return {chain.partition: heads[chain] for chain in chains}


def note_heads(store: ObjectStore, live: LiveGeneration, heads: Mapping[int, int], day: str) -> None:
    """Note in the pointer how far this generation has come, once a day: so it is never old either."""
    change_pointer(store, live.topic, lambda now: now.note(live.generation, heads, day))


def _upgraded(
    now: ReadersPointer, generation: int, before: PointerEntry | None, heads: dict[int, int]
) -> ReadersPointer:
    """Nothing is done where another took over meanwhile: these heads are not its own."""
    return now.upgrade(generation, heads) if now.live == before else now


def least_generation(store: ObjectStore, topic: TopicKey) -> int:
    """The least number that no other life of the topic has, 1 where there is none."""
    others = [read_pointer(store, life) for life in lives(store, topic.prefix, topic.topic) if life != topic]
    return 1 + max((each.generation for pointer in others for each in pointer.reserved), default=0)


def lives(store: ObjectStore, prefix: str, topic: str) -> Iterator[TopicKey]:
    """Each topic of that name that the store has a chain or a pointer of; one listing for each."""
    folder = f"{prefix}/_chain/{topic}~" if prefix else f"_chain/{topic}~"
    after = ""
    while (found := next(iter(store.list(folder, start_after=after)), None)) is not None:
        topic_id = found.key.removeprefix(folder).partition("/")[0]
        yield TopicKey(prefix, topic, topic_id)
        # "0" sorts right behind "/": all that this life has is passed over.
        after = f"{folder}{topic_id}0"


def _reserved(now: ReadersPointer, revision: int, by: str, purpose: Purpose, least: int) -> ReadersPointer:
    for each in now.reserved:
        match = _LIVE.fullmatch(each.by)
        if match and int(match[1]) > revision:
            raise Fenced(
                "a newer revision of the group writes this topic",
                revision=revision,
                newer=int(match[1]),
                fix="End this one; to go back to its logic, declare it under a higher `revision`.",
            )
    return now.reserve(by, purpose, least=least)
