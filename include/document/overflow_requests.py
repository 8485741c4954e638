"""More keys than one batch takes: asked for again by requests of the assembler's own, some keys each.

One statement in the source can ask for any number of documents (a dimension's UPDATE, a TRUNCATE), and so can the hours
that an assembler stood still. A transaction of the log ends by itself after minutes, so no number of tries would get
them through in one. What is beyond `batch_keys` is therefore written down as requests, in the transaction that commits
the signals' offsets, and worked off a batch at a time; until then the documents' resolved topic names the tables.
Beyond `MOST_KEYS` the keys are not even gathered: a request stands for all documents behind the changed rows, and finds
them a page at a time (`behind`). Where not even the rows are gathered, it stands for all documents.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import orjson

from include.document.behind import Reach, values_text, way
from include.document.definition import FactTable
from include.log.requests.records import Request

__all__ = ["MOST_KEYS", "OWN", "key_text", "reached", "spread"]

MOST_KEYS: Final = 200_000
"""Most keys that are gathered for one batch's signals."""
OWN: Final = "signals"
"""Ids of these requests: this, `-`, the version of the batch's resolved record, `-` and a number."""
_MOST_BYTES: Final = 200_000

DocumentKey = tuple[Any, ...]


def key_text(key: DocumentKey) -> str:
    """What `rebuild.parse_key` reads: as a document's id, but never a hash."""
    return str(key[0]) if len(key) == 1 else orjson.dumps(list(key)).decode()


def spread(
    keys: Iterable[DocumentKey] | None, version: int, most: int, by: str, at_us: int, known: Callable[[str], bool]
) -> list[Request]:
    """Makes requests for keys that are more than a batch takes. Deterministic.

    Args:
        keys: of documents; None: one request for all documents. No keys, no requests.
        version: of the batch's resolved record; ids are made of it.
        most: keys of one request.
        by: the application that asks.
        at_us: time of the requests, µs.
        known: whether an id is taken, as batches may share a resolved record.
    """
    ids = _ids(version, known)
    if keys is None:
        return [Request(next(ids), "rebuild", by, at_us)]
    return [Request(next(ids), "repair", by, at_us, keys=some) for some in _parts(map(key_text, keys), most)]


def reached(
    fact: FactTable,
    reach: Reach,
    unasked: Callable[[str, Iterable[str]], list[str]],
    version: int,
    most: int,
    by: str,
    at_us: int,
    known: Callable[[str], bool],
) -> list[Request]:
    """Makes requests for the documents behind values, as `spread` does for keys.

    Args:
        fact: the documents' fact table.
        reach: the way to the documents, and the values behind which they are.
        unasked: of (way, values), both as texts, gives the values that no waiting request has.
        version: of the batch's resolved record; ids are made of it.
        most: values of one request.
        by: the application that asks.
        at_us: time of the requests, µs.
        known: whether an id is taken.
    """
    where, tables = way(fact, reach.hops), tuple(hop.table for hop in reach.hops)
    texts = unasked(where, dict.fromkeys(map(values_text, reach.values)))
    ids = _ids(version, known)
    return [Request(next(ids), "rebuild", by, at_us, tables, some, where) for some in _parts(texts, most)]


def _ids(version: int, known: Callable[[str], bool]) -> Iterator[str]:
    return (id_ for n in itertools.count() if not known(id_ := f"{OWN}-{version}-{n}"))


def _parts(texts: Iterable[str], most: int) -> Iterator[tuple[str, ...]]:
    """As many as a request holds."""
    some: list[str] = []
    size_bytes = 0
    for text in texts:
        if some and (len(some) == most or size_bytes + len(text.encode()) > _MOST_BYTES):
            yield tuple(some)
            some, size_bytes = [], 0
        some.append(text)
        size_bytes += len(text.encode())
    if some:
        yield tuple(some)
