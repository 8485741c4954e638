"""`LogRanges` over the objects of a backup group: what Kafka had, after it has it no more.

Objects are those that the backup's own pointer names. Each is taken whole, and its digest compared with the commit's
before a record of it is used. Only the verbatim profile is read, as no other keeps all of a record.
"""

from __future__ import annotations

import hashlib
import heapq
import io
from collections.abc import Iterator
from itertools import islice, takewhile
from operator import attrgetter
from typing import Final

from typing_extensions import override

from include.errors import Terminal
from include.lake.backfill.plan import RawObject
from include.lake.formats.sequence.sequence_file import layout_of, read_messages
from include.lake.formats.sequence.sequence_reader import SequenceReader
from include.lake.formats.sequence.verbatim import VerbatimKey
from include.lake.message import Message
from include.lake.protocol.chain import give_up
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit, CutObject, Gap
from include.lake.protocol.pointer import read_pointer
from include.lake.protocol.read_cuts import ReadCut, read_cuts
from include.lake.protocol.runner import Pause, Runner
from include.lake.reading.log_ranges import LogRanges, MessageBatch
from include.lake.writing.cut_files import REFUSED_HEADER
from include.store.object_store import ObjectStore

__all__ = ["RawRanges", "check_source"]

_BATCH: Final = 1000


class RawRanges(LogRanges):
    """[first, until) of one Kafka partition. An object is held in memory while it is read, and until the next one.

    Not for several threads. Raises `Terminal` where the copy has a hole, does not reach, or is not as committed.

    Args:
        store: the bucket of the lake.
        raw: the topic in the backup group.
        partition: number of the Kafka partition.
        first: first offset that is wanted.
        until: offset after the last one.
        pause: decides how long to go on with a store that does not answer; without it the first error is raised.

    Raises:
        Terminal: the copy has a hole, or does not reach over all of the range.
        Transient: the store does not answer, as `pause` decides.
        BackPressure: the store asks to slow down, likewise.
    """

    def __init__(
        self, store: ObjectStore, raw: TopicKey, partition: int, first: int, until: int, pause: Pause = give_up
    ) -> None:
        self._raw, self._partition = raw, partition
        self._store, self._runner = store, Runner(store, pause)
        self._cuts = self._runner.ask(lambda: self._listed(first, until))
        begin = self._cuts[0].commit.first if self._cuts else first
        end = self._cuts[-1].commit.next if self._cuts else first
        if begin > first or end < until:
            raise Terminal(
                "the raw copy does not reach over this range",
                topic=raw.topic,
                partition=partition,
                wanted=(first, until),
                raw=(begin, end),
                fix="Wait until the backup has it, or take the records from Kafka.",
            )
        self._held: tuple[str, bytes] = ("", b"")

    def _listed(self, first: int, until: int) -> list[ReadCut]:
        pointer = read_pointer(self._store, self._raw)
        cuts = read_cuts(self._store, self._raw, pointer, self._partition, first)
        return list(takewhile(lambda each: each.commit.first < until, cuts))

    def edges(self, topic: str, partition: int) -> tuple[int, int]:
        """From the beginning to the end of the copy that was looked up; what it misses is told by `gaps`."""
        self._check(topic, partition)
        return 0, self._cuts[-1].commit.next

    @override
    def topic_id(self, topic: str) -> str:
        return self._raw.topic_id if topic == self._raw.topic else ""

    @override
    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        """The leader's epoch is the one that the backup saw last in its cut."""
        self._check(topic, partition)
        for chain, commit in self._cuts:
            if commit.next <= start or commit.first >= end:
                continue
            files = [self._messages(chain, commit, file) for file in commit.files if file.records]
            messages = (each for each in heapq.merge(*files, key=attrgetter("offset")) if start <= each.offset < end)
            while batch := list(islice(messages, _BATCH)):
                yield MessageBatch(batch, commit.leader_epoch)

    @override
    def epoch_before(self, topic: str, partition: int, offset: int) -> int | None:
        """A copy is not truncated."""
        return None

    def gaps(self, first: int, until: int) -> list[tuple[int, int]]:
        """Parts of [first, until) that Kafka no longer had when the copy was made."""
        gaps: list[Gap] = [gap for each in self._cuts for gap in each.commit.gaps]
        return [(max(g.first, first), min(g.until, until)) for g in gaps if g.first < until and first < g.until]

    def _check(self, topic: str, partition: int) -> None:
        if (topic, partition) != (self._raw.topic, self._partition):
            raise Terminal("another partition than the copy was opened for", topic=topic, partition=partition)

    def _messages(self, chain: ChainKey, commit: Commit, file: CutObject) -> Iterator[Message]:
        """Those of one file, in the order of their offsets."""
        refused = chain.parse_data(file.key, commit.first).refused
        reader = SequenceReader(io.BytesIO(self._body(file)))
        if not isinstance(layout_of(reader.header), VerbatimKey):
            raise Terminal(
                "a raw object does not keep all of its records",
                key=file.key,
                allowed="SequenceFiles of the layout verbatim",
                fix="Backfill from Kafka while it has them, or from a group that keeps records whole.",
            )
        before = commit.first - 1
        for message in read_messages(reader):
            if not before < message.offset < commit.next:
                raise Terminal(
                    "offsets of a raw object are out of order or outside of its cut",
                    key=file.key,
                    offset=message.offset,
                    after=before,
                    fix="Run `lyrebird audit chain --deep` on the topic.",
                )
            before = message.offset
            yield _as_it_came(message) if refused else message

    def _body(self, file: CutObject) -> bytes:
        if self._held[0] == file.key:
            return self._held[1]
        found = self._runner.ask(lambda: self._store.get(file.key))
        body = found.body if found else None
        digest = hashlib.sha256(body).hexdigest() if body is not None else None
        if body is None or digest != file.sha256:
            raise _changed(file.key, file.sha256, digest)
        self._held = file.key, body
        return body


def check_source(store: ObjectStore, source: RawObject) -> None:
    """Raise `Terminal` unless the object is there, with the size and the digest that its commit says; a HEAD."""
    found = store.head(source.key)
    metadata = (found.metadata or {}) if found else {}
    if found is None or found.size_bytes != source.bytes or metadata.get("sha256", source.sha256) != source.sha256:
        raise _changed(source.key, source.sha256, metadata.get("sha256"))


def _as_it_came(message: Message) -> Message:
    """A record that the backup set aside, without the reason behind its headers."""
    *headers, last = message.headers or (("", None),)
    if last[0] != REFUSED_HEADER:
        raise Terminal("a record that was set aside does not say why", offset=message.offset, fix="Read it by hand.")
    return message._replace(headers=tuple(headers))


def _changed(key: str, committed: str, found: str | None) -> Terminal:
    return Terminal(
        "a raw object is not as its commit says" if found else "a raw object is gone or without its digest",
        key=key,
        sha256=found,
        committed=committed,
        fix="Run `lyrebird audit chain --deep` on the topic; does the bucket keep older versions of the object?",
    )
