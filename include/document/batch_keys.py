"""Finds the keys that a batch writes, with their versions: those behind its signals, and a request's next chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from include.document.behind import Reach, WalkPage, page, values_of, way
from include.document.definition import DocumentDefinition, Hop
from include.document.encoders import DocumentEncoders
from include.document.overflow_requests import MOST_KEYS
from include.document.reading.lookup import keys_behind, spelled
from include.document.reading.tables import NoSuchTable, Tables
from include.document.rebuild import Rebuild, parse_key
from include.document.signals import Signals
from include.document.topic_state import LivingPages

__all__ = ["AffectedKeys", "KeyChunk", "KeyFinder"]

DocumentKey = tuple[Any, ...]


@dataclass(frozen=True)
class KeyChunk:
    """A request's next keys, what stands of the request after them, and whether that is its end.

    `reach`: more documents that are behind this chunk.
    """

    keys: frozenset[DocumentKey]
    after: Rebuild
    finished: bool
    reach: Reach | None = None


@dataclass(frozen=True)
class AffectedKeys:
    """Keys behind signals, with their newest versions; `reaches` stand for those that are too many."""

    keys: dict[DocumentKey, int]
    reaches: list[Reach]


class KeyFinder:
    """Finds keys in the tables and in the output topic."""

    def __init__(self, definition: DocumentDefinition, living: LivingPages, decode: Callable[[bytes], Any]) -> None:
        self._definition = definition
        self._living = living
        self._decode = decode
        self._ways = {way(definition.fact, path.hops): path.hops for path in definition.ways()}

    def by_signals(self, tables: Tables, signals: Signals, below: Iterable[DocumentKey]) -> AffectedKeys | None:
        """Every key that the signals ask for; None: too many, all documents may be meant.

        `below`: keys of documents that are older than the signals' floor.
        """
        keys = dict(signals.keys)
        if signals.everything:
            return None
        reaches: list[Reach] = []
        for number, path in enumerate(self._definition.paths()):
            rows = {values: version for (n, values), version in signals.rows.items() if n == number}
            found = keys_behind(tables, self._definition.fact, path, rows, MOST_KEYS)
            if found is None:
                reaches.append(Reach(path.hops, tuple(rows)))
                continue
            for key, version in found.items():
                keys[key] = max(version, keys.get(key, 0))
        for key in below:
            keys[key] = max(signals.floor, keys.get(key, 0))
        return AffectedKeys(keys, reaches)

    def by_request(self, tables: Tables, work: Rebuild, version: int, encoders: DocumentEncoders) -> KeyChunk:
        """The next chunk of `work`, to be stamped with `version`.

        A way that the definition has no more stands for all documents.
        """
        hops = self._ways.get(work.request.where)
        if hops is not None:
            return self._by_way(tables, hops, work, version, encoders.order)
        if work.request.kind == "repair":
            keys = [parse_key(text, encoders.numbers) for text in work.request.keys]
            finished, after = True, None
        else:
            fact, most = self._definition.fact, self._definition.rebuild_keys
            try:
                keys = tables.keys_after(fact.table, fact.key, work.after, most)
            except NoSuchTable:  # dropped since the start: it has no keys
                keys = []
            finished = len(keys) < most
            after = keys[-1] if keys else work.after
            keys = spelled(tables, fact.table, fact.key, keys)
            if finished:
                return KeyChunk(frozenset(keys), work.advanced(len(set(keys)), after, version).walked(), finished=False)
        distinct = frozenset(keys)
        return KeyChunk(distinct, work.advanced(len(distinct), after, version), finished)

    def _by_way(
        self, tables: Tables, hops: tuple[Hop, ...], work: Rebuild, version: int, order: Sequence[str]
    ) -> KeyChunk:
        definition, fact = self._definition, self._definition.fact
        reach = Reach(hops, tuple(map(values_of, work.request.keys)))
        try:
            step = page(tables, fact, order, reach, work.place, definition.rebuild_keys)
        except NoSuchTable:
            if hops[1:]:
                raise
            step = WalkPage([], (), (len(reach.values), None), finished=True)  # Dropped since the start.
        keys = frozenset(() if step.rest else step.found)
        after = replace(work.advanced(len(keys), None, version), place=step.next)
        rest = Reach(step.rest, tuple(step.found)) if step.rest and step.found else None
        return KeyChunk(keys, after, step.finished, rest)

    def by_topic(self, work: Rebuild, version: int) -> KeyChunk:
        """The next chunk of documents that are older than `work`: the table has them no more, or a floor renews them.

        Not for use within a snapshot, as it may read the whole topic.
        """
        most, after = self._definition.rebuild_keys, work.swept or b""
        page = self._living.page(work.since, after, most)
        advanced = work.advanced(len(page), work.after, version).walked(page[-1] if page else after)
        return KeyChunk(frozenset(map(self._key, page)), advanced, finished=len(page) < most)

    def below(self, floor: int) -> tuple[list[DocumentKey], bytes | None]:
        """Keys of documents older than `floor`, as many as one batch takes, and the last one where there may be more.

        Not for use within a snapshot, as it may read the whole topic.
        """
        page = self._living.page(floor, b"", self._definition.batch_keys)
        return list(map(self._key, page)), page[-1] if len(page) == self._definition.batch_keys else None

    def _key(self, key: bytes) -> DocumentKey:
        return tuple(self._decode(key).values())
