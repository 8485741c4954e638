"""Brings a document that an index takes, for a delivery of which the server took none: see `suspects`.

Where records are rare, a batch has one document, and the next batch waits for it: none of its siblings can bear
witness. So there is one to be had without them:

1. the last document that this process has had written, as it was sent;
2. where there is none, as the process has just begun, a living document of the index, as it is stored. It has been
   through the pipelines before, and some cannot take what they made (a `rename`, which misses the older name). Then it
   does not pass, and the suspect waits for a witness of the first kind.

Either is looked at before, realtime: its state or a newer one is there, so it conflicts (409) and changes nothing. One
that was purged since would live again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from include.errors import LyrebirdError
from include.index.bulk.request import BulkLine, action_of
from include.index.server.port import SearchIndex

__all__ = ["MOST_WITNESS_BYTES", "Witness"]

MOST_WITNESS_BYTES: Final = 64 * 1024
_TRIED: Final = 3
_ANY_VERSION: Final = 1 << 53


class Witness:
    """That of one index, for all deliveries of a process, one after the other.

    Args:
        index: the server.
        name: of the index.
        topics: that fill it.
    """

    def __init__(self, index: SearchIndex, name: str, topics: Sequence[str]) -> None:
        self._index = index
        self._name = name
        self._topics = topics
        self._taken: BulkLine | None = None

    def took(self, lines: Sequence[BulkLine]) -> None:
        """The server has written these."""
        line = next((line for line in reversed(lines) if not line.deleted), None)
        if line is not None and len(line.data) <= MOST_WITNESS_BYTES:
            self._taken = BulkLine(None, line.data)

    def bring(self) -> BulkLine | None:
        """A line that the index answers with a conflict; None: there is none, or the server does not say."""
        try:
            return self._last() or self._stored()
        except LyrebirdError:
            return None

    def _last(self) -> BulkLine | None:
        if self._taken is None:
            return None
        action = action_of(self._taken)
        there = self._index.get(self._name, action["_id"], action.get("routing"))
        return self._taken if there is not None and there.version >= action["version"] else None

    def _stored(self) -> BulkLine | None:
        for topic in self._topics:
            for found in self._index.living_below(self._name, topic, _ANY_VERSION, _TRIED):
                there = self._index.get(self._name, found.doc_id, found.routing)
                if there is None or there.deleted:
                    continue
                action = {"_id": there.doc_id, "version": there.version, "version_type": "external"}
                if found.routing is not None:
                    action["routing"] = found.routing
                data = b"%b\n%b\n" % (orjson.dumps({"index": action}), orjson.dumps(there.source))
                if len(data) <= MOST_WITNESS_BYTES:
                    return BulkLine(None, data)
        return None
