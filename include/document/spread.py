"""More keys than one batch takes: asked for again by requests of the assembler's own, some keys each.

One statement in the source can ask for any number of documents (a dimension's UPDATE, a TRUNCATE), and so can the hours
that an assembler stood still. A transaction of the log ends by itself after minutes, so no number of tries would get
them through in one. What is beyond `batch_keys` is therefore written down as requests, in the transaction that commits
the signals' offsets, and worked off a batch at a time; until then the documents' resolved topic names the tables.
Beyond `MOST_KEYS` the keys are not even gathered: one request for all documents stands for them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final

import orjson

from include.log.requests import Request

__all__ = ["MOST_KEYS", "OWN", "key_text", "spread"]

MOST_KEYS: Final = 200_000
"""Most keys that are gathered for one batch's signals."""
OWN: Final = "signals"
"""Ids of these requests: this, `-`, the version of the batch's resolved record, `-` and a number."""
_MOST_BYTES: Final = 200_000

Key = tuple[Any, ...]


def key_text(key: Key) -> str:
    """What `rebuild.parse_key` reads: as a document's id, but never a hash."""
    return str(key[0]) if len(key) == 1 else orjson.dumps(list(key)).decode()


def spread(
    keys: Iterable[Key] | None, version: int, most: int, by: str, at_us: int, known: Callable[[str], bool]
) -> list[Request]:
    """Requests for these keys, `most` each at most (None: one for all documents); none for no keys.

    Deterministic. `known`: ids that are taken, as batches may share a resolved record.
    """
    ids = (id_ for n in itertools.count() if not known(id_ := f"{OWN}-{version}-{n}"))
    if keys is None:
        return [Request(next(ids), "rebuild", by, at_us)]
    found: list[Request] = []
    some: list[str] = []
    size_bytes = 0
    for text in map(key_text, keys):
        if some and (len(some) == most or size_bytes + len(text.encode()) > _MOST_BYTES):
            found.append(Request(next(ids), "repair", by, at_us, keys=tuple(some)))
            some, size_bytes = [], 0
        some.append(text)
        size_bytes += len(text.encode())
    return found + ([Request(next(ids), "repair", by, at_us, keys=tuple(some))] if some else [])
