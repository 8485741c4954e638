"""Documents of the output topic that are older than a version: what a floor or the end of a rebuild has to look at.

Nobody holds them all in memory: whoever looks gives keys one after the other, and they are taken a page at a time. A
page is asked for by the last key of the one before it, so a restart needs no more than that key.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from include.log.ports import LogReader
from include.record import version as versions

__all__ = ["Find", "LivingPages", "by_reader"]

Find = Callable[[int, bytes], Iterator[bytes]]
"""`find(version, after)`: keys above `after` whose newest record is a document older than `version`, ascending.

Newest is the record of the greatest version, whatever partition it is in.
"""


class LivingPages:
    """Pages of one search after the other; a page that is asked for again is the same."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._keys: Iterator[bytes] = iter(())
        self._next: tuple[int, bytes] | None = None
        self._asked: tuple[int, bytes, int] | None = None
        self._page: list[bytes] = []

    def page(self, version: int, after: bytes, most: int) -> list[bytes]:
        """The next `most` keys above `after` (b'': from the least); fewer at the end. May read the whole topic."""
        if (version, after, most) == self._asked:
            return self._page
        known, self._next, self._asked = self._next, None, None
        if (version, after) != known:
            self._keys = self._find(version, after)
        self._page = list(itertools.islice(self._keys, most))
        self._asked = version, after, most
        self._next = (version, self._page[-1]) if self._page else None
        return self._page


def by_reader(reader: LogReader, topic: str) -> Find:
    """Reads the topic in this process, which holds all its keys for that long: for small topics, and tests."""

    def find(version: int, after: bytes) -> Iterator[bytes]:
        newest: dict[bytes, tuple[int, bool]] = {}
        begins = reader.begin_offsets(topic)
        for partition, end in reader.end_offsets(topic).items():
            for record in reader.read(topic, partition, begins[partition], end):
                if record.key is not None and record.key > after:
                    at = versions.from_headers(record.headers), record.value is not None
                    newest[record.key] = max(at, newest.get(record.key, at))
        return iter(sorted(key for key, (at, live) in newest.items() if live and at < version))

    return find
