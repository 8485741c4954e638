"""Which keys a batch has to write, and with which versions: those behind its signals, and a request's next chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from include.document.definition import DocumentDefinition
from include.document.lookup import fact_rows, keys_behind
from include.document.rebuild import Rebuild, parse_key
from include.document.signals import Signals
from include.document.spread import MOST_KEYS
from include.document.tables import NoSuchTable, Tables
from include.log.ports import LogReader
from include.record import version as versions

__all__ = ["Chunk", "Wanted"]

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Chunk:
    """A request's next keys, what stands of the request after them, and whether that is its end."""

    keys: frozenset[Key]
    after: Rebuild
    finished: bool


class Wanted:
    """Finds keys in the tables and in the output topic."""

    def __init__(
        self, definition: DocumentDefinition, topic: str, reader: LogReader, decode: Callable[[bytes], Any]
    ) -> None:
        self._definition = definition
        self._topic = topic
        self._reader = reader
        self._decode = decode

    def by_signals(self, tables: Tables, signals: Signals, below: Iterable[Key]) -> dict[Key, int] | None:
        """Every key that the signals ask for, with its newest version; None: too many, all documents may be meant.

        `below`: what `live_below` says of the signals' floor.
        """
        keys = dict(signals.keys)
        if signals.everything:
            return None
        for number, path in enumerate(self._definition.paths()):
            rows = {values: version for (n, values), version in signals.rows.items() if n == number}
            found = keys_behind(tables, self._definition.fact, path, rows, MOST_KEYS)
            if found is None:
                return None
            for key, version in found.items():
                keys[key] = max(version, keys.get(key, 0))
        for key in below:
            keys[key] = max(signals.floor, keys.get(key, 0))
        return keys

    def by_request(self, tables: Tables, work: Rebuild, version: int, numbers: list[bool]) -> Chunk:
        """The next chunk of `work`, to be stamped with `version`; `numbers`: which parts of a key are integers."""
        if work.request.kind == "repair":
            keys = [parse_key(text, numbers) for text in work.request.keys]
            finished, after = True, None
        else:
            fact, most = self._definition.fact, self._definition.rebuild_keys
            try:
                keys = tables.keys_after(fact.table, fact.key, work.after, most)
            except NoSuchTable:  # dropped since the start: it has no keys
                keys = []
            finished = len(keys) < most
            after = keys[-1] if keys else work.after
            if not all(numbers):  # Texts that the column holds equal are keys of their own.
                found = fact_rows(tables, fact.table, fact.key, fact.key, keys, MOST_KEYS)
                keys = [tuple(row[name] for name in fact.key) for row in found]
            if finished:
                # Keys of the topic that the table has no more, nor had when the walk passed them.
                keys = keys + self.live_below(work.since or version)
        distinct = frozenset(keys)
        return Chunk(distinct, work.advanced(len(distinct), after, version), finished)

    def live_below(self, version: int) -> list[Key]:
        """Keys of the output topic whose newest record is a document older than `version`. Reads the whole topic."""
        newest: dict[bytes, tuple[int, bool]] = {}
        begins = self._reader.begin_offsets(self._topic)
        for partition, end in self._reader.end_offsets(self._topic).items():
            for record in self._reader.read(self._topic, partition, begins[partition], end):
                if record.key is not None:
                    newest[record.key] = versions.from_headers(record.headers), record.value is not None
        return [tuple(self._decode(key).values()) for key, (at, live) in newest.items() if live and at < version]
