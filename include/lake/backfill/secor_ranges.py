"""`LogRanges` over an archive that Secor wrote: what Kafka had before the lake began.

Names tell the Kafka partition and where a cut began, and the keys inside tell offsets; nothing tells how many records
there should be. Secor stores some records twice: the same record is given once, two different ones under one offset
are refused. Headers and the type of timestamps were never kept.
"""

from __future__ import annotations

import bisect
import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from typing_extensions import override

from include.errors import Terminal
from include.lake.backfill.plan import RawObject
from include.lake.formats.sequence.secor import SecorName
from include.lake.inspect.object_reader import open_contents
from include.lake.message import Message
from include.lake.protocol.chain import give_up
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.runner import Pause, Runner
from include.lake.reading.log_ranges import LogRanges, MessageBatch
from include.store.object_store import ObjectInfo, ObjectStore

__all__ = ["Archive", "SecorRanges", "archived"]

_BATCH: Final = 1000
_HASH: Final = re.compile(r"[0-9a-f]{4}/")


class _Archived(NamedTuple):
    first: int
    key: str
    bytes: int


class Archive:
    """The objects of a topic. Not for several threads."""

    def __init__(self, found: Iterable[tuple[SecorName, ObjectInfo]]) -> None:
        # Within a folder an offset is in the object with the greatest `first` that is not above it.
        self._folders: dict[int, dict[tuple[int, tuple[str, ...]], list[_Archived]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for name, info in found:
            if name.first is None:
                raise Terminal(
                    "an object of several Kafka partitions: nothing tells which of them its records are of",
                    key=info.key,
                    fix="Leave such objects out of the archive's folder.",
                )
            folder = self._folders[name.partitions[0]][name.generation, name.names]
            bisect.insort(folder, _Archived(name.first, info.key, info.size_bytes))

    @property
    def partitions(self) -> list[int]:
        """Kafka partitions that it has anything of."""
        return sorted(self._folders)

    def sources(self, partition: int, first: int, until: int) -> list[RawObject]:
        """Those that may have a record of [first, until), by key; no digest is known of them."""
        found: list[_Archived] = []
        for folder in self._folders.get(partition, {}).values():
            begin = max(0, bisect.bisect_right(folder, first, key=attrgetter("first")) - 1)
            found += folder[begin : bisect.bisect_left(folder, until, key=attrgetter("first"))]
        return sorted(RawObject(partition, each.key, each.bytes, "", 0) for each in found)

    def begin(self, partition: int) -> int | None:
        """Where its first object of a partition began; None where it has none."""
        return min((folder[0].first for folder in self._folders.get(partition, {}).values()), default=None)

    def goes_on(self, partition: int, until: int) -> bool:
        """Whether an object begins at this offset or later."""
        return any(folder[-1].first >= until for folder in self._folders.get(partition, {}).values())


def archived(store: ObjectStore, prefix: str, topic: str) -> Archive:
    """The archive of a topic below `prefix` ("": the top of the bucket), with hashes in front of it or without.

    Objects with other names are left out. Lists the bucket whole where hashes spread the archive over it.
    """
    below = f"{prefix}/{topic}/" if prefix else f"{topic}/"
    plain = list(_named(store.list(below), prefix))
    if plain or not prefix:
        return Archive(plain)
    hashed = (info for info in store.list("") if _HASH.match(info.key) and info.key[5:].startswith(below))
    return Archive(_named(hashed, prefix))


def _named(listed: Iterable[ObjectInfo], prefix: str) -> Iterator[tuple[SecorName, ObjectInfo]]:
    for info in listed:
        try:
            yield SecorName.parse(info.key, prefix), info
        except Terminal:
            # Marks of finished dates, checksums: none of its objects.
            continue


class SecorRanges(LogRanges):
    """[first, until) of one Kafka partition. All objects of a range that is read are in memory together.

    Not for several threads. Raises `Terminal` for an object that is gone, damaged, or keeps no offsets.
    """

    def __init__(
        self, store: ObjectStore, archive: TopicKey, partition: int, until: int, pause: Pause = give_up
    ) -> None:
        self._store, self._runner = store, Runner(store, pause)
        self._topic, self._partition, self._until = archive, partition, until
        self._archive = self._runner.ask(lambda: archived(store, archive.prefix, archive.topic))
        # The greatest offset that was met, also behind what was asked for.
        self._last = -1

    def edges(self, topic: str, partition: int) -> tuple[int, int]:
        """From the beginning to the end of what was asked for; what the archive does not reach is told by `gaps`."""
        self._check(topic, partition)
        return 0, self._until

    @override
    def topic_id(self, topic: str) -> str:
        return self._topic.topic_id if topic == self._topic.topic else ""

    @override
    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        self._check(topic, partition)
        files = [self._messages(each.key, start, end) for each in self._archive.sources(partition, start, end)]
        messages = self._once(heapq.merge(*files, key=attrgetter("offset")))
        while batch := list(islice(messages, _BATCH)):
            yield MessageBatch(batch)

    @override
    def epoch_before(self, topic: str, partition: int, offset: int) -> int | None:
        """An archive is not truncated."""
        return None

    def gaps(self, first: int, until: int) -> list[tuple[int, int]]:
        """Parts of [first, until), which was read, that lie before the archive's beginning or behind its end."""
        begin = self._archive.begin(self._partition)
        end = until if self._archive.goes_on(self._partition, until) else min(max(self._last + 1, first), until)
        if begin is None or begin >= until:
            return [(first, until)]
        outside = [(first, max(begin, first)), (max(end, begin), until)]
        return [(start, stop) for start, stop in outside if start < stop]

    def _check(self, topic: str, partition: int) -> None:
        if (topic, partition) != (self._topic.topic, self._partition):
            raise Terminal("another partition than the archive was opened for", topic=topic, partition=partition)

    def _messages(self, key: str, start: int, end: int) -> Iterator[Message]:
        found = self._runner.ask(lambda: self._store.get(key))
        if found is None:
            raise Terminal("an object of the archive is gone", key=key, fix="Plan the backfill again.")
        contents = open_contents(found.body, key)
        if not contents.offsets:
            raise Terminal(
                "an object of the archive keeps no offsets",
                key=key,
                got=contents.detail,
                allowed="SequenceFiles of Secor's two layouts",
                fix="Leave it out, or make records of it by a program of your own.",
            )
        before = -1
        for message in contents.messages:
            if message.offset < before:
                raise Terminal(
                    "offsets of an archived object are out of order",
                    key=key,
                    offset=message.offset,
                    after=before,
                    fix="See it by `lyrebird lake cat`.",
                )
            before = message.offset
            self._last = max(self._last, before)
            if before >= end:
                return
            if before >= start:
                yield message

    def _once(self, messages: Iterable[Message]) -> Iterator[Message]:
        before: Message | None = None
        for message in messages:
            if before is None or message.offset != before.offset:
                yield message
            elif message != before:
                raise Terminal(
                    "the archive has two different records under one offset",
                    topic=self._topic.topic,
                    partition=self._partition,
                    offset=message.offset,
                    fix="Was the topic made anew while Secor ran? Leave the objects of one of its lives out.",
                )
            before = message
