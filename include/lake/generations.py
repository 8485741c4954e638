"""Taking a topic's live generation over: which one a revision of a group writes, and where its chains begin.

A revision takes over once:
 1. reserve a generation for it, in the pointer
 2. look up the heads of the chains that are live
 3. append its entry: from these heads on, and for partitions not named then, readers follow it
and only then writes. What the older revision still writes behind those heads is read by nobody, so both may run at
once for as long as a roll-out takes. Whoever crashes in between begins again at 1 and finds what is done.

Topics of one name share folders, so a topic made anew takes numbers that none of its former lives has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from include.errors import Fenced
from include.lake.chain_key import ChainKey, TopicKey
from include.lake.pointer import Entry, Pointer, Purpose, change_pointer, read_pointer
from include.store.object_store import ObjectStore

__all__ = ["HeadOf", "Live", "least_generation", "lives", "require_current", "take_over"]

HeadOf = Callable[[ChainKey, int], int]
"""(chain, where it begins) → its head."""

_LIVE: Final = re.compile(r"revision ([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Live:
    """The generation that a revision writes of a topic."""

    topic: TopicKey
    generation: int
    entry: Entry

    def chain(self, partition: int) -> ChainKey:
        """The chain of a partition."""
        return ChainKey(self.topic, self.generation, partition)

    def start(self, partition: int) -> int:
        """Where it begins."""
        return self.entry.start(partition) or 0


def take_over(store: ObjectStore, topic: TopicKey, revision: int, partitions: int, head_of: HeadOf) -> Live:
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
            return Live(topic, generation, entry)
        # 2. Where the one before stands.
        before = pointer.live
        heads = _heads(topic, before, partitions, head_of)
        # 3. From now on readers follow this one.
        change_pointer(store, topic, partial(_upgraded, generation=generation, before=before, heads=heads))


def require_current(store: ObjectStore, live: Live) -> None:
    """Raise `Fenced` when a newer revision has taken the topic over since: nobody reads what this one writes."""
    now = read_pointer(store, live.topic).live
    if now is not None and now.generation != live.generation:
        raise Fenced(
            "a newer revision of the group writes this topic",
            topic=live.topic.topic,
            generation=live.generation,
            now=now.generation,
            fix="Nothing is lost: it goes on where this one was. End what still runs of the older one.",
        )


def _heads(topic: TopicKey, live: Entry | None, partitions: int, head_of: HeadOf) -> dict[int, int]:
    if live is None:
        return {}
    return {p: head_of(ChainKey(topic, live.generation, p), live.start(p) or 0) for p in range(partitions)}


def _upgraded(now: Pointer, generation: int, before: Entry | None, heads: dict[int, int]) -> Pointer:
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


def _reserved(now: Pointer, revision: int, by: str, purpose: Purpose, least: int) -> Pointer:
    for each in now.reserved:
        found = _LIVE.fullmatch(each.by)
        if found and int(found[1]) > revision:
            raise Fenced(
                "a newer revision of the group writes this topic",
                revision=revision,
                newer=int(found[1]),
                fix="End this one; to go back to its logic, declare it under a higher `revision`.",
            )
    return now.reserve(by, purpose, least=least)
