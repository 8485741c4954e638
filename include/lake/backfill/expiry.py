"""Removes data objects that no reader reads: of cuts that a backfill stands in for, or of a backfill given up.

In this order:
 1. a backfill that was never promoted gets an entry without cuts: from then on it cannot be
 2. of each object the pointer is asked once more, and the object deleted

What the pointer does not read it never reads again, as entries are only added, one for each generation. Intents and
commits stay: they are the chain, and later backfills keep to them. Audits do not miss objects that nobody reads. A
reader that looked the pointer up before a promotion may still read old objects: leave it time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from include.errors import Terminal
from include.lake.protocol.chain import give_up
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.object_key import ObjectKey, topic_path
from include.lake.protocol.pointer import ReadersPointer, change_pointer, read_pointer
from include.lake.protocol.runner import Pause, Runner
from include.store.object_store import ObjectStore

__all__ = ["Eraser", "Expiry", "UnreadObject", "expire", "plan_expiry"]


class UnreadObject(NamedTuple):
    """A data object that no reader reads."""

    key: ObjectKey
    bytes: int


class Eraser(Protocol):
    """A store by credentials that may delete."""

    def delete(self, key: str) -> None:
        """Remove an object; harmless when there is none."""


@dataclass(frozen=True)
class Expiry:
    """What is to be removed of a generation. `gives_up`: it is a backfill that was not promoted, and never will be.

    `kept` objects of it are read and stay.
    """

    topic: TopicKey
    generation: int
    objects: tuple[UnreadObject, ...]
    kept: int
    gives_up: bool

    @property
    def bytes(self) -> int:
        """Of what is removed."""
        return sum(each.bytes for each in self.objects)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "topic": self.topic.topic,
            "topic_id": self.topic.topic_id,
            "generation": self.generation,
            "objects": [str(each.key) for each in self.objects],
            "bytes": self.bytes,
            "kept": self.kept,
            "gives_up": self.gives_up,
        }

    def lines(self) -> list[str]:
        """For a person."""
        lines = [
            f"generation {self.generation} of {self.topic.topic}",
            f"{len(self.objects):,} objects, {self.bytes:,} bytes, are read by nobody and are removed",
            f"{self.kept:,} objects are read and stay; intents and commits stay too",
        ]
        given_up = "it is a backfill that was not promoted, and cannot be afterwards"
        return [*lines, given_up] if self.gives_up else lines


def plan_expiry(store: ObjectStore, topic: TopicKey, generation: int) -> Expiry:
    """What may be removed of a generation. Writes nothing.

    Raises `Terminal` for a number that nobody took, and for a live one that has not taken over yet.
    """
    pointer = read_pointer(store, topic)
    taken = next((reserved for reserved in pointer.reserved if reserved.generation == generation), None)
    if taken is None:
        raise Terminal(
            "no such generation of the topic",
            topic=topic.topic,
            got=generation,
            allowed=[reserved.generation for reserved in pointer.reserved],
            fix="Name one of these.",
        )
    open_ = all(entry.generation != generation for entry in pointer.entries)
    if open_ and taken.purpose == "live":
        raise Terminal(
            "this generation is about to take over",
            topic=topic.topic,
            generation=generation,
            by=taken.by,
            fix="Leave it: nothing of it is out of use.",
        )
    found = list(_objects(store, topic, generation))
    unread = tuple(each for each in found if not pointer.reads(each.key))
    return Expiry(topic, generation, unread, len(found) - len(unread), gives_up=open_)


def _objects(store: ObjectStore, topic: TopicKey, generation: int) -> Iterable[UnreadObject]:
    """All data objects of the generation. Marks of finished dates and what others put there are left alone."""
    for info in store.list(topic_path(topic.prefix, topic.topic)):
        if not info.key.rpartition("/")[2].startswith(f"{generation}_"):
            continue
        try:
            key = ObjectKey.parse(info.key, topic.prefix)
        except Terminal:
            continue
        if (key.topic, key.generation) == (topic.topic, generation):
            yield UnreadObject(key, info.size_bytes)


def expire(
    store: ObjectStore,
    eraser: Eraser,
    expiry: Expiry,
    on_removed: Callable[[UnreadObject], None] = lambda _each: None,
    pause: Pause = give_up,
) -> None:
    """Carry it out; may be done again after a crash. Raises `Terminal` before it would remove what readers see.

    `pause` decides how long to go on with a store that does not answer, or not now.
    """
    runner = Runner(store, pause)
    if not expiry.objects and not expiry.gives_up:
        return
    # 1. Give up.
    if expiry.gives_up:
        change_pointer(store, expiry.topic, lambda now: _given_up(now, expiry))
    # 2. Remove.
    for unread in expiry.objects:
        if runner.ask(lambda: read_pointer(store, expiry.topic)).reads(unread.key):
            raise Terminal(
                "an object that readers read is not removed",
                key=str(unread.key),
                fix="Plan it again, and audit the topic.",
            )
        runner.ask(partial(eraser.delete, str(unread.key)))
        on_removed(unread)


def _given_up(now: ReadersPointer, expiry: Expiry) -> ReadersPointer:
    entry = next((each for each in now.entries if each.generation == expiry.generation), None)
    if entry is not None and entry.cuts:
        raise Terminal(
            "the backfill was promoted meanwhile",
            topic=expiry.topic.topic,
            generation=expiry.generation,
            fix="Nothing is removed; plan it again.",
        )
    return now if entry is not None else now.promote(expiry.generation, {}, replaces=0)
